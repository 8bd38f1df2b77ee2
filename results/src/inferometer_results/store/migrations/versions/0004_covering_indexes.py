"""Indexes that answer by themselves which measurements rank, and which results have a label.

The index is filled again: comparability keys hold more conditions than before.
"""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the indexes anew, with more columns."""
    op.create_index("result_by_suite", "result", ["suite", "started_at", "retracted"])
    op.drop_index("label_by_name", "label")
    op.create_index("label_by_name", "label", ["name", "value", "origin", "result_id"])
    for name, column in (
        ("p50", "p50_nanoseconds"),
        ("p99", "p99_nanoseconds"),
        ("qps", "qps"),
        ("energy", "microjoules_per_inference"),
    ):
        op.drop_index(f"measurement_by_{name}", "measurement")
        op.create_index(
            f"measurement_by_{name}",
            "measurement",
            [column, "result_id", "headline", "verdict", "position"],
        )
