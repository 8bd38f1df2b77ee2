"""Results and outcomes of suites, as the store keeps them."""

import json
from dataclasses import replace
from typing import Any

from inferometer_api.suite.outcome import SuiteOutcome, UnmeasuredRun
from inferometer_api.suite.status import GateOutcome, GateStatus, JudgedCell
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import keep_outcome
from support.stored_results import ORIGIN, a_document

SUITE = "nightly"


def a_suite_result(
    number: int,
    execution: str,
    role: str = "cell",
    model: str = "big",
    protocol: str = "grpc",
    **changed: Any,
) -> bytes:
    """Return the result of a run of a suite.

    `factor` makes it slower, `state` is its verdict, `block` its number.
    """
    document = json.loads(a_document(number))
    labels = {
        "inferometer.dev/suite": SUITE,
        "inferometer.dev/suite-execution": execution,
        "inferometer.dev/suite-cell": f"key-{model}",
        "inferometer.dev/suite-block": str(changed.get("block", 1)),
        "inferometer.dev/suite-role": role,
        "axis.inferometer.dev/model": model,
        "axis.inferometer.dev/protocol": protocol,
    }
    document["run"]["metadata"]["labels"] = labels
    document["run"]["metadata"]["namespace"] = "bench"
    document["run"]["metadata"]["name"] = f"{SUITE}-{model}-{protocol}-{number}"
    document["startedAt"] = f"2026-02-01T00:{number:02}:00.000Z"
    state = changed.get("state", "VALID")
    broken = {
        "rule": "ErrorRate",
        "message": "12 of 900 requests failed: 503 Service Unavailable.",
        "figure": "12",
        "limit": "0",
    }
    for scenario in document["scenarios"]:
        reasons = [] if state == "VALID" else [broken]
        scenario["verdict"] = {"state": state, "reasons": reasons, "cautions": []}
        for step in scenario["steps"]:
            for each in (step.get("latency") or {}).get("percentiles", ()):
                each["nanoseconds"] = round(each["nanoseconds"] * changed.get("factor", 1.0))
    document["outcome"]["state"] = "Complete"
    return json.dumps(document).encode()


def a_suite_outcome(
    execution: str, outcome: GateOutcome, *, planned: int = 5, suite: str = SUITE
) -> bytes:
    """Return the outcome of an execution in which one run failed."""
    slower = JudgedCell(
        cell="big",
        scenario="latency",
        figure="p50",
        ratio_parts_per_million=1_100_000,
        low_parts_per_million=1_080_000,
        high_parts_per_million=1_120_000,
    )
    failed = UnmeasuredRun(
        name=f"{suite}-small-http-0",
        values={"model": "small", "protocol": "http"},
        state="F",
        reason="No <b>server</b>: the pod could not be scheduled for 300 s.",
    )
    found = SuiteOutcome(
        suite=suite,
        execution=execution,
        finished_at="2026-02-01T01:00:00.000Z",
        planned=planned,
        gate=GateStatus(
            outcome=outcome,
            armed=True,
            judged=8,
            detectable_parts_per_million=31_000,
            slower=[slower],
            invalid_blocks=["4", "7 on node-a"],
        ),
        unmeasured=[failed],
    )
    return found.model_dump_json(exclude_none=True).encode()


def fill_suite(store: Store) -> None:
    """Add two executions: one with a failed and an INVALID cell and a FAIL, one without outcome."""
    origin = replace(ORIGIN, namespace="bench", source="operator")
    contents = [
        a_suite_result(at, "first", model=model) for at, model in ((1, "big"), (2, "small"))
    ]
    contents += [
        a_suite_result(11, "second", "opening"),
        a_suite_result(12, "second", model="big", protocol="http", factor=1.4),
        a_suite_result(13, "second", model="big"),
        a_suite_result(14, "second", model="small", factor=0.5),
        a_suite_result(15, "second", model="a-model-with-a-long-name-of-many-words", factor=2.0),
        a_suite_result(16, "second", model="middle", protocol="http", state="INVALID"),
        a_suite_result(17, "second", "closing"),
    ]
    # Three repeats, so that a difference can be shown.
    for number, block, factor in ((18, 2, 1.41), (20, 3, 1.39)):
        contents += [
            a_suite_result(number, "second", protocol="http", factor=factor, block=block),
            a_suite_result(number + 1, "second", block=block),
        ]
    for content in contents:
        store.add(content, origin, source="a result")
    keep_outcome(store, a_suite_outcome("second", "FAIL", planned=12), origin)
