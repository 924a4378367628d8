"""Who reads which shard: claims that are kept alive, and checkpoints.

In: a group, a holder, shards.
Out: claims, and what became of a checkpoint.
May touch: the service, or a database for leases.
"""
