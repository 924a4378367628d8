"""Small looks that may be taken every minute: what changed, what waits, what is complete, what is wrong.

In: a logstore, its table and its service.
Out: facts and verdicts, by kind.
May touch: all of it, to read; few calls, no claim, no JVM.
"""
