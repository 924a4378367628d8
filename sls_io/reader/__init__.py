"""A logstore opened to be read from Python: no engine, no table, no orchestration.

In: an endpoint, a project, a logstore; cursors or receive times; whoever decides who reads which shard.
Out: shards and how they stand, pages, Arrow batches, pandas frames; held shards with their checkpoints.
May touch: the service, a thread for heartbeats.
"""
