"""How the tables of leases came to be what they are, a step a file, carried out by Alembic.

In: a connection that `lease_tables.py` hands over.
Out: the tables, and the step they are at.
May touch: these tables of the database, nothing else.
"""
