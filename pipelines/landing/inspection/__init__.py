"""Looking without touching: what is there, whether it is proven, what would cure it, how long there is time.

In: a logstore, its table and its service.
Out: facts, verdicts, cures that were tried.
May touch: all of it, to read.
"""
