"""The vendor's official clients in Java, Go and Python against the emulator: `make conformance`."""
