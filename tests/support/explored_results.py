"""A store of real documents, varied so that every page of the explorer has something to show."""

import json
import random
from dataclasses import replace
from typing import Any

from inferometer_results.store.index_rows import JournalRow
from inferometer_results.store.store import Store
from support.stored_results import CLUSTER, LOCAL, ORIGIN, a_document

MODEL = "mobilenet_v3_small"
SUITE = "nightly"
PRICES = """
currency: EUR
nodes:
- {node: "bench-*", perHour: 0.19}
- {node: "node-*", perHour: 0.5}
"""
_AT = "2026-11-24T00:00:00.000Z"


def fill_store(store: Store) -> list[str]:
    """Add results of a model on six nodes, and of another one; return the IDs of the first node.

    On the first node the engine is replaced after 15 results and latencies grow by 9 %. The fifth
    node is slower than the others. One result is tagged, and one retracted. Those of the other
    model belong to a suite.
    """
    chance = random.Random(3)  # noqa: S311 - for scatter
    origin = replace(ORIGIN, source="operator")
    documents = [
        _measured(number, "bench-1", 1.0 if number < 16 else 1.09, chance)
        for number in range(1, 25)
    ]
    ids = [store.add(each, origin, source="a result").id for each in documents]
    for number, node in enumerate([f"bench-{each}" for each in range(2, 7)] * 3, 25):
        factor = 1.3 if node == "bench-5" else 1.09
        store.add(_measured(number, node, factor, chance), origin, source="a result")
    for number in range(6):
        content = _suite_result(number, chance)
        store.add(content, replace(origin, namespace="team-a"), source="a result")
    store.note(ids[20], JournalRow(_AT, "ann", "tag", "release-2"))
    store.note(ids[22], JournalRow(_AT, "ann", "retract", "a backup ran on the machine"))
    return ids


_SIZES = ("small", "medium", "large")


def _suite_result(number: int, chance: random.Random) -> bytes:
    """Return the result of a cell of a suite: a model over three sizes and two protocols.

    The last cell is INVALID.
    """
    started = f"2026-11-2{number}T00:00:00.000Z"
    found: dict[str, Any] = json.loads(a_document(number, CLUSTER, startedAt=started))
    size, protocol = _SIZES[number % 3], ("http", "grpc")[number // 3]
    found["run"]["metadata"] |= {
        "name": f"{SUITE}-{size}-{protocol}",
        "labels": {
            "inferometer.dev/suite": SUITE,
            "inferometer.dev/suite-execution": "20261120",
            "inferometer.dev/suite-cell": f"cell-{number}",
            "inferometer.dev/suite-block": "1",
            "inferometer.dev/suite-role": "cell",
            "axis.inferometer.dev/size": size,
            "axis.inferometer.dev/protocol": protocol,
        },
    }
    for scenario in found["scenarios"]:
        if number < 5:
            scenario["verdict"] |= {"state": "VALID", "reasons": []}
        for step in scenario["steps"]:
            _slow_down(step, (1 + number % 3) * chance.gauss(1.2 - number // 3 * 0.2, 0.03))
    return json.dumps(found).encode()


def _measured(number: int, node: str, factor: float, chance: random.Random) -> bytes:
    day = f"2026-{10 + number // 28:02}-{number % 28 + 1:02}"
    found: dict[str, Any] = json.loads(a_document(number, LOCAL, startedAt=f"{day}T08:00:00.000Z"))
    found["environment"]["node"]["hostname"] = node
    if number >= 16:
        found["environment"]["server"]["settings"]["runtime_version"] = "1.32.0"
    if number == 16:
        found["run"]["metadata"]["labels"] = {"commit": "3f3be83"}
    for scenario in found["scenarios"]:
        if scenario["name"] != "traffic":
            scenario["verdict"] |= {"state": "VALID", "reasons": []}
        for step in scenario["steps"]:
            _slow_down(step, factor * chance.gauss(1, 0.012))
    return json.dumps(found).encode()


def _slow_down(step: dict[str, Any], factor: float) -> None:
    for name in ("achievedQps", "achievedSamplesPerSecond"):
        step[name] /= factor
    for each in step["latency"]["percentiles"]:
        for name in ("nanoseconds", "lowNanoseconds", "highNanoseconds"):
            if name in each:
                each[name] = int(each[name] * factor)
    step["energy"] |= {"microjoulesPerInference": int(9e5 * factor), "attribution": "node"}
