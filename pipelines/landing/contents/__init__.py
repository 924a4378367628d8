"""The rows that are there, beside those that the ledger explains.

In: a table, its ledgers, hours or files of it.
Out: rows, sums and files of an hour; whether they are the ledger's; files written anew.
May touch: data files, to read and to write new ones. Commits nothing.
"""
