"""Where a reader that nobody coordinates keeps its positions: a file, a database, the service's group.

In: a store, cursors by shard.
Out: what is kept, what became of each write, where a reader begins.
May touch: one file and its folder; one table of a database; the service.
"""
