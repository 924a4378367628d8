"""The vendor's Python library, unmodified, in the same small programs as the Java and Go ones."""
