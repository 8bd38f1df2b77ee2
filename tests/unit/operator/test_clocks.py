"""No deadline of a run depends on the difference of two clocks."""

from datetime import timedelta

import pytest

from inferometer_operator.reconcile.sightings import sight
from support.cluster_objects import EPOCH, Object, bound, condition
from support.condition_rows import a_cluster
from support.pretend_cluster import PretendCluster

_SKEWS = [timedelta(seconds=-310), timedelta(seconds=310)]


@pytest.mark.parametrize("skew", _SKEWS)
def test_a_run_completes_while_the_other_clocks_differ_by_minutes(skew: timedelta) -> None:
    """Children and pods carry times 310 s before or after the operator's: the run completes."""
    cluster = a_cluster()
    cluster.others_ahead = skew
    _measure(cluster)
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.jobs_made == 1


@pytest.mark.parametrize("skew", _SKEWS)
@pytest.mark.parametrize("phase", ["starting", "loading", "measuring"])
def test_a_run_completes_when_the_other_clocks_are_set(skew: timedelta, phase: str) -> None:
    """Their step of 310 s in this phase ends no run."""
    cluster = a_cluster()
    _measure(cluster, step=(phase, skew))
    assert cluster.says("Complete") == ("True", "Measured")


@pytest.mark.parametrize("skew", [*_SKEWS, timedelta(0)])
def test_the_ready_deadline_counts_from_the_operators_own_observation(skew: timedelta) -> None:
    """It passes after readyDeadlineSeconds on the operator's clock, not earlier and not later."""
    cluster = a_cluster({"server": {"runtime": "OnnxRuntime", "readyDeadlineSeconds": 300}})
    cluster.settle()
    cluster.others_ahead = skew
    cluster.schedule()
    assert cluster.later(299).says("Failed") is None
    cluster.later(1)
    assert cluster.says("Failed") == ("True", "ServerNotReady")


@pytest.mark.parametrize("skew", [*_SKEWS, timedelta(0)])
def test_a_silent_node_is_given_up_after_a_minute_of_silence(skew: timedelta) -> None:
    """The operator's minute: the controller that reports the silence has a clock of its own."""
    cluster = a_cluster()
    cluster.others_ahead = skew
    cluster.settle().schedule().start_server().start_load().measure()
    for name, pod in list(cluster.pods.items()):
        ready = condition("Ready", "False", cluster.others_now)
        inside = condition("ContainersReady", "True", cluster.others_now)
        cluster.pods[name] = {**pod, "status": {**pod["status"], "conditions": [ready, inside]}}
    assert cluster.settle().later(59).says("Failed") is None
    cluster.later(1)
    assert cluster.says("Failed") == ("True", "NodeLost")


def test_a_creation_counts_from_its_own_time_for_an_operator_that_starts() -> None:
    """A restart does not extend a deadline; a time in the future counts as now."""
    thing = _made("2026-03-12T13:59:00Z")
    assert _created(sight(None, [thing], EPOCH)) == EPOCH - timedelta(seconds=60)
    assert _created(sight(None, [_made("2026-03-12T14:05:00Z")], EPOCH)) == EPOCH
    later = EPOCH + timedelta(seconds=9)
    assert _created(sight({}, [thing], later)) == later
    assert _created(sight({("u", "created"): EPOCH}, [thing], later)) == EPOCH


def test_a_fact_that_held_before_counts_anew() -> None:
    """A node that answers in between has another minute."""
    pod = bound({**_made("2026-03-12T13:59:00Z"), "spec": {}, "status": {}})
    silent = {"conditions": [condition("Ready", "False"), condition("ContainersReady", "True")]}
    first = sight({}, [{**pod, "status": silent}], EPOCH)
    between = sight(first, [pod], EPOCH + timedelta(seconds=1))
    assert ("u", "silent") in first
    assert ("u", "silent") not in between
    again = EPOCH + timedelta(seconds=2)
    assert sight(between, [{**pod, "status": silent}], again)["u", "silent"] == again


def test_a_deletion_counts_from_its_request() -> None:
    """A deletionTimestamp is the time by which the pod should be gone."""
    deleting = {"deletionTimestamp": "2026-03-12T14:00:25Z", "deletionGracePeriodSeconds": 30}
    pod = _made("2026-03-12T13:00:00Z")
    pod["metadata"] |= deleting
    assert sight(None, [pod], EPOCH)["u", "deleting"] == EPOCH - timedelta(seconds=5)
    assert sight({}, [pod], EPOCH)["u", "deleting"] == EPOCH


def _measure(cluster: PretendCluster, step: tuple[str, timedelta] = ("", timedelta(0))) -> None:
    """Lead a run from its begin to its end; the other clocks step in a phase."""
    cluster.settle()
    for phase, lead in (
        ("starting", cluster.schedule),
        ("loading", cluster.start_server),
        ("measuring", cluster.start_load),
        ("", cluster.measure),
        ("", cluster.end_load),
    ):
        if phase == step[0]:
            cluster.others_ahead = step[1]
        cluster.later(5)
        lead()
        cluster.later(5)
    cluster.collect_garbage().settle()


def _made(at: str) -> Object:
    return {"metadata": {"name": "a", "uid": "u", "creationTimestamp": at}}


def _created(sightings: object) -> object:
    assert isinstance(sightings, dict)
    return sightings["u", "created"]
