"""The index is filled again: comparability keys hold more conditions than before."""

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Leave the tables as they are."""
