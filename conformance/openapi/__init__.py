"""The program with the vendor's OpenAPI SDK for Python: `python -m conformance.openapi talk`."""
