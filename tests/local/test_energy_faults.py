"""A run is measured all the same if node agents are at fault."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import ScenarioResult
from support.fake_agent import (
    SERVER_POD,
    FakeAgent,
    Fault,
    Law,
    answering,
    no_source,
    steady,
)
from support.load_runs import a_plan, finished, measure, reports, started
from support.oracle_process import oracle_process
from support.oracle_script import delayed

NO_IDLE = {"telemetry": {"idleSeconds": 0}}
BEFORE, BEGIN, SECOND, END = range(4)
"""The questions of a step of between one and two seconds; a longer one has more before its end."""
QUERIES_PER_STEP = 120
"""At 10 ms each they last longer than the least duration, so that a step has no more of them."""


def scenario_with(*agents: PlannedAgent, **more: Any) -> ScenarioResult:
    """Measure an oracle for more than a second, with these agents; the run must end well."""
    with oracle_process(delayed(0.01)) as oracle:
        spec = {**NO_IDLE, **more.pop("spec", {})}
        validity = {"minQueries": 120, **more.pop("validity", {})}
        plan = a_plan(
            oracle.url("HTTP"),
            {"singleStream": {}},
            agents=agents,
            spec=spec,
            validity=validity,
            **more,
        )
        run = measure(plan)
    assert run.outcome.state == "Complete", run.outcome.message
    (scenario,) = run.scenarios
    return scenario


def only_from(first: int, fault: Fault) -> Callable[[int], Fault | None]:
    """Return the fault of every question from this one on."""
    return lambda number: fault if number >= first else None


def only_at(which: int, fault: Fault) -> Callable[[int], Fault | None]:
    """Return the fault of one question."""
    return lambda number: fault if number == which else None


FAULTS: list[tuple[str, Callable[[int], Fault | None], Law, str]] = [
    ("hangs at the end", only_from(END, "silence"), steady(), "did not answer within 2 s at"),
    ("hangs at the begin", only_at(BEGIN, "silence"), steady(), "did not answer within 2 s at"),
    ("cuts every answer", only_from(BEGIN, "cut"), steady(), "was closed"),
    ("garbage", only_at(BEGIN, "garbage"), steady(), "its answer is not HTTP"),
    ("other JSON", only_from(END, "no sample"), steady(), "answered what is no sample"),
    ("an error", only_at(BEGIN, "status"), steady(), "HTTP status 503 Service Unavailable"),
    ("a redirect", only_from(0, "redirect"), steady(), "HTTP status 302 Found"),
    ("no end", only_from(END, "endless"), steady(), "answered with more than 262144 bytes"),
    ("restarted", only_from(SECOND, "restarted"), steady(), "was restarted within the window"),
    ("another node", lambda _: None, steady(node="n9"), "answered for another node, n9"),
    ("no source", lambda _: None, no_source, "rapl: /sys/class/powercap has no package"),
]


OF_THE_PROCESS = {"BusyMachine", "ClientStarved"}
"""Why else it may be INVALID here: agent, server and load generator share one process."""


@pytest.mark.parametrize(
    ("faults", "law", "why"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS]
)
def test_energy_is_unavailable_and_latency_is_valid(
    faults: Callable[[int], Fault | None], law: Law, why: str
) -> None:
    """An agent at fault leaves no energy, with the reason; the verdict is that of the latency."""
    with answering(FakeAgent(law=law, faults=faults)) as agent:
        scenario = scenario_with(agent.planned())
    (step,) = scenario.steps
    assert step.energy.attribution == "unavailable"
    assert why in step.energy.reason
    assert "worker-1" in step.energy.reason
    assert step.energy.microjoules is None
    assert {each.rule for each in scenario.verdict.reasons} <= OF_THE_PROCESS
    assert step.counts.failed == 0
    (caution,) = [each for each in scenario.verdict.cautions if each.rule == "EnergyUnavailable"]
    assert step.energy.reason in caution.message


def test_an_agent_that_dies_within_the_window() -> None:
    """Its readings until then are kept, and the energy is unavailable."""
    agent = FakeAgent()

    def die_after(number: int) -> Fault | None:
        if number == SECOND:
            agent.stop()
        return None

    agent.faults = die_after
    with answering(agent):
        scenario = scenario_with(agent.planned())
    (step,) = scenario.steps
    assert "cannot be reached" in step.energy.reason
    assert {each.rule for each in scenario.verdict.reasons} <= OF_THE_PROCESS
    assert step.telemetry[0].samples


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://a:1", "http://a:x"])
def test_an_address_without_an_agent(url: str) -> None:
    """No agent there, or no address at all: the run goes on."""
    (step,) = scenario_with(PlannedAgent(url=url, node="worker-1")).steps
    assert step.energy.attribution == "unavailable"
    assert step.energy.reason.startswith("the node agent of worker-1 ")


def test_a_connection_that_was_given_up_is_made_anew() -> None:
    """An agent that closes a kept connection has not failed: energy is known all the same."""
    with answering(FakeAgent(faults=only_at(BEGIN, "cut"))) as agent:
        (step,) = scenario_with(agent.planned(), validity={"minDurationSeconds": 4}).steps
    assert step.energy.attribution == "shared"
    assert agent.connections == 2


def test_one_of_two_agents_is_enough_to_have_none() -> None:
    """The energy of a part of the servers is no figure of the run."""
    with (
        answering(FakeAgent()) as well,
        answering(FakeAgent(faults=only_from(END, "status"))) as ill,
    ):
        (step,) = scenario_with(well.planned(), ill.planned()).steps
    assert step.energy.attribution == "unavailable"
    assert len(step.telemetry) == 2


def test_a_hanging_agent_is_waited_for_at_two_edges() -> None:
    """An agent that times out twice in a row is not queried again, and delays no other step."""
    with (
        oracle_process(delayed(0.01)) as oracle,
        answering(FakeAgent(faults=only_from(0, "silence"))) as agent,
    ):
        plan = a_plan(
            oracle.url("HTTP"), {"batch": {"batchSizes": [1, 2, 4]}}, agents=[agent.planned()]
        )
        run = measure(plan)
    (scenario,) = run.scenarios
    reasons = {step.energy.reason for step in scenario.steps}
    assert reasons == {"the node agent of worker-1 did not answer within 2 s at the window's begin"}
    assert len(agent.request_lines) == 2
    assert [each.rule for each in scenario.verdict.cautions].count("EnergyUnavailable") == 1


def test_a_late_agent_is_queried_again() -> None:
    """One edge without an answer costs one step its energy; the next edge has its own 2 s."""
    with (
        oracle_process(delayed(0.01)) as oracle,
        answering(FakeAgent(faults=only_at(BEGIN, "silence"))) as agent,
    ):
        plan = a_plan(
            oracle.url("HTTP"),
            {"batch": {"batchSizes": [1, 2]}},
            agents=[agent.planned()],
            spec=NO_IDLE,
            validity={"minDurationSeconds": 8},  # an edge may be late by a tenth of the window
        )
        ((first, second),) = [scenario.steps for scenario in measure(plan).scenarios]
    assert "did not answer within 2 s at the window's begin" in first.energy.reason
    assert second.energy.attribution == "shared"
    assert agent.connections == 2


def test_an_end_while_an_agent_is_awaited_keeps_the_measurements() -> None:
    """A run that is ended after its last reply, before the agent's, has measured its scenario."""
    sent_before, silent = 0, threading.Event()

    def silent_after_the_last_reply(number: int) -> Fault | None:
        nonlocal sent_before
        answered = oracle.answered
        if number == BEFORE:
            sent_before = answered
        if answered - sent_before < QUERIES_PER_STEP:
            return None
        silent.set()
        return "silence"

    with (
        oracle_process(delayed(0.01)) as oracle,
        answering(FakeAgent(faults=silent_after_the_last_reply)) as agent,
    ):
        steps = {"batch": {"batchSizes": [1, 2]}}
        least = {"minQueries": 2 * QUERIES_PER_STEP, "minDurationSeconds": 2}
        validity = {**least, "maxDurationSeconds": 60}
        plan = a_plan(
            oracle.url("HTTP"),
            steps,
            agents=[agent.planned()],
            spec=NO_IDLE,
            validity=validity,
        )
        with started(plan) as process:
            assert silent.wait(60), "The question at the window's end"
            process.send_signal(signal.SIGTERM)
            run = finished(process)
    assert run.exit_code == 128 + signal.SIGTERM
    ((step,),) = [scenario.steps for scenario in run.scenarios]
    assert (step.label, step.ended_early) == ("batch 1", False)
    assert oracle.answered - sent_before == step.counts.queries == QUERIES_PER_STEP


def test_the_idle_time_heeds_a_signal() -> None:
    """A run that is ended while no load is sent ends at once, having measured nothing."""
    with oracle_process(delayed(0.01)) as oracle, answering(FakeAgent()) as agent:
        spec = {"telemetry": {"idleSeconds": 3600}}
        plan = a_plan(oracle.url("HTTP"), {"singleStream": {}}, agents=[agent.planned()], spec=spec)
        with started(plan) as process:
            for report in reports(process):
                if isinstance(report, ProgressReport) and report.stage == "Idle":
                    assert report.fraction < 0.1
                    break
            process.send_signal(signal.SIGTERM)
            run = finished(process)
    assert run.exit_code == 128 + signal.SIGTERM
    assert run.scenarios == []
    assert SERVER_POD in agent.request_lines[0]
