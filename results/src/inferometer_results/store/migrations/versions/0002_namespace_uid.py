"""The UID of a result's namespace: a later namespace of the same name is another one."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column, and the index by which the results of a namespace are found."""
    for table in ("document", "result"):
        op.add_column(
            table, sa.Column("namespace_uid", sa.String(), nullable=False, server_default="")
        )
    op.create_index("result_by_namespace_uid", "result", ["namespace_uid", "started_at"])
