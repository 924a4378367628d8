"""What Alembic runs first: it migrates over the connection that it is given, and nowhere else."""

from alembic import context

from sls_io.coordination.lease_tables import METADATA

_given = context.config.attributes
context.configure(
    connection=_given["connection"],
    target_metadata=METADATA,
    version_table=_given["version_table"],
    transactional_ddl=False,  # the transaction is the caller's, who holds a lock in it
)
context.run_migrations()
