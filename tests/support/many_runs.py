"""Hundreds and thousands of runs, as a cluster keeps and queues them."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.api_client import Api, Object, path_of
from support.cluster_runs import a_condition
from support.runs import a_run

_THREADS = 8
_AT = "2026-03-12T14:03:21.000Z"


def kept_status(size_bytes: int, ended: str = _AT) -> Object:
    """Return the status of a finished run of about this size."""
    scenario = {
        "name": "latency",
        "verdict": "VALID",
        "queries": 2048,
        "errors": 0,
        "achievedMilliQps": 123_400,
        "p50Microseconds": 8_100,
        "p99Microseconds": 12_345,
    }
    status: Object = {
        "phase": "Complete",
        "startTime": _AT,
        "completionTime": ended,
        "conditions": [
            a_condition("Complete", "True", "Measured", "All scenarios are measured."),
            a_condition("Valid", "True", "AllValid", "All scenarios are valid."),
            a_condition("Finished", "True", "Complete", "All scenarios are measured."),
        ],
    }
    count = max(1, (size_bytes - len(json.dumps(status))) // len(json.dumps(scenario)))
    scenarios = [{**scenario, "name": f"latency-{number:03}"} for number in range(count)]
    return {**status, "scenarios": scenarios}


def keep_runs(api: Api, namespace: str, count: int, size_bytes: int = 6_000) -> None:
    """Put so many finished runs there, which are kept for a year."""

    def keep(number: int) -> None:
        run = kept_run(number, size_bytes)
        status = {"status": run.pop("status")}
        api.create("BenchmarkRun", namespace, run)
        api.merge("BenchmarkRun", namespace, run["metadata"]["name"], status, "status")

    _at_once(keep, count)


def keep_runs_with_status(api: Api, namespace: str, count: int, size_bytes: int) -> None:
    """Put so many finished runs there while the definition has no subresource status.

    It takes half the requests.
    """

    def keep(number: int) -> None:
        api.create("BenchmarkRun", namespace, kept_run(number, size_bytes))

    _at_once(keep, count)


def kept_run(number: int, size_bytes: int) -> Object:
    """Return a finished run of about this size, which is kept for a year."""
    ended = f"2026-11-{1 + number % 20:02}T{number % 24:02}:00:00.000Z"
    return {
        **a_run(retention={"ttlSecondsAfterFinished": 31_536_000}),
        "metadata": {"name": f"kept-{number:05}"},
        "status": kept_status(size_bytes, ended),
    }


def apply_runs(api: Api, namespace: str, prefix: str, count: int, **spec: Any) -> list[str]:
    """Create so many runs at once; return their names."""

    def apply(number: int) -> str:
        name = f"{prefix}-{number:03}"
        api.create("BenchmarkRun", namespace, {**a_run(**spec), "metadata": {"name": name}})
        return name

    return _at_once(apply, count)


def delete_runs(api: Api, namespace: str, names: list[str]) -> None:
    """Delete runs at once."""
    _at_once(lambda number: api.delete("BenchmarkRun", namespace, names[number]), len(names))


def runs_of(api: Api, namespace: str | None, prefix: str) -> list[Object]:
    """Return the runs whose names begin so."""
    found: list[Object] = []
    query = {"limit": "500"}
    while True:
        answer = api.ask("GET", path_of("BenchmarkRun", namespace), query=query)
        found += answer["items"]
        query["continue"] = answer["metadata"].get("continue", "")
        if not query["continue"]:
            return [run for run in found if run["metadata"]["name"].startswith(prefix)]


def wrong_positions(runs: list[Object]) -> dict[str, str]:
    """Return what each waiting run says of its position, if that is wrong: the oldest is first."""
    waiting = sorted(
        (run for run in runs if not (run.get("status") or {}).get("startTime")),
        key=lambda run: (run["metadata"]["creationTimestamp"], run["metadata"]["name"]),
    )
    wrong = {}
    for place, run in enumerate(waiting, 1):
        conditions = (run.get("status") or {}).get("conditions") or ()
        said = next((each["message"] for each in conditions if each["type"] == "Accepted"), "")
        if not said.startswith(_position(place)):
            wrong[run["metadata"]["name"]] = f"{place}: {said}"
    return wrong


def _position(place: int) -> str:
    ends = (10, 100, 1000, 10_000)
    if place <= ends[0]:
        return f"Position {place} in the queue"
    last = next(end for end in ends if place <= end)
    return f"Position {ends[ends.index(last) - 1] + 1} to {last} in the queue"


def _at_once(work: Any, count: int) -> list[Any]:
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, range(count)))
