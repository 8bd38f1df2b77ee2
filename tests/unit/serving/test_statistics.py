"""The statistics add up: requests, samples, executions and times."""

from typing import Any

from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.model.engine import Execution
from inferometer_serving.statistics import Statistics


def _pending(samples: int, began_ns: int, read_ns: int) -> PendingRequest[str]:
    ask: PendingRequest[str] = PendingRequest(
        protocol="http",
        began_ns=began_ns,
        inputs={},
        output_names=[],
        samples=samples,
        key=None,
        write=lambda _: "",
    )
    ask.read_ns = read_ns
    ask.waits_since_ns = began_ns + read_ns
    return ask


def _figure(count: int, ns: int) -> dict[str, int]:
    return {"count": count, "ns": ns}


def test_nothing_is_counted_before_the_first_request() -> None:
    """All figures are there, at zero."""
    document = Statistics().to_document("m", "1")
    assert (document["name"], document["inference_count"], document["execution_count"]) == (
        "m",
        0,
        0,
    )
    assert document["inference_stats"]["success"] == _figure(0, 0)
    assert document["batch_stats"] == []


def test_a_joined_run_counts_once_and_for_each_of_its_requests() -> None:
    """Its parts count in full for every request it answered, and once for its batch size."""
    pending = [_pending(1, 100, 10), _pending(2, 150, 20)]
    run = Execution(pending, ["a", "b"], 3, 200, 205, 235, 242, is_computed=True)
    statistics = Statistics()
    statistics.count_execution(run, now_ns=250)
    document: dict[str, Any] = statistics.to_document("m", "1")
    assert (document["inference_count"], document["execution_count"]) == (3, 1)
    assert document["last_inference"] > 0
    assert document["inference_stats"] == {
        "success": _figure(2, (250 - 100) + (250 - 150)),
        "fail": _figure(0, 0),
        "queue": _figure(2, (200 - 110) + (200 - 170)),
        "compute_input": _figure(2, 10 + 20 + 2 * 5),
        "compute_infer": _figure(2, 2 * 30),
        "compute_output": _figure(2, 2 * 7),
        "cache_hit": _figure(0, 0),
        "cache_miss": _figure(0, 0),
    }
    assert document["batch_stats"] == [
        {
            "batch_size": 3,
            "compute_input": _figure(1, 5),
            "compute_infer": _figure(1, 30),
            "compute_output": _figure(1, 7),
        }
    ]


def test_what_failed_is_no_inference() -> None:
    """A request whose answer failed counts as failed; a run that failed is no execution."""
    statistics = Statistics()
    pending = [_pending(1, 100, 0), _pending(1, 100, 0)]
    answers = ["a", ValueError("NaN in JSON")]
    statistics.count_execution(Execution(pending, answers, 2, 1, 2, 3, 4, is_computed=True), 110)
    alone = Execution(pending[:1], [ValueError("no")], 1, 1, 1, 2, 2, is_computed=False)
    statistics.count_execution(alone, 120)
    statistics.count_failure(7)
    document = statistics.to_document("m", "1")
    assert (document["inference_count"], document["execution_count"]) == (1, 1)
    assert document["inference_stats"]["success"] == _figure(1, 10)
    assert document["inference_stats"]["fail"] == _figure(3, 10 + 20 + 7)
