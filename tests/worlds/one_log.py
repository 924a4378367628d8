"""One log, and the logstore that it is put into."""

PROJECT, LOGSTORE = "demo", "logs"


ONE_LOG = bytes.fromhex("0a0e0880e2cfaa0612060a016b120176")
"""A LogGroup with one log of 2023-11-14, {k: v}."""
