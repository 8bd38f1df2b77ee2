"""A run beyond a ceiling of the admin is refused with the field, its value and the ceiling."""

from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_operator.reconcile.expiry import expires_at
from inferometer_operator.reconcile.observed import ObjectReference
from inferometer_operator.settings import Ceilings
from support.condition_rows import a_cluster, changed, complete, external
from support.pretend_cluster import SETTINGS, PretendCluster


def _bounded(spec: dict[str, Any], **ceilings: Any) -> PretendCluster:
    settings = SETTINGS.model_copy(update={"ceilings": Ceilings(**ceilings)})
    cluster = a_cluster(spec, settings=settings)
    cluster.references[_CLAIM] = {"labels": {ALLOW_USE_LABEL: "true"}}
    return cluster.settle()


_LARGE = {"resources": {"cpu": "1500m", "memory": "1Gi"}, "replicas": 2}
_CLAIM = ObjectReference("PersistentVolumeClaim", "kept", "spec.retention.export.uri")
_EXPORT = {"export": {"uri": "pvc://kept/runs/"}}
_GPU = {"device": "GPU", "gpu": {"resource": "nvidia.com/gpu"}, "replicas": 4}


@pytest.mark.parametrize(
    ("spec", "ceiling", "below", "says"),
    [
        (
            {"activeDeadlineSeconds": 7200},
            {"active_deadline_seconds": 7199},
            {"active_deadline_seconds": 7200},
            ("spec.activeDeadlineSeconds: 7200 ", "7199", "ceilings.activeDeadlineSeconds"),
        ),
        (
            {},
            {"ttl_seconds_after_finished": 86_400},
            {"ttl_seconds_after_finished": 604_800},
            ("spec.retention.ttlSecondsAfterFinished: 604800 ", "86400"),
        ),
        (
            {"server": {"replicas": 3}},
            {"replicas": 2},
            {"replicas": 3},
            ("spec.server.replicas: 3 ", "ceiling of 2 ", "ceilings.replicas"),
        ),
        (
            {"load": {"workers": 4}},
            {"workers": 3},
            {"workers": 4},
            ("spec.load.workers: 4 ", "ceiling of 3 "),
        ),
        (
            {"load": {"connections": 100}},
            {"connections": 99},
            {"connections": 100},
            ("spec.load.connections: 100 ", "ceiling of 99 "),
        ),
        (
            {"server": _LARGE, "load": {"workers": 2}},
            {"cpu": "5900m"},
            {"cpu": "6"},
            ("spec.server.resources.cpu:", "2 server and 3 load pods request 6 CPUs", "5900m"),
        ),
        (
            {"server": _LARGE},
            {"memory": "4095Mi"},
            {"memory": "4Gi"},
            ("spec.server.resources.memory:", "request 4294967296 bytes", "4095Mi"),
        ),
        (
            {"server": _LARGE, "load": {"workers": 2}, "retention": _EXPORT},
            {"cpu": "6029m"},
            {"cpu": "6030m"},
            ("request 6.03 CPUs", "6029m"),
        ),
        (
            {"server": _LARGE, "retention": _EXPORT},
            {"memory": "4223Mi"},
            {"memory": "4224Mi"},
            ("request 4429185024 bytes", "4223Mi"),
        ),
        (
            {"server": _GPU},
            {"gpus": 3},
            {"gpus": 4},
            ("spec.server.gpu.count:", "request 4 GPUs", "ceiling of 3 "),
        ),
        (
            {"server": {**_GPU, "replicas": 1}},
            {"gpus": 0},
            {"gpus": 1},
            ("spec.server.gpu.count:", "ceiling of 0 ", "ceilings.gpus"),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) and value else None,
)
def test_a_run_beyond_a_ceiling_is_refused_at_once(
    spec: dict[str, Any], ceiling: dict[str, Any], below: dict[str, Any], says: tuple[str, ...]
) -> None:
    """It is Failed with CeilingExceeded and has no child; at the ceiling it is accepted."""
    cluster = _bounded(spec, **ceiling)
    assert cluster.says("Accepted") == ("False", "CeilingExceeded")
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.children == {}
    message = cluster.message("Accepted")
    assert not [words for words in says if words not in message], message
    assert _bounded(spec, **below).says("Accepted") == ("True", "Accepted")


def test_all_ceilings_that_are_exceeded_are_named() -> None:
    """One message lists them, so that one correction is enough."""
    spec = {"load": {"workers": 4, "connections": 100}}
    message = _bounded(spec, workers=1, connections=1).message("Accepted")
    assert message.startswith("2 problems. ")


def test_without_ceilings_a_run_may_be_as_large_as_the_api_allows() -> None:
    """No ceiling is set unless an admin sets it."""
    assert SETTINGS.ceilings.model_dump(exclude_none=True) == {}
    large = {"server": {"replicas": 64}, "load": {"workers": 1000, "connections": 10_000}}
    assert _bounded(large).says("Accepted") == ("True", "Accepted")


def test_an_external_server_counts_for_nothing() -> None:
    """Only the run's own pods request something."""
    cluster = external()
    cluster.service = {"spec": {"type": "ClusterIP", "selector": {"app": "theirs"}}}
    cluster.settings = SETTINGS.model_copy(update={"ceilings": Ceilings(cpu="1")})
    assert cluster.settle().says("Accepted") == ("True", "Accepted")


def test_a_ttl_that_is_raised_later_counts_up_to_the_ceiling() -> None:
    """Retention is mutable: it must not be a way around the ceiling."""
    cluster = complete().collect_garbage()
    cluster.settings = SETTINGS.model_copy(
        update={"ceilings": Ceilings(ttl_seconds_after_finished=604_800)}
    )
    changed(cluster, retention={"ttlSecondsAfterFinished": 2_592_000})
    due = expires_at(cluster.run, cluster.settings)
    assert due is not None
    assert (due - cluster.now).total_seconds() == 604_800
    assert not cluster.later(604_799).gone
    assert cluster.later(1).gone
