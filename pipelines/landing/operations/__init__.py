"""What a person asks for: rows taken back, landed again, removed, given up, explained anew.

In: a table as it was looked at, and what is wanted of it.
Out: a plan that says what would happen; with the go-ahead one commit.
May touch: the table by `commit` or by a run; the service, to ask what it still has.
"""
