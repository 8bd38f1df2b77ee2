"""The words of a result stand first in its row: a search by words reads every row up to them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from inferometer_results.store.migrations.result_indexes import RESULT_INDEXES

revision = "0012"
down_revision = "0011"

_TEXTS_BEFORE = ("cluster_uid", "namespace", "namespace_uid", "name", "run_uid", "source")
_TIMES = ("received_at", "started_at", "finished_at")
_TEXTS_AFTER = (
    *("outcome", "verdict", "place", "suite", "model", "model_version", "model_sha256"),
    *("runtime", "engine", "server", "device", "protocol", "node", "cpu", "gpu"),
    *("inferometer_version", "schema_version", "notice", "spec_digest", "node_set"),
)
_WITH_DEFAULT = {"namespace_uid", "spec_digest", "node_set"}
_BEST = {
    **dict.fromkeys(("best_batch", "best_clients", "best_queries", "best_errors"), sa.BigInteger),
    **dict.fromkeys(("best_qps", "best_samples", "best_peak"), sa.Double),
    **dict.fromkeys(("best_p50", "best_p90", "best_p99", "best_p999"), sa.BigInteger),
    "best_energy": sa.BigInteger,
}


def upgrade() -> None:
    """Make the table anew with its columns in another order."""
    columns: list[sa.Column[Any]] = [
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("retracted", sa.String(), nullable=True),
        sa.Column("words", sa.String(), nullable=False, server_default=""),
        *map(_text, _TEXTS_BEFORE),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0") for name in _TIMES),
        *map(_text, _TEXTS_AFTER),
        *(sa.Column(name, kind(), nullable=True) for name, kind in _BEST.items()),
    ]
    names = ", ".join(each.name for each in columns)
    op.execute("CREATE TABLE result_before AS SELECT * FROM result")
    op.drop_table("result")
    op.create_table(
        "result",
        *columns,
        sa.ForeignKeyConstraint(["id"], ["document.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.execute(f"INSERT INTO result ({names}) SELECT {names} FROM result_before")  # noqa: S608 - our own names
    op.drop_table("result_before")
    for name, wanted in RESULT_INDEXES.items():
        op.create_index(name, "result", wanted)


def _text(name: str) -> sa.Column[str]:
    default = "" if name in _WITH_DEFAULT else None
    return sa.Column(name, sa.String(), nullable=False, server_default=default)
