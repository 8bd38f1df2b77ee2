"""Raw runs for the operator's metrics, and readers of its page."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from inferometer_api.metrics.definitions import METRICS
from inferometer_api.timestamps import format_time
from inferometer_operator.wiring.metrics import exposition
from inferometer_operator.wiring.operator_stats import OperatorStats, SuiteGateOutcome
from support.cluster_objects import EPOCH, Object, condition
from support.runs import a_run

MEASURED: Object = {
    "verdict": "VALID",
    "queries": 2048,
    "errors": 3,
    "achievedMilliQps": 123_400,
    "p50Microseconds": 8_100,
    "p90Microseconds": 9_000,
    "p99Microseconds": 12_345,
    "p999Microseconds": 20_000,
    "serverTime": {
        "queueMicroseconds": 1_000,
        "computeInputMicroseconds": 20,
        "computeInferMicroseconds": 6_500,
        "computeOutputMicroseconds": 30,
    },
    "microjoulesPerInference": 250_000,
    "netMicrojoulesPerInference": -1_000,
    "energyAttribution": "shared",
}


def a_raw_run(name: str = "a-run", *, spec: Object | None = None, **status: Any) -> Object:
    """Return a run as the API server gives it, with this status."""
    return {
        **a_run(**(spec or {})),
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": format_time(EPOCH),
        },
        "status": status,
    }


def a_finished_run(
    name: str = "a-run", *, number: int = 0, names: Sequence[str] = ("latency",), **more: Any
) -> Object:
    """Return a run that measured scenarios of these names; a higher number ended later."""
    spec = {"scenarios": [{"name": each, "singleStream": {}} for each in names]}
    spec_status: Object = {
        "phase": "Complete",
        "startTime": format_time(EPOCH + timedelta(seconds=number)),
        "completionTime": format_time(EPOCH + timedelta(seconds=60 + number)),
        "nodes": ["node1", "node2"],
        "conditions": [
            condition("Complete", "True", reason="Measured"),
            condition("Finished", "True", reason="Complete"),
        ],
        "scenarios": [{"name": each, **MEASURED} for each in names],
    }
    return a_raw_run(name, spec=spec, **{**spec_status, **more})


STORED_URL = "http://127.0.0.1:8091/results/0e9b"


STEPS: Object = {
    "steps": [
        {"step": "decode", "meanMicroseconds": 2_000, "shareMillionths": 246_914},
        {"step": "topK", "meanMicroseconds": 5, "shareMillionths": 617},
    ]
}


def a_stored_run() -> Object:
    """Return a finished cold start with pipeline Server, whose result the results service keeps."""
    scenario = {"name": "latency", **MEASURED, "coldStartMicroseconds": 1_160_000}
    scenario["serverTime"] = {**MEASURED["serverTime"], **STEPS}
    stored = {"id": "0e9b", "url": STORED_URL}
    return a_finished_run(
        result={"bytes": 1, "sha256": "0" * 64, "stored": stored}, scenarios=[scenario]
    )


def a_measured_benchmark(
    *nodes: str, uid: str = "nbm", day: int = 1, expired: bool = False, **summary: int
) -> Object:
    """Return a NodeBenchmark whose nodes were measured on this day, with these figures or usual."""
    usual = {
        "memoryBytesPerSecond": 20_000_000_000,
        "loadLatencyPicoseconds": 95_250,
        "fp32Flops": 120_000_000_000,
        "diskReadBytesPerSecond": 1_500_000_000,
        "wakeUpLagNanoseconds": 90_000,
    }
    time = f"2026-01-{day:02}T00:00:00Z"
    rows = [
        {"node": node, "state": "Measured", "finishTime": time, "summary": summary or usual}
        for node in nodes
    ]
    current = condition("Current", "False" if expired else "True", reason="Measured")
    return {"metadata": {"uid": uid}, "status": {"nodes": rows, "conditions": [current]}}


def operator_stats(*runs: Object) -> OperatorStats:
    """Return what an operator has counted that leads and has seen these runs."""
    stats = OperatorStats()
    stats.is_leader = stats.runs_listed = True
    stats.suite_gates["bench", "nightly"] = SuiteGateOutcome("FAIL", armed=True, time="")
    stats.measured_nodes.update(a_measured_benchmark("node1"))
    for run in runs:
        stats.update_run(run)
    return stats


def scraped(stats: OperatorStats) -> list[Sample]:
    """Return every sample on the page, but those of the process."""
    text = exposition(stats)().decode()
    return [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith("process_")
    ]


def values(stats: OperatorStats, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a series by those of its labels, in the order of the reference."""
    labels = next((each.labels for each in METRICS["operator"] if each.name == name), ())
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for sample in scraped(stats)
        if sample.name == name
    }
