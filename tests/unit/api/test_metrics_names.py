"""Names, types and buckets of the metrics follow Prometheus's conventions."""

from itertools import pairwise

import pytest
from docgen.metrics_page import metrics_page

from inferometer_api.metrics.definitions import LATENCY_BUCKETS, METRICS, Metric, run_labels
from inferometer_api.spec.run import BenchmarkRun
from support.runs import a_run

ALL = [metric for group in METRICS.values() for metric in group]
UNITS = ("seconds", "second", "bytes", "joules", "watts", "hertz", "celsius", "ratio", "inference")
"""Base units, and what a figure is per; a count has none."""
COUNTS = (
    *("queries", "samples", "requests", "inferences", "errors", "cpus", "runs", "size"),
    *("hits", "misses", "evictions"),
)
STATES = ("ready", "info", "status", "stage", "valid", "leader", "available", "throttled")
TAKEN = {"namespace", "pod", "job", "instance", "container", "service", "endpoint_slice", "le"}
"""Labels that Prometheus or its operator give to whatever they scrape."""


def test_metric_names_are_unique() -> None:
    """Each name is one component's, so that a query without a job means one thing."""
    names = [metric.name for metric in ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_keeps_to_the_conventions(metric: Metric) -> None:
    """Counters alone end in _total; a base unit, a count or a state comes before it."""
    assert metric.name.startswith("inferometer_")
    assert metric.name.endswith("_total") == (metric.type == "counter")
    last = metric.name.removesuffix("_total").rpartition("_")[2]
    assert last in (*UNITS, *COUNTS, *STATES)
    assert bool(metric.buckets) == (metric.type == "histogram")
    assert metric.help.endswith(".")
    assert not TAKEN & set(metric.labels)


@pytest.mark.parametrize("metric", [each for each in ALL if each.buckets], ids=lambda one: one.name)
def test_the_bounds_of_a_histogram_rise(metric: Metric) -> None:
    """Each bound is above the one before, and +Inf is not among them."""
    assert all(before < after for before, after in pairwise(metric.buckets))
    assert metric.buckets[-1] < float("inf")


def test_the_latencies_buckets_are_as_narrow_as_promised() -> None:
    """From 50 us to 60 s, each bound at most 1.1 times the one before."""
    assert (LATENCY_BUCKETS[0], LATENCY_BUCKETS[-1]) == (50e-6, 60.0)
    assert max(after / before for before, after in pairwise(LATENCY_BUCKETS)) <= 1.1


def test_a_run_is_labelled_by_its_name_and_namespace() -> None:
    """A local run, which has no namespace, is in "local"."""
    run = BenchmarkRun.model_validate(a_run())
    name = run.metadata.name
    assert run_labels(run) == ("local", name)
    placed = run.model_copy(
        update={"metadata": run.metadata.model_copy(update={"namespace": "team"})}
    )
    assert run_labels(placed) == ("team", name)


def test_the_reference_has_every_metric_with_its_labels() -> None:
    """Each metric is a row of the page, and each label of one is explained or named there."""
    page = metrics_page()
    for metric in ALL:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{metric.name}` |")]
        assert all(f"`{label}`" in row for label in metric.labels)
        assert metric.type in row
