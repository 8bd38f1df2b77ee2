"""Results of one scenario on one node, one an hour, for tests of its history."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from inferometer_api.timestamps import format_time
from inferometer_results.store.store import Store
from support.stored_results import CLUSTER, ORIGIN

NODE = "node-7"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_TEMPLATE = copy.deepcopy(CLUSTER)
_TEMPLATE["scenarios"] = _TEMPLATE["scenarios"][:1]
_TEMPLATE["run"]["spec"]["scenarios"] = _TEMPLATE["run"]["spec"]["scenarios"][:1]
SCENARIO: str = _TEMPLATE["scenarios"][0]["name"]


def a_history_document(number: int, milliseconds: float) -> dict[str, Any]:
    """Return the `number`th result, with this median."""
    document: dict[str, Any] = copy.deepcopy(_TEMPLATE)
    document["runId"] = f"run-{number:05}"
    document["startedAt"] = format_time(_BEGAN + timedelta(hours=number))
    document["run"]["metadata"]["labels"] = {"commit": f"c{number}"}
    latency = document["scenarios"][0]["steps"][0]["latency"]
    nanoseconds = round(milliseconds * 1e6)
    for each in latency["percentiles"]:
        if each["percentile"] == 50.0:
            each |= {key: nanoseconds for key in each if key.endswith("anoseconds")}
    return document


def a_step_up(before: int = 20, after: int = 6, ratio: float = 1.2) -> list[dict[str, Any]]:
    """Return results whose median rises by a ratio; neighbours differ by 0.2 %."""
    return [
        a_history_document(at, (10.0 if at < before else 10.0 * ratio) * (1 + 0.002 * (at % 2)))
        for at in range(before + after)
    ]


def add_all(store: Store, documents: Sequence[dict[str, Any]]) -> list[str]:
    """Keep documents; return their IDs in order."""
    return [store.add(json.dumps(each).encode(), ORIGIN, source="x").id for each in documents]
