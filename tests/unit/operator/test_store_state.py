"""A result is delivered before the children of its run go, and kept in ConfigMaps until then."""

from datetime import timedelta

import pytest

from inferometer_api.plan.deadlines import UNSTORED_SECONDS
from inferometer_operator.reconcile.expiry import expires_at
from inferometer_operator.settings import ResultsServiceSettings
from support.condition_rows import VALID, changed, measuring, over, serving
from support.pretend_cluster import SETTINGS, PretendCluster

_SERVICE = ResultsServiceSettings(url="https://results.test", token_file="/token")  # noqa: S106 - a path
WITH_STORE = SETTINGS.model_copy(update={"results": _SERVICE})
CHILDREN = {"Job/a-run-server", "Job/a-run-load", "ConfigMap/a-run-load"}
_WEEK = 604_800


def stored_by(cluster: PretendCluster) -> PretendCluster:
    """Let the operator have a results service."""
    cluster.settings = WITH_STORE
    return cluster


def result_maps(cluster: PretendCluster) -> set[str]:
    """Return the ConfigMaps with the result."""
    return {name for name in cluster.children if "-result-" in name}


def test_a_stored_result_leaves_no_config_map() -> None:
    """The status has the ID and the permanent address, and every message names it."""
    cluster = over(stored_by(measuring())).collect_garbage()
    assert cluster.says("Stored") == ("True", "Stored")
    assert cluster.says("Finished") == ("True", "Complete")
    assert result_maps(cluster) == set()
    result = cluster.status()["result"]
    url = "http://127.0.0.1:8091/results/0123abcd"
    assert (result["stored"], result.get("configMaps", [])) == ({"id": "0123abcd", "url": url}, [])
    assert result["sha256"]
    for kind in ("Complete", "Finished", "Stored"):
        assert url in cluster.message(kind)
        assert "-result-" not in cluster.message(kind)
    assert cluster.deliveries == 1


def test_it_is_delivered_before_the_children_are_deleted() -> None:
    """The pod with the log is there until the service has answered."""
    cluster = stored_by(measuring())
    seen = []
    deliver = PretendCluster._delivered

    def noting(own: PretendCluster) -> object:
        seen.append(set(own.children) >= CHILDREN)
        return deliver(own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PretendCluster, "_delivered", noting)
        over(cluster)
    assert seen == [True]


def test_without_a_service_nothing_is_said_of_it() -> None:
    """ConfigMaps keep the result, as before."""
    cluster = over(measuring()).collect_garbage()
    assert cluster.says("Stored") is None
    assert result_maps(cluster)
    assert cluster.deliveries == 0


@pytest.mark.parametrize(
    ("store", "reason"), [("away", "StoreUnreachable"), ("refuses", "StoreRefused")]
)
def test_a_service_that_does_not_take_it_is_tried_again(store: str, reason: str) -> None:
    """The run finishes meanwhile, its children go, and its ConfigMaps keep the result."""
    cluster = stored_by(measuring())
    cluster.store = store  # type: ignore[assignment] # one of its words
    over(cluster).collect_garbage()
    assert cluster.says("Stored") == ("False", reason)
    assert "It was so. Retried at" in cluster.message("Stored")
    assert cluster.says("Finished") == ("True", "Complete")
    assert CHILDREN & set(cluster.children) == set()
    assert result_maps(cluster)
    tried = cluster.deliveries
    cluster.later(1)
    assert cluster.deliveries == tried
    cluster.store = "takes"
    cluster.later(5)
    assert cluster.says("Stored") == ("True", "Stored")
    assert result_maps(cluster) == set()


def test_a_restarted_operator_delivers_what_the_last_one_did_not() -> None:
    """Whether it failed there, or a service was configured only now."""
    cluster = over(measuring()).collect_garbage()
    stored_by(cluster).restart_operator()
    cluster.settle()
    assert cluster.says("Stored") == ("True", "Stored")
    assert result_maps(cluster) == set()


def test_what_a_failed_run_has_measured_is_stored_too() -> None:
    """A cancelled run keeps its scenarios."""
    cluster = stored_by(changed(measuring(), cancel=True))
    cluster.end_load(143, None, VALID).collect_garbage()
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.says("Stored") == ("True", "Stored")


def test_a_run_that_measured_nothing_has_nothing_to_store() -> None:
    """No condition, no delivery."""
    cluster = stored_by(changed(serving(), cancel=True))
    cluster.later(31).later(61)
    assert cluster.says("Finished") == ("True", "Failed")
    assert (cluster.says("Stored"), cluster.deliveries) == (None, 0)


def test_an_unstored_run_outlives_its_ttl_by_thirty_days_at_most() -> None:
    """Afterwards it is deleted; without a service, at its TTL."""
    cluster = stored_by(measuring())
    cluster.store = "away"
    over(cluster).collect_garbage()
    assert expires_at(cluster.run, WITH_STORE) is None
    cluster.later(_WEEK + 60)
    cluster.later(UNSTORED_SECONDS - 120)
    assert not cluster.gone
    assert cluster.later(240).gone
    other = over(measuring()).collect_garbage()
    assert expires_at(other.run, SETTINGS) is not None
    assert other.later(_WEEK + 60).gone


def test_a_stored_run_is_deleted_at_its_ttl() -> None:
    """Nothing holds it."""
    cluster = over(stored_by(measuring())).collect_garbage()
    assert expires_at(cluster.run, WITH_STORE) is not None
    assert cluster.later(_WEEK + 60).gone


def test_a_late_delivery_saves_a_run_whose_ttl_is_over() -> None:
    """It is stored, and then deleted at once."""
    cluster = stored_by(measuring())
    cluster.store = "away"
    over(cluster).collect_garbage()
    cluster.later(_WEEK + 3600)
    cluster.store = "takes"
    before = cluster.deliveries
    cluster.now += timedelta(seconds=700)
    assert cluster.settle().gone
    assert cluster.deliveries == before + 1
