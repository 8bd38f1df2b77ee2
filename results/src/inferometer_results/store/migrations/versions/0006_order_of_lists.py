"""The best value of each figure of a result, and indexes in the orders of lists.

The index is filled again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_BEFORE = (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite"),
)
_NEW = (
    *("cluster_uid", "source", "outcome", "model_version", "engine", "server", "device"),
    *("protocol", "cpu", "gpu"),
)
_RATES = ("qps", "samples", "peak")
_OTHERS = ("batch", "clients", "queries", "errors", "p50", "p90", "p99", "p999", "energy")


def upgrade() -> None:
    """Add the columns, and make the indexes anew."""
    for name in _RATES:
        op.add_column("result", sa.Column(f"best_{name}", sa.Double(), nullable=True))
    for name in _OTHERS:
        op.add_column("result", sa.Column(f"best_{name}", sa.BigInteger(), nullable=True))
    for name in _BEFORE:
        op.drop_index(f"result_by_{name}", "result")
    for name in (*_BEFORE, *_NEW, *(f"best_{each}" for each in (*_RATES, *_OTHERS))):
        op.create_index(
            f"result_by_{name}",
            "result",
            [name, sa.text("started_at DESC"), sa.text("number DESC"), "retracted"],
        )
