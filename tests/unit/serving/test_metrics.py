"""The server's metrics show the plain numbers of its hot path."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.metrics.definitions import SERVER_BATCH, SERVER_COMPUTE
from inferometer_serving.metrics import Exposition, ServerMetrics
from support.exposed import samples

SERVED = {"run_namespace": "n", "run": 'r"', "model": "m%d"}


class ParsedMetrics:
    """A server's numbers and their exposition."""

    def __init__(self) -> None:
        self.metrics = ServerMetrics()
        self._exposition = Exposition(self.metrics, ("n", 'r"', "m%d"), "1.2")

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample's value; None if it is not there."""
        return self.values(name, *labels).get(tuple(labels.values()))

    def values(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the values of all samples of this name, by these of their labels."""
        return {
            tuple(dict(pairs)[label] for label in labels): value
            for (series, pairs), value in samples(self._exposition.text().decode()).items()
            if series == f"inferometer_server_{name}"
            and pairs >= SERVED.items()
            and {*labels, *SERVED} == set(dict(pairs))
        }


def test_an_idle_server_exposes_zeros() -> None:
    """Every gauge and histogram is there from the beginning, labelled with run and model."""
    parsed = ParsedMetrics()
    assert parsed.value("ready") == 0
    assert parsed.value("info", version="1.2") == 1
    for name in (
        "inferences_total",
        "pending_requests",
        "queue_duration_seconds_count",
        "batch_size_sum",
    ):
        assert parsed.value(name) == 0
    assert parsed.value("request_duration_seconds_count", protocol="grpc") == 0


def test_requests_are_counted_by_outcome() -> None:
    """Codes of both protocols are reported as text, each combination once."""
    parsed = ParsedMetrics()
    parsed.metrics.requests["http", "infer", 200] += 2
    parsed.metrics.count("grpc", "infer", "OK")
    parsed.metrics.count("grpc", "infer", "OK")
    assert parsed.value("requests_total", protocol="http", endpoint="infer", code="200") == 2
    assert parsed.value("requests_total", protocol="grpc", endpoint="infer", code="OK") == 2


@settings(max_examples=20)  # each one reads the whole text
@given(st.lists(st.floats(0, 1000), max_size=30))
def test_durations_are_in_their_buckets(durations: list[float]) -> None:
    """Each duration counts in every bucket whose bound it does not exceed."""
    parsed = ParsedMetrics()
    for seconds in durations:
        parsed.metrics.compute_seconds.observe(seconds)
    assert parsed.values("compute_duration_seconds_bucket", "le") == {
        **{
            (str(bound),): sum(seconds <= bound for seconds in durations)
            for bound in SERVER_COMPUTE.buckets
        },
        ("+Inf",): len(durations),
    }
    assert parsed.value("compute_duration_seconds_sum") == pytest.approx(sum(durations))


def test_a_request_without_a_wait_counts_as_zero() -> None:
    """A request that is computed at once is one of the queue's, of 0 seconds."""
    parsed = ParsedMetrics()
    parsed.metrics.queue_seconds.observe_none(1)
    assert parsed.value("queue_duration_seconds_bucket", le="1e-06") == 1
    assert parsed.value("queue_duration_seconds_sum") == 0


@settings(max_examples=20)  # each one reads the whole text
@given(st.lists(st.integers(1, 3000), max_size=30))
def test_batches_are_counted_by_size(sizes: list[int]) -> None:
    """Inferences are the samples of all executions; each execution is in the bucket of its size."""
    parsed = ParsedMetrics()
    for size in sizes:
        parsed.metrics.batches[size] += 1
    assert parsed.value("inferences_total") == parsed.value("batch_size_sum") == sum(sizes)
    assert parsed.values("batch_size_bucket", "le") == {
        **{(str(bound),): sum(size <= bound for size in sizes) for bound in SERVER_BATCH.buckets},
        ("+Inf",): len(sizes),
    }
