"""What a run says of itself is true when it says it."""

from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_api.results.result import Outcome
from inferometer_api.status.run_status import RunStatus, ScenarioSummary
from inferometer_operator.reconcile.conditions import clip, valid_condition
from inferometer_operator.reconcile.external_service import missing_port
from inferometer_operator.reconcile.pods import requests
from support.cluster_objects import Object, unschedulable, warning
from support.condition_rows import VALID, a_cluster, changed, external, measuring, other_port
from support.pretend_cluster import PretendCluster

_NO_SCENARIO = "The run did not complete; no scenario was measured to its end."
_NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


def _requesting(pod: Object, **amounts: str) -> Object:
    containers = [{**pod["spec"]["containers"][0], "resources": {"requests": amounts}}]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def test_a_pod_is_quoted_with_its_own_requests() -> None:
    """An upgraded operator does not quote its new settings for the pods of the old one."""
    cluster = a_cluster().settle().schedule().start_server()
    pod = _requesting(unschedulable(cluster.pod(LOADGEN), _NO_CPU), cpu="3", memory="1Gi")
    cluster.pods[pod["metadata"]["name"]] = pod
    found = cluster.settle().message("Measuring")
    assert "the load generator's pod, which requests cpu 3, memory 1Gi: 0/1 nodes" in found


def test_a_job_is_quoted_with_the_requests_of_its_template() -> None:
    """The same holds for a pod that its Job cannot create."""
    cluster = a_cluster().settle().schedule().start_server()
    job = cluster.children[cluster.load]
    job["spec"]["template"] = _requesting(job["spec"]["template"], cpu="3", memory="1Gi")
    cluster.events.append(warning(job, "FailedCreate", "exceeded quota: small"))
    assert "requests cpu 3, memory 1Gi: exceeded quota" in cluster.settle().message("Measuring")


def test_the_labels_of_a_node_are_quoted_too() -> None:
    """A pod's requests and the node labels that the spec requires stand in one sentence."""
    server = {"placement": {"nodeSelector": {"disk": "fast"}}}
    cluster = a_cluster({"server": server}).settle()
    pod = _requesting(unschedulable(cluster.pod(SERVER), _NO_CPU), cpu="1", memory="2Gi")
    cluster.pods[pod["metadata"]["name"]] = pod
    found = cluster.settle().message("ServerReady")
    assert "which requests cpu 1, memory 2Gi, nodes with disk=fast: 0/1 nodes" in found


def test_a_pods_requests_name_extended_resources_as_nodes_do() -> None:
    """The words are those of the kubelet's and the spec's."""
    amounts = {"cpu": "500m", "nvidia.com/gpu": "2"}
    pod: Object = {"spec": {"containers": [{"resources": {"requests": amounts}}]}}
    assert requests(pod) == "cpu 500m, 2 nvidia.com/gpu"
    assert requests({"spec": {"containers": [{}]}}) == ""


@pytest.mark.parametrize(
    ("spec", "port", "says"),
    [
        ({"ports": [{"port": 8000}]}, 8000, ""),
        ({"ports": [{"port": 8000, "protocol": "TCP"}]}, 8000, ""),
        ({"ports": [{"port": 8000, "protocol": "UDP"}]}, 8000, "it has none."),
        ({"ports": [{"port": 80, "targetPort": 8000}]}, 8000, "it has 80."),
        ({"ports": [{"port": 80, "name": "http"}, {"port": 81}]}, 82, "it has 80 (http), 81."),
        ({"ports": [{"port": 80}], "clusterIP": "None"}, 8000, ""),
    ],
)
def test_a_missing_port_is_reported_with_those_there_are(
    spec: dict[str, Any], port: int, says: str
) -> None:
    """A headless Service leads to its pods, whose ports it need not list."""
    found = missing_port({"metadata": {"name": "theirs"}, "spec": spec}, port)
    assert found.endswith(says)
    assert bool(found) == bool(says)


def test_a_wrong_port_ends_a_run_at_once() -> None:
    """No deadline passes first, whether the Service exists before the run or appears later."""
    for cluster in (other_port(external()), other_port(external().settle())):
        assert cluster.says("Failed") == ("True", "ServicePortNotFound")
        assert "it has 8001 (grpc)." in cluster.message("Failed")


def test_nothing_measured_is_said_once_it_is_decided() -> None:
    """While a load generator may still hand over its result, the condition says so."""
    cluster = changed(measuring(), cancel=True)
    assert cluster.message("Valid") == "The run did not complete. What it measured is not read yet."
    stopped = Outcome(state="Terminated", reason="Terminated")
    cluster.end_load(143, stopped, VALID)
    assert "keeps 1 of 1 scenario, measured until then" in cluster.message("Valid")


def _gone_silent(cluster: PretendCluster) -> PretendCluster:
    return changed(cluster, cancel=True).later(31).later(61)


def test_a_load_generator_that_hands_nothing_over_has_measured_nothing() -> None:
    """The awaited result is given up with the sentence that then holds."""
    cluster = _gone_silent(measuring())
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.message("Valid") == _NO_SCENARIO
    assert a_cluster({"cancel": True}).settle().message("Valid") == _NO_SCENARIO


def _judged(*verdicts: tuple[str, int, list[str]]) -> str:
    """Return the message of Valid for scenarios: name, repeat and reasons, INVALID if any."""
    scenarios = [
        ScenarioSummary(
            name=name, repeat=repeat, verdict="INVALID" if reasons else "VALID", reasons=reasons
        )
        for name, repeat, reasons in verdicts
    ]
    names = {name for name, *_ in verdicts}
    return valid_condition(RunStatus(scenarios=scenarios), len(names)).message


def test_scenarios_are_counted_once_whatever_their_repeats() -> None:
    """Of the repeats of a scenario, the first INVALID one gives the reasons."""
    found = _judged(("a", 1, []), ("b", 1, []), ("a", 2, ["Late."]), ("a", 3, ["Later."]))
    assert found == "1 of 2 scenarios is invalid. a: Late."
    assert _judged(("a", 1, ["Late."]), ("a", 2, [])) == "The scenario is invalid. a: Late."
    assert _judged(("a", 1, ["x."]), ("b", 1, [])) == "1 of 2 scenarios is invalid. a: x."
    both = _judged(("a", 1, ["x."]), ("b", 1, ["y."]))
    assert both == "Both scenarios are invalid. a: x. b: y."


def test_a_rule_of_several_scenarios_is_explained_once() -> None:
    """The first scenario's sentence stands for all, and the last words link to its section."""
    scenarios = [
        ScenarioSummary(
            name=name,
            verdict="INVALID",
            reasons=[f"Others used {cores} CPUs.", *more],
            reason_rules=["BusyMachine", *["ErrorRate"] * len(more)],
        )
        for name, cores, more in (("a", 1.1, []), ("b", 1.2, ["Errors."]), ("c", 1.3, []))
    ]
    found = valid_condition(RunStatus(scenarios=scenarios), 3).message
    assert found == (
        "All 3 scenarios are invalid. a, b, c: Others used 1.1 CPUs. b: Errors. "
        "What to do: inferometer explain BusyMachine."
    )


def test_a_summary_without_sentences_names_its_rules() -> None:
    """A load generator whose report had to be shortened still says which rules were violated."""
    short = ScenarioSummary(name="a", verdict="INVALID", reason_rules=["BusyMachine", "ErrorRate"])
    found = valid_condition(RunStatus(scenarios=[short]), 1).message
    assert found.startswith("The scenario is invalid. a: BusyMachine. ErrorRate. What to do: ")
    bare = ScenarioSummary(name="a", verdict="INVALID")
    found = valid_condition(RunStatus(scenarios=[bare]), 1).message
    assert found == "The scenario is invalid. See the result for the reasons."


def test_reasons_are_whole_sentences() -> None:
    """What does not fit is counted, and never cut in the middle of a word."""
    long = "A sentence. " * 33
    found = _judged(("a", 1, ["First.", long.strip(), "Third.", "Fourth."]))
    assert found.endswith("First. (3 more in status.scenarios.)")


@pytest.mark.parametrize("length", [4095, 4096, 4097, 10_000])
def test_no_message_is_longer_than_the_api_takes(length: int) -> None:
    """The schema of the status allows 4,096 characters; a cut message ends with dots."""
    found = clip("a" * length)
    assert len(found) == min(length, 4096)
    assert found.endswith(" ...") == (length > 4096)
