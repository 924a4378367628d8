"""The table kept small and swept, checkpoints made again.

In: a table, limits, the moment.
Out: what was compacted, expired, swept, repaired.
May touch: the table by `commit`; files and snapshots that nobody needs; checkpoints.
"""
