"""Tiny inferences are counted like others, only later."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.inference_stats import InferenceStats
from inferometer_serving.metrics import Exposition, ServerMetrics
from inferometer_serving.model.engine import Execution
from inferometer_serving.statistics import Statistics

_BEGAN_NS = 7
_parts = st.integers(min_value=0, max_value=3 * 10**9)
_inferences = st.tuples(
    st.sampled_from(["http", "grpc"]), st.integers(1, 4), _parts, _parts, _parts
)


@given(st.lists(_inferences, max_size=20))
def test_what_was_noted_is_counted_as_if_at_once(
    noted: list[tuple[str, int, int, int, int]],
) -> None:
    """Statistics and buckets are those of inferences that are counted one by one."""
    metrics, alone = ServerMetrics(), ServerMetrics()
    statistics, each_alone = Statistics(), Statistics()
    tally = InferenceStats(metrics, statistics)
    for protocol, samples, read_ns, infer_ns, output_ns in noted:
        started_ns = _BEGAN_NS + read_ns
        computed_ns = started_ns + infer_ns
        written_ns = computed_ns + output_ns
        tally.note(protocol, samples, _BEGAN_NS, started_ns, computed_ns, written_ns)
        ask = _pending(protocol, samples, started_ns)
        times = (started_ns, started_ns, computed_ns, written_ns)
        each_alone.count_execution(
            Execution((ask,), [""], samples, *times, is_computed=True), written_ns
        )
        alone.queue_seconds.observe(0)
        alone.compute_seconds.observe(infer_ns / 1e9)
        alone.request_seconds[protocol].observe((written_ns - _BEGAN_NS) / 1e9)
        alone.batches[samples] += 1
        alone.joined[1] += 1
    tally.settle()
    tally.settle()  # what is settled is not counted again
    assert _as_dict(statistics) == _as_dict(each_alone)
    assert _counts(metrics) == _counts(alone)


def test_what_was_noted_is_settled_before_it_grows() -> None:
    """Without scrapes, the server does not keep every request."""
    statistics = Statistics()
    tally = InferenceStats(ServerMetrics(), statistics)
    for number in range(5000):
        tally.note("http", 1, number, number + 1, number + 2, number + 3)
    assert statistics.to_document("m", "1")["inference_count"] > 4000


def _pending(protocol: str, samples: int, started_ns: int) -> PendingRequest[str]:
    ask: PendingRequest[str] = PendingRequest(
        protocol=protocol,
        began_ns=_BEGAN_NS,
        inputs={},
        output_names=[],
        samples=samples,
        key=None,
        write=lambda _: "",
    )
    ask.waits_since_ns = started_ns
    ask.read_ns = started_ns - _BEGAN_NS
    return ask


def _as_dict(statistics: Statistics) -> dict[str, object]:
    return {**statistics.to_document("m", "1"), "last_inference": None}


def _counts(metrics: ServerMetrics) -> list[bytes]:
    """Return all samples except the sums, whose last digits depend on the order."""
    lines = Exposition(metrics, ("", "", "m"), "1").text().splitlines()
    return [each for each in lines if each.startswith(b"inferometer") and b"_sum" not in each]
