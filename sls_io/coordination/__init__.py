"""Who reads which shard: claims that are kept by heartbeats, and checkpoints.

In: a group, a holder, shards.
Out: claims, and what the service answers to a checkpoint.
May touch: the service, a thread for heartbeats.
"""
