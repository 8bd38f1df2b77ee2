"""The sets of nodes that served results, for their prices.

The index is filled again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table, its key in results, and their index."""
    op.create_table(
        "node_set",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.add_column("result", sa.Column("node_set", sa.String(), nullable=False, server_default=""))
    op.create_index(
        "result_by_cost",
        "result",
        ["node_set", "best_samples", "started_at", "number", "retracted", "id"],
    )
