"""The sensors of a logstore: demand for a run, sealed hours, health."""
