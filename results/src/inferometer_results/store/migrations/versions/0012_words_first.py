"""The words of a result stand first in its row: a search by words reads every row up to them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

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
_LISTS = (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite", "cluster_uid", "source", "outcome", "model_version", "engine"),
    *("server", "device", "protocol", "cpu", "gpu", *_BEST),
)
_INDEXES: dict[str, list[str | sa.TextClause | sa.ColumnElement[Any]]] = {
    "result_by_time": ["started_at", "number", "id", "retracted"],
    "result_by_number": ["number", "retracted"],
    "result_by_place": ["node", "model", "started_at", "retracted"],
    "result_by_spec": ["spec_digest", "node", "started_at", "retracted"],
    "result_by_cost": ["node_set", "best_samples", "started_at", "number", "retracted", "id"],
    **{
        f"result_by_{name}": [sa.text(f"{name} DESC"), "started_at", "number", "retracted"]
        for name in _LISTS
    },
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
    for name, wanted in _INDEXES.items():
        op.create_index(name, "result", wanted)


def _text(name: str) -> sa.Column[str]:
    default = "" if name in _WITH_DEFAULT else None
    return sa.Column(name, sa.String(), nullable=False, server_default=default)
