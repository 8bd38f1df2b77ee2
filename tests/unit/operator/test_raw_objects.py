"""Raw objects are read by their models, also those that a newer version has accepted."""

from typing import Any

import pytest

from inferometer_api.nodes.benchmark import NodeBenchmark
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_operator.reconcile.raw_objects import InvalidObjectError, read_object
from support.pretend_api import stored
from support.runs import a_run
from support.suites import a_suite

_PROBE = {
    "apiVersion": "inferometer.dev/v1alpha1",
    "kind": "NodeBenchmark",
    "metadata": {"name": "probe", "namespace": "bench"},
    "spec": {},
}


@pytest.mark.parametrize(
    ("raw", "model"),
    [(stored(a_run()), BenchmarkRun), (a_suite(), BenchmarkSuite), (_PROBE, NodeBenchmark)],
    ids=["run", "suite", "node benchmark"],
)
def test_an_unknown_field_is_ignored_once_the_object_is_accepted(
    raw: dict[str, Any], model: Any
) -> None:
    """A newer version may have accepted it; of a new object the field is named as wrong."""
    newer = {**raw, "spec": {**raw["spec"], "fieldOfTheFuture": {"a": 1}}}
    known = read_object(raw, model, is_accepted=False)
    assert read_object(newer, model, is_accepted=True) == known
    with pytest.raises(InvalidObjectError, match="fieldOfTheFuture"):
        read_object(newer, model, is_accepted=False)
