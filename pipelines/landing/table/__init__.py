"""The lake's table: its contract, its catalog, and what its files are.

In: the settings of a logstore, a catalog, a table as it was loaded, text of a declared column.
Out: a table to work on or a refusal, schemas, casts, entries of written files, filters.
May touch: the catalog and the storage. Knows no ledger and no logs.
"""
