"""Documents of other kinds than results, by kind and name."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the index."""
    op.create_index("document_by_kind", "document", ["kind", "name"])
