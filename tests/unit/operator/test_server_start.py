"""The phases of a cold start in a cluster, from pods as kubelets report them."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.reconcile.server_start import start_evidence
from support.cluster_objects import EPOCH
from support.condition_rows import a_cluster
from support.pretend_cluster import SETTINGS

_T = 1_772_359_200
"""2026-03-01T10:00:00Z."""
POD: dict[str, Any] = {
    "metadata": {"name": "a-run-server-0", "creationTimestamp": "2026-03-01T10:00:00Z"},
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "PodReadyToStartContainers",
                "status": "True",
                "lastTransitionTime": "2026-03-01T10:00:03Z",
            },
            {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-03-01T10:00:09Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:14Z"},
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2026-03-01T10:00:01Z",
            },
        ],
        "initContainerStatuses": [
            {
                "name": "fetch",
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "startedAt": "2026-03-01T10:00:04Z",
                        "finishedAt": "2026-03-01T10:00:08Z",
                    }
                },
            }
        ],
        "containerStatuses": [
            {
                "name": "server",
                "ready": True,
                "state": {"running": {"startedAt": "2026-03-01T10:00:10Z"}},
            }
        ],
    },
}
"""As containerd 1.7 and Kubernetes 1.34 report it."""


def _seconds(pod: dict[str, Any]) -> list[tuple[str, float, float]]:
    return [
        (each.name, each.start_microseconds / 1e6 - _T, each.end_microseconds / 1e6 - _T)
        for each in start_evidence(pod).phases
    ]


def test_each_phase_ends_where_the_next_begins() -> None:
    """From the creation of the pod to the start of its container, without a gap."""
    assert _seconds(POD) == [
        ("scheduled", 0, 1),
        ("volumes", 1, 3),
        ("fetcherStarted", 3, 4),
        ("modelFetched", 4, 8),
        ("containerStarted", 8, 10),
    ]
    found = start_evidence(POD)
    assert {each.resolution_microseconds for each in found.phases} == {1_000_000}
    assert found.launched_microseconds == (_T + 10) * 1_000_000
    assert found.ready_microseconds == (_T + 14) * 1_000_000
    assert (found.model_bytes, found.resident_bytes) == (0, 0)
    assert "PodScheduled" in found.phases[0].evidence
    assert found.phases[3].evidence == "finishedAt of the container fetch"


@pytest.mark.parametrize(
    ("phase", "later"),
    [
        ("scheduled", "conditions"),
        ("volumes", "conditions"),
        ("fetcherStarted", "initContainerStatuses"),
        ("modelFetched", "initContainerStatuses"),
        ("containerStarted", "containerStatuses"),
    ],
)
def test_a_delay_is_in_the_phase_in_which_it_happens(phase: str, later: str) -> None:
    """2 s more before one event and all after it: that phase alone is 2 s longer."""
    pod, order = copy.deepcopy(POD), [name for name, _, _ in _seconds(POD)]
    status = pod["status"]
    ended = status["initContainerStatuses"][0]["state"]["terminated"]
    running = status["containerStatuses"][0]["state"]["running"]
    conditions = {each["type"]: each for each in status["conditions"]}
    events = [
        (conditions["PodScheduled"], "lastTransitionTime"),
        (conditions["PodReadyToStartContainers"], "lastTransitionTime"),
        (ended, "startedAt"),
        (ended, "finishedAt"),
        (running, "startedAt"),
    ]
    assert later in status
    for holder, member in events[order.index(phase) :]:
        second = int(holder[member][17:19]) + 2
        holder[member] = f"2026-03-01T10:00:{second:02}Z"
    before = {name: end - start for name, start, end in _seconds(POD)}
    after = {name: end - start for name, start, end in _seconds(pod)}
    assert {name for name in before if after[name] != before[name]} == {phase}
    assert after[phase] - before[phase] == 2


def test_an_older_cluster_has_fewer_phases_and_no_gap() -> None:
    """Without the condition of the sandbox its time is that of the fetcher's start."""
    pod = copy.deepcopy(POD)
    pod["status"]["conditions"] = pod["status"]["conditions"][1:]
    assert _seconds(pod)[1] == ("fetcherStarted", 1, 4)


def test_models_of_a_mix_are_fetched_from_the_first_fetcher_to_the_last() -> None:
    """Each model has a fetcher of its own, one after the other."""
    pod = copy.deepcopy(POD)
    fetchers = pod["status"]["initContainerStatuses"]
    second = copy.deepcopy(fetchers[0]) | {"name": "fetch-1"}
    second["state"]["terminated"] |= {
        "startedAt": "2026-03-01T10:00:08Z",
        "finishedAt": "2026-03-01T10:00:09Z",
    }
    fetchers.append(second)
    assert _seconds(pod)[2:] == [
        ("fetcherStarted", 3, 4),
        ("modelFetched", 4, 9),
        ("containerStarted", 9, 10),
    ]


def test_times_that_are_out_of_order_by_their_rounding_are_no_negative_phase() -> None:
    """Whole seconds of two machines: a phase has at least no duration."""
    pod = copy.deepcopy(POD)
    for each in pod["status"]["conditions"]:
        if each["type"] == "PodReadyToStartContainers":
            each["lastTransitionTime"] = "2026-03-01T10:00:05Z"
    assert _seconds(pod)[1:4] == [
        ("volumes", 1, 5),
        ("fetcherStarted", 5, 5),
        ("modelFetched", 5, 8),
    ]


def test_a_model_from_the_cache_of_the_node_is_not_proven_to_be_cold() -> None:
    """The volume of the pod may have had it on disk and in memory."""
    found = start_evidence(POD, is_cached=True)
    assert (found.model_bytes, found.resident_bytes) == (None, None)
    assert "the cache of its node" in found.residency_unknown


def test_a_cold_start_with_the_cache_says_so() -> None:
    """In the plan of its load generator."""
    model = {"uri": "https://m/m.onnx", "sha256": "0" * 64, "cache": "Node"}
    spec = {"model": model, "scenarios": [{"name": "cold", "coldStart": {"repeats": 1}}]}
    settings = SETTINGS.model_copy(update={"model_cache": True})
    cluster = a_cluster(spec, settings=settings).settle().schedule().start_server()
    plan = LoadPlan.model_validate_json(
        cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"]
    )
    (server,) = plan.servers
    assert server.start is not None
    assert server.start.model_bytes is None


def _pull(message: str, second: int = 3, uid: str = "") -> dict[str, Any]:
    time = f"2026-03-01T10:00:{second:02}Z"
    return {"message": message, "firstTimestamp": time, "involvedObject": {"uid": uid}}


def test_a_pull_is_a_phase_with_its_bytes() -> None:
    """By the first event of a pull; the later container finds the image there."""
    pulls = [
        _pull(
            'Successfully pulled image "s:1" in 400ms (1s including waiting). Image size: 9 bytes.'
        ),
        _pull('Container image "s:1" already present on machine', 9),
    ]
    found = start_evidence(POD, pulls)
    assert [each.name for each in found.phases][1:4] == ["volumes", "imagePulled", "fetcherStarted"]
    assert found.phases[2].bytes == 9
    assert found.phases[2].evidence == "the kubelet's event Pulled"


@pytest.mark.parametrize(
    ("waited", "seconds"), [("1m2.5s", 62.5), ("1h0m3s", 3603), ("650ms", 0.65), ("4s", 4)]
)
@pytest.mark.parametrize("condition", ["late", "missing"])
def test_a_pull_takes_as_long_as_the_kubelet_waited_for_it(
    waited: str, seconds: float, condition: str
) -> None:
    """Also if the pod's condition is written after the pull, or not at all."""
    pod = copy.deepcopy(POD)
    status = pod["status"]
    pod["metadata"]["creationTimestamp"] = "2026-03-01T08:00:00Z"
    status["conditions"][-1]["lastTransitionTime"] = "2026-03-01T08:00:01Z"
    if condition == "missing":
        del status["conditions"][0]
    message = f'Successfully pulled image "s:1" in 400ms ({waited} including waiting).'
    phases = start_evidence(pod, [_pull(message, 3)]).phases
    volumes, pull = phases[1:3]
    assert (volumes.name, pull.name) == ("volumes", "imagePulled")
    assert pull.end_microseconds - pull.start_microseconds == seconds * 1_000_000
    assert pull.end_microseconds == (_T + 3) * 1_000_000


def test_volumes_end_by_the_condition_if_it_is_written_before_the_pull() -> None:
    """A pull that takes less than the resolution of the times does not move it."""
    message = 'Successfully pulled image "s:1" in 400ms (400ms including waiting).'
    volumes, pull = start_evidence(POD, [_pull(message, 4)]).phases[1:3]
    assert volumes.evidence == "condition PodReadyToStartContainers of the pod"
    assert pull.end_microseconds - pull.start_microseconds == 1_000_000


def test_a_pull_of_an_older_kubelet_has_no_bytes() -> None:
    """Before Kubernetes 1.30 the message has no size."""
    found = start_evidence(POD, [_pull('Successfully pulled image "s:1" in 400ms (1s including)')])
    assert (found.phases[2].name, found.phases[2].bytes) == ("imagePulled", None)


def test_an_image_that_was_there_is_no_pull() -> None:
    """Nor is the event of another pod."""
    there = _pull('Container image "s:1" already present on machine')
    others = _pull('Successfully pulled image "s:1" in 400ms', uid="another")
    assert start_evidence(POD, [there, others]) == start_evidence(POD)


_PULLED_IMAGE = 'Successfully pulled image "s:1" in 1s (1s including waiting).'


def _event_of(container: str, second: int = 3) -> dict[str, Any]:
    about = {"uid": "", "fieldPath": f"spec.{container}"}
    return _pull(_PULLED_IMAGE, second) | {"involvedObject": about}


@pytest.mark.parametrize(
    ("events", "unknown"),
    [
        (["containers{server}"], ""),
        (["initContainers{fetch}"], "imagePullPolicy is Always"),
        (["initContainers{fetch}", "containers{server}"], ""),
        ([], ""),
    ],
)
def test_a_container_that_always_pulls_its_image_proves_nothing(
    events: list[str], unknown: str
) -> None:
    """The kubelet reports a pull also of an image that is there; others are certain."""
    pod = copy.deepcopy(POD)
    pod["spec"] = {
        "initContainers": [{"name": "fetch", "imagePullPolicy": "Always"}],
        "containers": [{"name": "server", "imagePullPolicy": "IfNotPresent"}],
    }
    found = start_evidence(pod, [_event_of(each) for each in events])
    assert found.image_unknown.startswith(unknown)
    assert bool(found.image_unknown) == bool(unknown)
    assert ("imagePulled" in {each.name for each in found.phases}) == bool(events)


def test_the_image_of_the_server_is_pulled_after_the_model_is_fetched() -> None:
    """The fetcher has another image, which was there: the phases stay in their order."""
    pod = copy.deepcopy(POD)
    running = pod["status"]["containerStatuses"][0]["state"]["running"]
    running["startedAt"] = "2026-03-01T10:01:10Z"
    found = start_evidence(pod, [_event_of("containers{server}", 58)])
    at = [(each.name, each.end_microseconds / 1e6 - _T) for each in found.phases]
    assert at == [
        ("scheduled", 1),
        ("volumes", 3),
        ("fetcherStarted", 4),
        ("modelFetched", 8),
        ("imagePulled", 58),
        ("containerStarted", 70),
    ]


def test_the_load_of_a_cold_start_is_planned_once_the_server_is_ready() -> None:
    """Its plan has the evidence of the whole start; any other load starts with the server."""
    cold = {"scenarios": [{"name": "cold", "coldStart": {"repeats": 1}}]}
    cluster = a_cluster(cold).settle().schedule()
    assert "Job/a-run-load" not in cluster.children
    cluster.start_server(ready=False)
    assert "Job/a-run-load" not in cluster.children
    cluster.start_server()
    assert "Job/a-run-load" in cluster.children
    plan = LoadPlan.model_validate_json(
        cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"]
    )
    (server,) = plan.servers
    assert server.start is not None
    assert [each.name for each in server.start.phases][-1] == "containerStarted"
    assert server.start.created_microseconds == round(EPOCH.timestamp() * 1e6)
    assert server.start.launched_microseconds is not None
    assert cluster.others_now >= EPOCH - timedelta(seconds=1)
    warm = a_cluster().settle().schedule()
    assert "Job/a-run-load" in warm.children
