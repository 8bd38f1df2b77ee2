"""The operator replaces the server of a real Job between the repeats of a run."""

from support.crash_courses import measure_repeats
from support.stage import SHORT, Stage


def test_each_repeat_has_a_server_of_its_own(stage: Stage) -> None:
    """The second Job comes after the first and its pods are gone, and is handed over with token.

    The load generator is made once, and measures both.
    """
    stage.play("loadgen", lambda pod: measure_repeats(stage, pod))
    stage.start_operator()
    stage.apply(validity={**SHORT, "repeats": 2})
    load = stage.load()
    status = stage.finished()
    assert stage.condition("Complete")["status"] == "True", status
    first, second = stage.kubelet.all(stage.namespace, "server")
    assert [server["podUid"] for server in load.plan["servers"]] == [first.uid]
    assert {each.model_dump_json() for each in load.targets} == {load.targets[0].model_dump_json()}
    (server,) = load.targets[0].servers
    assert (load.targets[0].repeat, server.pod_uid) == (2, second.uid)
    assert first.deleted.is_set()
    assert load.refused_stops == 0
    assert len(stage.kubelet.all(stage.namespace, "loadgen")) == 1
    assert [each["name"] for each in status["scenarios"]] == [load.scenarios[0]] * 2
