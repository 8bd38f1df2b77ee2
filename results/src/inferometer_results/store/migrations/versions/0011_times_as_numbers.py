"""Times of results are numbers: smaller than their texts in every index, and compared faster.

Counts of conditions on figures, and conditions on errors, have an index that is enough.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_TIMES = ("started_at", "finished_at", "received_at")
_LISTS = (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite", "cluster_uid", "source", "outcome", "model_version", "engine"),
    *("server", "device", "protocol", "cpu", "gpu"),
    *("best_batch", "best_clients", "best_queries", "best_errors", "best_qps", "best_samples"),
    *("best_peak", "best_p50", "best_p90", "best_p99", "best_p999", "best_energy"),
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
    """Put numbers in the place of the texts: damaged documents keep their rows."""
    connection = op.get_bind()
    texts = connection.execute(sa.text(f"SELECT id, {', '.join(_TIMES)} FROM result")).all()  # noqa: S608 - our own names
    for name in _INDEXES:
        op.drop_index(name, "result")
    for name in _TIMES:
        op.drop_column("result", name)
        op.add_column(
            "result", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")
        )
    if texts:
        connection.execute(
            sa.text(
                f"UPDATE result SET {', '.join(f'{name} = :{name}' for name in _TIMES)} "  # noqa: S608 - our own names
                "WHERE id = :id"
            ),
            [
                {"id": id_} | dict(zip(_TIMES, map(_milliseconds, times), strict=True))
                for id_, *times in texts
            ],
        )
    for name, columns in _INDEXES.items():
        op.create_index(name, "result", columns)
    op.create_index("measurement_by_errors", "measurement", ["errors", "result_number", "verdict"])


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
