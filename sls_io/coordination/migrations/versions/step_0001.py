"""The two tables as they began."""

import sqlalchemy as sa
from alembic import op

from sls_io.coordination.lease_tables import name_type

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them, where they are not."""
    op.create_table(
        "loghub_client_worker_instance",
        sa.Column("consume_group", name_type(128), primary_key=True),
        sa.Column("logstream_sig", name_type(255), primary_key=True),
        sa.Column("worker_instance", name_type(128), primary_key=True),
        sa.Column("create_time", sa.BigInteger, nullable=False),
        if_not_exists=True,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
    )
    op.create_table(
        "loghub_client_shard_lease",
        sa.Column("consume_group", name_type(128), primary_key=True),
        sa.Column("logstream_sig", name_type(255), primary_key=True),
        sa.Column("shard_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("lease_id", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", name_type(128), nullable=False),
        sa.Column("consumer_owner", name_type(128), nullable=False),
        sa.Column("check_point", sa.BigInteger, nullable=True),
        sa.Column("update_time", sa.BigInteger, nullable=False),
        if_not_exists=True,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
    )


def downgrade() -> None:
    """Refused: the leases and checkpoints of running workers would be gone."""
    raise NotImplementedError("stop the workers and drop the tables by hand")
