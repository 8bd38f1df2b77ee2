"""The indexes of the table `result` from revision 0011 on: what makes it anew needs all."""

from typing import Any

import sqlalchemy as sa

_LISTS = (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite", "cluster_uid", "source", "outcome", "model_version", "engine"),
    *("server", "device", "protocol", "cpu", "gpu"),
    *("best_batch", "best_clients", "best_queries", "best_errors", "best_qps", "best_samples"),
    *("best_peak", "best_p50", "best_p90", "best_p99", "best_p999", "best_energy"),
)
RESULT_INDEXES: dict[str, list[str | sa.TextClause | sa.ColumnElement[Any]]] = {
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
"""Their columns, by name. A revision that changes them has its own list."""
