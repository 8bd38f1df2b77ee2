"""The index by node and model has the start too: nodes are listed by it alone."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the index anew."""
    op.drop_index("result_by_place", "result")
    op.create_index("result_by_place", "result", ["node", "model", "started_at", "retracted"])
