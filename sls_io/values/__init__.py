"""What all floors above speak of: windows, shards, ledgers, settings, errors, and the clock.

In: numbers and texts.
Out: values that check themselves, errors that name the thing and the cure.
May touch: nothing; `clock` and `deadline` the time.
"""
