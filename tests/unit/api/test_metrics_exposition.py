"""A filled form equals the text that prometheus-client renders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from inferometer_api.metrics.definitions import METRICS, Metric
from inferometer_api.metrics.exposition import family, form, head
from support.exposed import families, samples

GAUGE = Metric("a_ratio", "gauge", "Some.", ("x", "y"))
HISTOGRAM = Metric("b_seconds", "histogram", "More.", ("x",), (0.5, 1.0, 4.0))
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
"""Any text but with a carriage return, at which readers of lines differ."""


@given(x=WORDS, y=WORDS, value=st.floats(allow_nan=False) | st.integers(0, 2**53))
def test_any_label_and_any_value_round_trips(x: str, y: str, value: float) -> None:
    """Quotes, percent signs, line ends in a label's value and large numbers come out as put in."""
    text = head(GAUGE) + form(GAUGE, (x, y)).filled(value)
    found = samples(text.decode())
    assert found == {("a_ratio", frozenset({("x", x), ("y", y)})): float(value)}


@given(x=WORDS, values=st.lists(st.sampled_from([0.1, 0.5, 0.75, 3.0, 9.0])))
def test_a_histogram_reads_as_prometheus_client_writes_one(x: str, values: list[float]) -> None:
    """Buckets are cumulated, and count and sum are there, as of its own Histogram."""
    registry = CollectorRegistry()
    own = Histogram("b_seconds", "More.", ["x"], buckets=HISTOGRAM.buckets, registry=registry)
    counts = [0] * 4
    for value in values:
        own.labels(x).observe(value)
        counts[sum(value > bound for bound in HISTOGRAM.buckets)] += 1
    own.labels(x)
    written = head(HISTOGRAM) + form(HISTOGRAM, (x,)).histogram(counts, sum(values))
    expected = samples(generate_latest(registry).decode())
    for series in [each for each in expected if each[0].endswith("_created")]:
        del expected[series]
    assert samples(written.decode()) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [each for group in METRICS.values() for each in group])
def test_every_metric_can_be_written(metric: Metric) -> None:
    """Head and lines of each one are a family with its name, type, help, labels and buckets."""
    labels = [f"<{name}>" for name in metric.labels]
    lines = form(metric, labels)
    if metric.type == "histogram":
        text = lines.histogram([1] * (len(metric.buckets) + 1), 1.5)
    else:
        text = lines.filled(1)
    (found,) = families((head(metric) + text).decode()).values()
    assert (found.name, found.type, found.help) == (metric.name, metric.type, metric.help)
    assert found.labels == {frozenset(metric.labels)}
    assert found.bounds == (*metric.buckets, float("inf")) or metric.type != "histogram"
    assert family(metric).samples == []


def test_a_counter_and_a_gauge_read_as_their_own() -> None:
    """The lines of a counter and of a gauge are those of prometheus-client's own."""
    registry = CollectorRegistry()
    counter = Counter("c", "How many.", ["x"], registry=registry)
    counter.labels("1").inc(3)
    Gauge("d", "What.", registry=registry).set(2.5)
    c = Metric("c_total", "counter", "How many.", ("x",))
    d = Metric("d", "gauge", "What.")
    text = head(c) + form(c, ("1",)).filled(3.0) + head(d) + form(d, ()).filled(2.5)
    own = generate_latest(registry).splitlines(keepends=True)
    assert text == b"".join(line for line in own if b"_created" not in line)
