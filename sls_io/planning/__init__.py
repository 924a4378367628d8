"""What a run pulls: the service is asked where its logs lie, and windows are cut without I/O.

In: a client, ledgers, a budget.
Out: a survey of each shard, and a plan: windows, and why a shard has none.
May touch: the service, in `survey` alone.
"""
