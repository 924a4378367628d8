"""Catalogs of vendors: what both engines must know of one, requests that are signed, what it does by itself.

In: the catalog's properties as somebody wrote them, a table's name.
Out: the properties that PyIceberg and Spark need, a catalog that signs, what expires and compacts a table.
May touch: the catalog, and where keys are. Knows no ledger and no files.
"""
