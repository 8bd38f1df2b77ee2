"""A real load, metered by agents of known joules, has these joules in its result."""

from collections.abc import Mapping
from typing import Any

import pytest

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import PlannedServer
from inferometer_api.results.agent_sample import AgentSample
from inferometer_api.results.result import Step
from support.fake_agent import SERVER_POD, FakeAgent, a_sample, answering, steady
from support.load_runs import LoadRun, a_plan, measure
from support.scripted_server import ScriptedServer, fixed, serving

WATTS = 40.0
NO_IDLE = {"telemetry": {"idleSeconds": 0}}
BEGIN_AFTER_IDLE = 2
"""The question at the first window's begin, after those at both edges of the idle time."""


def run_of(agent: FakeAgent, *scenarios: Mapping[str, Any], **more: Any) -> LoadRun:
    """Measure an oracle whose node has this agent; the run must end well."""
    oracle = more.pop("oracle", None) or ScriptedServer(law=fixed(0.005))
    # An edge may be late by a tenth of the window before there is no energy.
    more["validity"] = {"minDurationSeconds": 6, **more.get("validity", {})}
    with serving(oracle), answering(agent):
        run = measure(a_plan(oracle.url("HTTP"), *scenarios, agents=[agent.planned()], **more))
    assert run.outcome.state == "Complete", run.outcome.message
    return run


def steps_of(run: LoadRun) -> list[Step]:
    """Return the steps of all scenarios."""
    return [step for scenario in run.scenarios for step in scenario.steps]


def counted_joules(step: Step, watts: float) -> float:
    """Return the energy of a steady power between the agent's edges, which are the window's.

    A busy machine may hold up an edge; then the result must say so.
    """
    assert step.energy.reason == ""
    seconds, counted = step.duration_nanoseconds / 1e9, step.energy.window_nanoseconds
    assert counted is not None
    assert step.energy.not_covered or counted / 1e9 == pytest.approx(seconds, rel=0.02)
    return watts * counted / 1e9


@pytest.mark.parametrize(
    "scenario",
    [{"singleStream": {}}, {"server": {"targetQps": 300, "arrivals": "Constant"}}],
    ids=["closed", "open"],
)
def test_known_joules_are_found(scenario: Mapping[str, Any]) -> None:
    """Energy is power times the window, shared by CPU seconds, over the samples: within 1 %."""
    agent = FakeAgent(law=steady(WATTS, busy_cores=2.0, target_cores=0.5))
    (step,) = steps_of(run_of(agent, scenario, spec={"telemetry": {"idleSeconds": 1}}))
    joules = counted_joules(step, WATTS)
    energy = step.energy
    assert energy.attribution == "shared"
    (domain,) = energy.domains
    assert domain.domain_microjoules == pytest.approx(joules * 1e6, rel=0.01)
    assert energy.microjoules == pytest.approx(joules * 1e6 / 4, rel=0.01)
    assert energy.microjoules is not None
    assert energy.microjoules_per_inference is not None
    assert step.latency is not None
    answered = energy.microjoules / energy.microjoules_per_inference
    # What an open loop's window left unanswered was due within the longest latency before its end.
    left = 0 if "singleStream" in scenario else 1 + 300 * step.latency.max_nanoseconds / 1e9
    assert 0.99 * step.counts.samples - left <= answered <= 1.01 * step.counts.samples
    assert energy.baseline_milliwatts == pytest.approx(WATTS * 1000, rel=0.01)
    assert abs(energy.net_microjoules or 0) < 0.01 * (energy.microjoules or 0)


def test_known_joules_per_inference_are_found() -> None:
    """Where each query costs 5 J over an idle power of 20 W, net is 5 J per inference."""
    oracle = ScriptedServer(law=fixed(0.1))
    agent = FakeAgent()
    answered = 0

    def law(seconds: float) -> AgentSample:
        nonlocal answered
        # At the begin as many as at the idle time's end, however late the question comes.
        if len(agent.asked) - 1 != BEGIN_AFTER_IDLE:
            answered = len(oracle.well)
        joules = 20 * seconds + 5 * answered
        return a_sample(seconds, {"package-0": joules}, busy_cores=1.0, target_cores=0.99)

    agent.law = law
    run = run_of(
        agent,
        {"singleStream": {}},
        oracle=oracle,
        spec={"telemetry": {"idleSeconds": 1}},
        validity={"minQueries": 20},
    )
    (step,) = steps_of(run)
    energy = step.energy
    assert energy.attribution == "dedicated"
    assert energy.net_microjoules_per_inference == pytest.approx(5_000_000, rel=0.01)
    idle = counted_joules(step, 20) * 1e6 / step.counts.samples
    assert energy.microjoules_per_inference == pytest.approx(5_000_000 + idle, rel=0.01)
    assert "Idle" in {report.stage for report in run.progress}
    (node,) = step.telemetry
    assert node.samples[0].watts["package-0"] == pytest.approx(20, rel=0.01)  # without load
    assert node.samples[0].at_milliseconds < 0


def test_a_server_that_falls_behind_has_the_joules_of_what_it_answered() -> None:
    """Queries answered after the window's end took none of its energy."""
    oracle = ScriptedServer(law=fixed(0.02))

    def law(seconds: float) -> AgentSample:
        joules = seconds / 1000 + len(oracle.well)
        return a_sample(seconds, {"package-0": joules}, busy_cores=1.0, target_cores=0.99)

    (step,) = steps_of(
        run_of(
            FakeAgent(law=law),
            {"server": {"targetQps": 100}},
            oracle=oracle,
            load={"connections": 1},
            spec=NO_IDLE,
        )
    )
    assert step.drain_nanoseconds > step.duration_nanoseconds / 2
    assert step.counts.samples == step.counts.scheduled
    assert step.energy.microjoules_per_inference == pytest.approx(1_000_000, rel=0.1)


def test_each_step_has_its_window_and_its_idle_time() -> None:
    """Three steps are sampled over one kept connection, at their edges and each second."""
    agent = FakeAgent()
    run = run_of(
        agent,
        {"batch": {"batchSizes": [1, 2]}},
        {"singleStream": {}},
        spec=NO_IDLE,
        validity={"minDurationSeconds": 12},
    )
    seconds = sum(int(step.duration_nanoseconds / 1e9) + 1 for step in steps_of(run))
    for step in steps_of(run):
        # Half of the node's busy CPU time; and each inference counts, not each query.
        joules = counted_joules(step, WATTS / 2)
        each = joules * 1e6 / step.counts.samples
        assert step.energy.microjoules_per_inference == pytest.approx(each, rel=0.01)
        assert step.energy.net_microjoules is None
        assert step.energy.baseline_milliwatts is None
        (node,) = step.telemetry
        assert (node.node, node.governor, node.cpu_count) == ("worker-1", "performance", 4)
        assert node.server_cpu_seconds == pytest.approx(joules / WATTS * 2, rel=0.01)
        assert step.server_cpu_seconds == node.server_cpu_seconds
        assert [each.server_cpu_cores for each in step.usage] == [
            pytest.approx(1, rel=0.01) for _ in step.usage
        ]
        assert {each.server_memory_bytes for each in step.usage} == {2**20}
    assert agent.connections == 1
    assert set(agent.asked) == {f"GET /v1/sample?pod={SERVER_POD} HTTP/1.1"}
    # Before each step and at both edges, and at each second between.
    assert 3 * 3 + 1 <= len(agent.asked) <= 3 * 3 + 1 + seconds


def test_disabled_power_costs_no_idle_time_and_no_caution() -> None:
    """Energy is then unavailable, the series of the node is there, and nothing is warned of."""
    run = run_of(
        FakeAgent(),
        {"singleStream": {}},
        spec={"telemetry": {"power": "Disabled", "idleSeconds": 600}},
    )
    (step,) = steps_of(run)
    assert (step.energy.attribution, step.energy.reason) == (
        "unavailable",
        "power measurement is disabled",
    )
    assert step.telemetry[0].samples[-1].cpu_cores == pytest.approx(2, rel=0.01)
    assert "Idle" not in {report.stage for report in run.progress}
    rules = {finding.rule for finding in run.scenarios[0].verdict.cautions}
    assert not rules & {"EnergyUnavailable", "EnergyIncomplete"}


def test_replicas_on_several_nodes_are_summed_up() -> None:
    """Two agents, one with two servers: their energies and CPU seconds together."""
    two, one = FakeAgent(), FakeAgent(law=steady(10.0, target_cores=None, node="worker-2"))
    two.law = steady(WATTS, busy_cores=4.0, target_cores=0.5, pods=("pod-a", "pod-b"))
    oracle = ScriptedServer(law=fixed(0.005))
    with serving(oracle), answering(two), answering(one):
        agents = [two.planned("pod-a", "pod-b"), one.planned("pod-c", node="worker-2")]
        asked = a_plan(
            oracle.url("HTTP"),
            {"singleStream": {}},
            agents=agents,
            spec=NO_IDLE,
            validity={"minDurationSeconds": 6},
        )
        plan = load_plan(
            asked.run,
            place="Local",
            servers=[PlannedServer(url=oracle.url("HTTP"))] * 3,
            agents=agents,
        )
        run = measure(plan)
    (step,) = steps_of(run)
    assert step.energy.attribution == "node"  # the second agent does not find its server
    parts = {each.node: each.microjoules for each in step.energy.domains}
    assert parts == {
        "worker-1": pytest.approx(counted_joules(step, WATTS / 4) * 1e6, rel=0.02),
        "worker-2": pytest.approx(counted_joules(step, 10) * 1e6, rel=0.02),
    }
    assert step.energy.microjoules == sum(parts.values())
    assert step.server_cpu_seconds is None  # what one of them used is not known
    assert two.asked[0] == "GET /v1/sample?pod=pod-a&pod=pod-b HTTP/1.1"


def test_a_server_without_an_agent_leaves_no_energy() -> None:
    """Why it has none stands in the result and in a caution; no time is spent for it."""
    oracle = ScriptedServer()
    with serving(oracle):
        plan = a_plan(oracle.url("HTTP"), {"singleStream": {}}, unmetered="no agent is configured")
        run = measure(plan)
    (step,) = steps_of(run)
    assert step.energy.reason == "no agent is configured"
    (caution,) = [
        each for each in run.scenarios[0].verdict.cautions if each.rule == "EnergyUnavailable"
    ]
    assert caution.message.startswith("Energy was not measured: no agent is configured.")
    assert "Idle" not in {report.stage for report in run.progress}


def test_an_estimate_of_a_local_server_is_called_one() -> None:
    """By choice, CPU seconds times the stated power; a node without a source gives it too."""
    estimate = {"telemetry": {"estimatedMilliwattsPerCore": 5000}}
    law = steady(busy_cores=2.0, target_cores=0.5)

    def without_rapl(seconds: float) -> AgentSample:
        return law(seconds).model_copy(update={"energy": []})

    run = run_of(FakeAgent(law=without_rapl), {"singleStream": {}}, spec=estimate)
    (step,) = steps_of(run)
    assert step.energy.attribution == "estimated"
    joules = counted_joules(step, 0.5 * 5)
    assert step.energy.microjoules == pytest.approx(joules * 1e6, rel=0.01)
    assert "Idle" not in {report.stage for report in run.progress}
