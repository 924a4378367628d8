"""What each shard weighs, as its holders measured: until here shards were shared by their number alone.

Story: a worker had the shard of the one busy tenant and as many quiet ones as everybody else. Who knew how
heavy a shard is had it already; who was to take it did not.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
_TABLE = "loghub_client_shard_lease"


def upgrade() -> None:
    """Add the column, where it is not. Of the shards that are there nobody has measured anything yet."""
    if "weight" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(_TABLE)}:
        op.add_column(_TABLE, sa.Column("weight", sa.BigInteger, nullable=True))


def downgrade() -> None:
    """Refused: an older release does not know this step, and leaves the tables alone."""
    raise NotImplementedError("stop the workers and drop the tables by hand")
