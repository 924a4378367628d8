"""An instance's creation and its last sign of life are two columns: until here one had both.

Story: a monitor that was written for LogHub's own tables reads `create_time` as when a worker was made, and
took each worker here for a few seconds old.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
_TABLE = "loghub_client_worker_instance"


def upgrade() -> None:
    """Add the column, where it is not. When an instance was created, nobody knows any more: it stays what it
    was, its last sign of life."""
    if "update_time" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(_TABLE)}:
        op.add_column(_TABLE, sa.Column("update_time", sa.BigInteger, nullable=False, server_default="0"))
        if op.get_bind().dialect.name != "sqlite":  # which cannot alter a column, and keeps its default
            op.alter_column(
                _TABLE,
                "update_time",
                server_default=None,
                existing_type=sa.BigInteger(),
                existing_nullable=False,
            )
    op.execute(f"UPDATE {_TABLE} SET update_time = create_time WHERE update_time = 0")


def downgrade() -> None:
    """Refused: what an older release would read is gone."""
    raise NotImplementedError("stop the workers and drop the tables by hand")
