"""The vendor's SDKs in five languages, seven of them, against the emulator: `make conformance`."""
