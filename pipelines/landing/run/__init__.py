"""A landing from claim to checkpoint.

In: a logstore, a budget, hours or the live end.
Out: a landing, its checkpoints, and a report.
May touch: the service, Spark, the table by `commit`.
"""
