"""What a person asks for where a table is not what its catalog or its ledger says.

In: a table, or what is left of one, and what a person knows that nothing else says.
Out: a plan that says what is found and would be done; with the go-ahead one commit, or one row of a catalog.
May touch: the table by `commit`, the catalog's row of it; the service, to ask where logs lie. No file.
"""
