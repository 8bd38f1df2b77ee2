"""Adds the columns that the explorer looks up: specifications, words, and comparability keys."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns and a table; the index is filled again afterwards."""
    for name in ("spec_digest", "words"):
        op.add_column("result", sa.Column(name, sa.String(), nullable=False, server_default=""))
    op.create_table(
        "conditions",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    for name in (
        "namespace",
        "namespace_uid",
        "name",
        "model",
        "model_sha256",
        "node",
        "runtime",
        "verdict",
    ):
        op.drop_index(f"result_by_{name}", "result")
        op.create_index(
            f"result_by_{name}", "result", [name, "started_at", "retracted"], unique=False
        )
    op.create_index("result_by_place", "result", ["node", "model", "retracted"], unique=False)
    op.create_index(
        "result_by_spec",
        "result",
        ["spec_digest", "node", "started_at", "retracted"],
        unique=False,
    )
    for name in ("p99", "qps"):
        op.drop_index(f"measurement_by_{name}", "measurement")
    for name, column in (
        ("p50", "p50_nanoseconds"),
        ("p99", "p99_nanoseconds"),
        ("qps", "qps"),
        ("energy", "microjoules_per_inference"),
    ):
        op.create_index(f"measurement_by_{name}", "measurement", [column, "result_id"])
