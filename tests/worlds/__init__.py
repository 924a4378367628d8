"""The worlds that several test files begin in. Each module gives one kind and what is done in it.

A fixture that a whole folder takes is imported by the folder's conftest. No module imports from a test file.
"""
