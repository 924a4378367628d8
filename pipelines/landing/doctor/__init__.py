"""All that a landing needs, tried before the first one.

In: the settings of a logstore.
Out: trials, each with what was sent, what came and what to change.
May touch: what it makes and takes away again, a consumer group, a table and files with names of their own.
"""
