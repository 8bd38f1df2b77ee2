"""Results of one scenario on one node, one an hour, for tests of its history."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.timestamps import format_time
from inferometer_results.store.store import Store
from support.stored_results import CLUSTER, ORIGIN

NODE = "node-7"
SLOW_CPU = "500m"
"""The CPU of the server after the step: no condition of comparability, but another spec."""
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


def a_slower_spec() -> list[dict[str, Any]]:
    """Return results whose specification changes with their median."""
    documents = a_step_up()
    for each in documents[20:]:
        each["run"]["spec"]["server"]["resources"]["cpu"] = SLOW_CPU
    return documents


class HistoryMachine:
    """Takes the place of measurements: the median depends on the CPU of the server."""

    def __init__(self, slow: float, scatter: float = 0.001) -> None:
        self.slow = slow
        self.scatter = scatter
        self.measured: list[str] = []

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result of a run."""
        cpu = run.spec.server.resources.cpu
        milliseconds = self.slow if cpu == SLOW_CPU else 10.0
        number = len(self.measured)
        self.measured.append(cpu)
        document = copy.deepcopy(
            a_history_document(number, milliseconds * (1 + number % 3 * self.scatter))
        )
        document["run"] = run.model_dump(mode="json", by_alias=True, exclude_none=True)
        return ResultDocument.model_validate_json(json.dumps(document))
