"""The sensors of a logstore: topology, backlog, sealed hours, trouble, maintenance."""
