"""Several servers are measured as one, and each of them is checked."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_loadgen.server.servers import Servers
from support.load_runs import OF_THE_LOAD_GENERATOR, a_plan, measure
from support.oracle_process import OracleProcess, oracle_process
from support.oracle_script import Script, delayed

CLOSED: dict[str, Any] = {"singleStream": {}}
OPEN: dict[str, Any] = {"server": {"targetQps": 200, "arrivals": "Poisson"}}
PAST_20: dict[str, Any] = {"minQueries": 100}
"""However slow the machine, request number 20 of each of two servers is within the window."""
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])


@contextmanager
def all_serving(*scripts: Script) -> Iterator[list[OracleProcess]]:
    """Run several oracles until the end of the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(oracle_process(script)) for script in scripts]


def a_shared_plan(
    oracles: Sequence[OracleProcess], protocol: str, *scenarios: Any, **more: Any
) -> LoadPlan:
    """Build a plan whose servers are all these."""
    servers = [
        PlannedServer(url=oracle.url(protocol), pod=f"server-{place}", node=f"node-{place}")
        for place, oracle in enumerate(oracles)
    ]
    plan = a_plan(servers[0].url, *scenarios, **more)
    return plan.model_copy(update={"servers": servers})


@BOTH
@pytest.mark.parametrize("scenario", [CLOSED, OPEN, {"concurrency": {"clients": [3]}}])
def test_requests_are_shared_evenly(protocol: str, scenario: dict[str, Any]) -> None:
    """Three servers, one of them five times as slow, get the same number of requests."""
    with all_serving(delayed(0.002), delayed(0.010), delayed(0.002)) as oracles:
        run = measure(a_shared_plan(oracles, protocol, scenario, load={"connections": 2}))
    assert run.exit_code == 0
    counts = [oracle.received for oracle in oracles]
    assert max(counts) - min(counts) <= 1
    (result,) = run.scenarios
    assert result.steps[0].counts.failed == 0
    # Requests before the window are the first tries of each server.
    tries = result.steps[0].warm_up_queries
    assert tries == 9
    assert abs(sum(counts) - tries - result.steps[0].counts.queries) <= 1
    assert run.environment is not None
    replicas = run.environment.server.replicas
    assert [replica.pod for replica in replicas] == ["server-0", "server-1", "server-2"]
    assert replicas[2].url == oracles[2].url(protocol)


def test_every_server_is_waited_for() -> None:
    """One server of two that is never ready fails the run, by its address."""
    with all_serving(Script(), Script(ready=False)) as oracles:
        external = {"runtime": "External", "external": {"url": oracles[0].url("HTTP")}}
        more = {"server": {**external, "readyDeadlineSeconds": 1}}
        run = measure(a_shared_plan(oracles, "HTTP", CLOSED, spec=more))
        assert oracles[0].received == oracles[1].received == 0
    assert (run.exit_code, run.outcome.reason) == (1, "ServerNotReady")
    assert f":{oracles[1].http_port} " in run.outcome.message


@pytest.mark.parametrize("what", ["sha256", "shape"])
def test_different_models_are_refused(what: str) -> None:
    """Servers that do not serve the same model are refused, with both addresses."""
    one = Script(settings={"model_sha256": "a" * 64})
    other = (
        Script(settings={"model_sha256": "b" * 64})
        if what == "sha256"
        else replace(one, inputs=[{"name": "x", "datatype": "FP32", "shape": [-1, 5]}])
    )
    with all_serving(one, other) as (first, second):
        run = measure(a_shared_plan([first, second], "HTTP", CLOSED))
        assert first.received == second.received == 0
    assert (run.exit_code, run.outcome.reason) == (2, "ModelRefused")
    assert "must serve the same model" in run.outcome.message
    assert f":{first.http_port}" in run.outcome.message
    assert f":{second.http_port}" in run.outcome.message


@pytest.mark.parametrize("key", ["inferometer.instance_id", "inferometer.process_id"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_restart_of_any_server_is_seen(place: int, key: str) -> None:
    """A server that reports another start than before makes the scenario INVALID."""
    scripts = [delayed(0.002, settings={key: f"start-{number}"}) for number in range(2)]
    settings = {key: "another start", "inferometer.process_id": "1"}
    scripts[place] = replace(scripts[place], changes={20: {"settings": settings}})
    with all_serving(*scripts) as oracles:
        run = measure(a_shared_plan(oracles, "HTTP", CLOSED, validity=PAST_20))
    (result,) = run.scenarios
    rules = {finding.rule for finding in result.verdict.reasons}
    assert rules - OF_THE_LOAD_GENERATOR == {"ServerRestarted"}


def test_the_same_process_number_hides_no_restart() -> None:
    """In containers every server is process 1: its instance ID shows a restart."""
    before, after = (
        {"inferometer.instance_id": instance, "inferometer.process_id": "1"} for instance in "ab"
    )
    script = delayed(0.002, settings=before, changes={20: {"settings": after}})
    with oracle_process(script) as oracle:
        run = measure(a_plan(oracle.url("GRPC"), CLOSED, validity=PAST_20))
    assert "ServerRestarted" in [finding.rule for finding in run.scenarios[0].verdict.reasons]


def test_replicas_behind_one_address_are_no_restart() -> None:
    """Where connections reach different processes, none is taken for a restart."""
    in_turn = [{"inferometer.instance_id": instance} for instance in "ab"]
    with oracle_process(delayed(0.002, settings=in_turn)) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED, validity={"repeats": 2}))
    found = [finding.rule for each in run.scenarios for finding in each.verdict.reasons]
    assert "ServerRestarted" not in found


def test_only_the_repeat_with_the_restart_is_invalid_by_it() -> None:
    """Each repeat is compared with its own begin, not with that of the run."""
    before, after = ({"inferometer.instance_id": instance} for instance in "ab")
    script = delayed(0.002, settings=before, changes={20: {"settings": after}})
    with oracle_process(script) as oracle:
        run = measure(a_plan(oracle.url("HTTP"), CLOSED, validity={"repeats": 2, **PAST_20}))
    rules = [[finding.rule for finding in each.verdict.reasons] for each in run.scenarios]
    assert ["ServerRestarted" in each for each in rules] == [True, False]


@pytest.mark.parametrize("scenario", [CLOSED, OPEN])
def test_one_of_several_servers_that_dies_fails_the_run(scenario: dict[str, Any]) -> None:
    """A server that is lost ends the run, whatever the others still answer."""
    long = {"minDurationSeconds": 60, "maxDurationSeconds": 120}
    with all_serving(delayed(0.002), delayed(0.002, dies_at=20)) as oracles:
        run = measure(a_shared_plan(oracles, "HTTP", scenario, validity=long))
    assert (run.exit_code, run.outcome.reason) == (1, "ServerLost")
    assert "One of the servers at " in run.outcome.message
    assert oracles[0].answered > 10


@pytest.mark.parametrize(("deadline", "reason"), [(1, "ServerLost"), (60, "Measured")])
def test_the_spec_limits_how_long_a_server_may_be_away(deadline: int, reason: str) -> None:
    """With a second the run ends although the server comes back after four; with a minute not."""
    with oracle_process(delayed(0.002, away=(50, 4_000_000_000))) as oracle:
        plan = a_plan(
            oracle.url("HTTP"),
            CLOSED,
            load={"reconnectDeadlineSeconds": deadline},
            validity={"minDurationSeconds": 5, "minQueries": 1},
        )
        run = measure(plan)
    assert run.outcome.reason == reason


@pytest.mark.parametrize(("chosen", "coding"), [("None", None), ("Gzip", "gzip")])
def test_the_spec_compresses_the_messages_of_every_server(chosen: str, coding: str | None) -> None:
    """The targets of requests carry the coding."""
    plan = a_plan("grpc://127.0.0.1:1", CLOSED, load={"compression": chosen})
    assert [target.compression for target in Servers(plan).targets()] == [coding]


@pytest.mark.parametrize(
    ("reported", "found"),
    [({}, "1.19.2"), ({"inferometer.runtime_version": "1.22.0"}, "1.22.0")],
)
def test_the_plan_states_the_version_of_an_engine_if_its_server_does_not(
    reported: dict[str, str], found: str
) -> None:
    """What a server reports of itself counts."""
    settings = {"inferometer.runtime": "onnxruntime", **reported}
    with oracle_process(delayed(0.0, settings=settings)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED).model_copy(update={"engine_version": "1.19.2"})
        run = measure(plan)
    assert run.environment is not None
    assert run.environment.server.settings["runtime_version"] == found
