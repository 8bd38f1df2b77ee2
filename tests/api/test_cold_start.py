"""A cold start on a real API server: a new pod for each repeat, whose start the plan describes."""

from inferometer_api.plan.load_plan import StartEvidence
from support.crash_courses import measure_repeats
from support.stage import SHORT, Stage

_COLD = [{"name": "cold", "coldStart": {"repeats": 2}}]


def test_each_repeat_starts_a_pod_whose_phases_are_handed_over(stage: Stage) -> None:
    """The first with the plan, the second with the targets; both from creation to container."""
    stage.play("loadgen", lambda pod: measure_repeats(stage, pod))
    stage.start_operator()
    stage.apply(scenarios=_COLD, validity=SHORT)
    load = stage.load()
    status = stage.finished()
    assert stage.condition("Complete")["status"] == "True", status
    first, second = stage.kubelet.all(stage.namespace, "server")
    planned = StartEvidence.model_validate(load.plan["servers"][0]["start"])
    (server,) = load.targets[0].servers
    assert server.pod_uid == second.uid
    assert server.start is not None
    for evidence in (planned, server.start):
        names = [each.name for each in evidence.phases]
        assert names == ["scheduled", "fetcherStarted", "modelFetched", "containerStarted"]
        assert evidence.created_microseconds <= evidence.phases[-1].end_microseconds
        assert evidence.ready_microseconds is not None
    assert server.start.created_microseconds >= planned.created_microseconds
    assert first.uid != second.uid


def test_a_state_that_needs_the_right_to_remove_images_is_refused(stage: Stage) -> None:
    """With the value of the agent's chart."""
    stage.start_operator()
    node = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
    stage.apply(scenarios=[{"name": "cold", "coldStart": {"state": "Nothing"}}], server=node)
    stage.finished()
    assert "coldStart.allowImageRemoval: true" in stage.condition("Accepted")["message"]
