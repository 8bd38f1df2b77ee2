"""A smaller index: rows name their result by its number, and newer results come last.

PostgreSQL fills the pages of an index that grows at its end, and leaves those half empty that grow
at the beginning.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_LISTS = (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite", "cluster_uid", "source", "outcome", "model_version", "engine"),
    *("server", "device", "protocol", "cpu", "gpu"),
    *("best_batch", "best_clients", "best_queries", "best_errors", "best_qps", "best_samples"),
    *("best_peak", "best_p50", "best_p90", "best_p99", "best_p999", "best_energy"),
)
_FIGURES = (
    ("p50", "p50_nanoseconds"),
    ("p99", "p99_nanoseconds"),
    ("qps", "qps"),
    ("energy", "microjoules_per_inference"),
)


def upgrade() -> None:
    """Make both tables and all these indexes anew."""
    for name in _LISTS:
        op.drop_index(f"result_by_{name}", "result")
        op.create_index(
            f"result_by_{name}",
            "result",
            [sa.text(f"{name} DESC"), "started_at", "number", "retracted"],
        )
    _make_anew(
        "label",
        ("origin", "name"),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
    )
    op.create_index("label_by_name", "label", ["name", "value", "origin", "result_number"])
    _make_anew(
        "measurement",
        ("position",),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("scenario", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("headline", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("reasons", sa.String(), nullable=False),
        sa.Column("batch_size", sa.BigInteger(), nullable=False),
        sa.Column("clients", sa.BigInteger(), nullable=True),
        sa.Column("queries", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_qps", sa.Double(), nullable=True),
        sa.Column("qps", sa.Double(), nullable=False),
        sa.Column("samples_per_second", sa.Double(), nullable=False),
        sa.Column("peak_qps", sa.Double(), nullable=True),
        sa.Column("p50_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p90_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p99_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p999_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("microjoules_per_inference", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.String(), nullable=False),
    )
    op.create_index("measurement_by_key", "measurement", ["key"])
    for name, column in _FIGURES:
        op.create_index(
            f"measurement_by_{name}", "measurement", [column, "result_number", "verdict"]
        )


def _make_anew(table: str, own_key: tuple[str, ...], *columns: sa.Column[object]) -> None:
    """Give the rows of a table the number of their result instead of its ID."""
    own = ", ".join(each.name for each in columns)
    before = f"{table}_before"
    op.execute(
        f"CREATE TABLE {before} AS SELECT document.number AS result_number, "  # noqa: S608 - our own names
        f"{', '.join(f'{table}.{each.name}' for each in columns)} "
        f"FROM {table} JOIN document ON document.id = {table}.result_id"
    )
    op.drop_table(table)
    op.create_table(
        table,
        sa.Column("result_number", sa.BigInteger(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(["result_number"], ["document.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result_number", *own_key),
    )
    op.execute(
        f"INSERT INTO {table} (result_number, {own}) SELECT result_number, {own} FROM {before}"  # noqa: S608 - our own names
    )
    op.drop_table(before)
