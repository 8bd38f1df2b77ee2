"""A real load, metered by agents of known joules, has these joules in its result."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import PlannedServer
from inferometer_api.results.agent_sample import AgentSample
from inferometer_api.results.result import Step
from support.fake_agent import SERVER_POD, FakeAgent, a_sample, answering, steady
from support.load_runs import LoadRun, a_plan, measure
from support.oracle_process import oracle_process
from support.oracle_script import delayed

WATTS = 40.0
EXACT = 1e-5
"""What the rounding of counters to microseconds and microjoules leaves."""
HELD_UP = " were read "
"""Begins the sentence about counters that were not read at the window's edges."""
NO_IDLE = {"telemetry": {"idleSeconds": 0}}
BEGIN_AFTER_IDLE = 2
"""The question at the first window's begin, after those at both edges of the idle time."""


def run_of(agent: FakeAgent, *scenarios: Mapping[str, Any], **more: Any) -> LoadRun:
    """Measure an oracle whose node has this agent; the run must end well."""
    # An edge may be late by a tenth of the window before there is no energy.
    more["validity"] = {"minDurationSeconds": 6, **more.get("validity", {})}
    oracle = more.pop("oracle", None)
    with ExitStack() as stack:
        oracle = oracle or stack.enter_context(oracle_process(delayed(0.005)))
        stack.enter_context(answering(agent))
        run = measure(a_plan(oracle.url("HTTP"), *scenarios, agents=[agent.planned()], **more))
    assert run.outcome.state == "Complete", run.outcome.message
    return run


def steps_of(run: LoadRun) -> list[Step]:
    """Return the steps of all scenarios."""
    return [step for scenario in run.scenarios for step in scenario.steps]


def require_edges(steps: list[Step], require_quiet: Callable[[], None]) -> None:
    """Assert that agents were read at the windows' edges; a busy machine leaves this open."""
    for step in steps:
        late = [each for each in (step.energy.reason, *step.energy.not_covered) if HELD_UP in each]
        if late:
            require_quiet()
        assert late == []
        counted = step.energy.window_nanoseconds
        assert counted == pytest.approx(step.duration_nanoseconds, rel=0.02)


def counted_joules(step: Step, watts: float, *agents: FakeAgent) -> float:
    """Return the energy of a steady power between two samples, by the clock of the agents."""
    counted = step.energy.window_nanoseconds
    assert counted is not None
    times = [agent.sampled for agent in agents]
    assert any(late - early == counted for each in times for early in each for late in each)
    return watts * counted / 1e9


@pytest.mark.parametrize(
    "scenario",
    [{"singleStream": {}}, {"server": {"targetQps": 300, "arrivals": "Constant"}}],
    ids=["closed", "open"],
)
def test_known_joules_are_found(
    scenario: Mapping[str, Any], require_quiet: Callable[[], None]
) -> None:
    """Energy is power times the window, shared by CPU seconds, over the samples."""
    agent = FakeAgent(law=steady(WATTS, busy_cores=2.0, target_cores=0.5))
    (step,) = steps = steps_of(run_of(agent, scenario, spec={"telemetry": {"idleSeconds": 1}}))
    if step.energy.reason:
        require_edges(steps, require_quiet)
    joules = counted_joules(step, WATTS, agent)
    energy = step.energy
    assert energy.attribution == "shared"
    (domain,) = energy.domains
    assert domain.domain_microjoules == pytest.approx(joules * 1e6, abs=2)
    assert energy.microjoules == pytest.approx(joules * 1e6 / 4, rel=EXACT)
    assert energy.microjoules is not None
    assert energy.microjoules_per_inference is not None
    assert step.latency is not None
    unanswered = step.counts.samples - round(energy.microjoules / energy.microjoules_per_inference)
    assert energy.baseline_milliwatts == pytest.approx(WATTS * 1000, rel=EXACT)
    assert energy.net_microjoules is not None
    assert abs(energy.net_microjoules) < EXACT * energy.microjoules * 4
    if "singleStream" in scenario:
        assert unanswered == 0
        require_edges(steps, require_quiet)
        return
    # What the window left unanswered was due within the longest latency before its end.
    assert 0 <= unanswered <= 1 + 300 * step.latency.max_nanoseconds / 1e9
    require_edges(steps, require_quiet)
    require_quiet()
    assert unanswered < 0.01 * step.counts.samples


def test_known_joules_per_inference_are_found(require_quiet: Callable[[], None]) -> None:
    """If each query costs 5 J over an idle power of 20 W, net is 5 J per inference."""
    agent = FakeAgent()
    answered = 0

    def law(seconds: float) -> AgentSample:
        nonlocal answered
        # At the begin as many as at the idle time's end, however late the question comes.
        if len(agent.request_lines) - 1 != BEGIN_AFTER_IDLE:
            answered = oracle.answered
        joules = 20 * seconds + 5 * answered
        return a_sample(seconds, {"package-0": joules}, busy_cores=1.0, target_cores=0.99)

    agent.law = law
    with oracle_process(delayed(0.1)) as oracle:
        run = run_of(
            agent,
            {"singleStream": {}},
            oracle=oracle,
            spec={"telemetry": {"idleSeconds": 1}},
            validity={"minQueries": 20},
        )
    (step,) = steps = steps_of(run)
    if step.energy.reason:
        require_edges(steps, require_quiet)
    energy = step.energy
    assert energy.attribution == "dedicated"
    assert energy.net_microjoules_per_inference == pytest.approx(5_000_000, rel=0.01)
    idle = counted_joules(step, 20, agent) * 1e6 / step.counts.samples
    assert energy.microjoules_per_inference == pytest.approx(5_000_000 + idle, rel=0.01)
    assert "Idle" in {report.stage for report in run.progress}
    (node,) = step.telemetry
    assert node.samples[0].watts["package-0"] == pytest.approx(20, rel=0.01)  # without load
    assert node.samples[0].at_milliseconds < 0
    require_edges(steps, require_quiet)


def test_a_server_that_falls_behind_has_the_joules_of_what_it_answered(
    require_quiet: Callable[[], None],
) -> None:
    """Queries answered after the window's end took none of its energy."""

    def law(seconds: float) -> AgentSample:
        joules = seconds / 1000 + oracle.answered
        return a_sample(seconds, {"package-0": joules}, busy_cores=1.0, target_cores=0.99)

    with oracle_process(delayed(0.02)) as oracle:
        run = run_of(
            FakeAgent(law=law),
            {"server": {"targetQps": 100}},
            oracle=oracle,
            load={"connections": 1},
            spec=NO_IDLE,
        )
    (step,) = steps = steps_of(run)
    assert step.drain_nanoseconds > step.duration_nanoseconds / 2
    assert step.counts.samples == step.counts.scheduled
    require_edges(steps, require_quiet)
    assert step.energy.microjoules_per_inference == pytest.approx(1_000_000, rel=0.1)


def test_each_step_has_its_window_and_its_idle_time(require_quiet: Callable[[], None]) -> None:
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
    if any(step.energy.reason for step in steps_of(run)):
        require_edges(steps_of(run), require_quiet)
    for step in steps_of(run):
        # Half of the node's busy CPU time; and each inference counts, not each query.
        joules = counted_joules(step, WATTS / 2, agent)
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
    assert set(agent.request_lines) == {f"GET /v1/sample?pod={SERVER_POD} HTTP/1.1"}
    # Before each step and at both edges, and at each second between.
    assert 3 * 3 + 1 <= len(agent.request_lines) <= 3 * 3 + 1 + seconds
    require_edges(steps_of(run), require_quiet)


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


def test_replicas_on_several_nodes_are_summed_up(require_quiet: Callable[[], None]) -> None:
    """Two agents, one with two servers: their energies and CPU seconds together."""
    two, one = FakeAgent(), FakeAgent(law=steady(10.0, target_cores=None, node="worker-2"))
    two.law = steady(WATTS, busy_cores=4.0, target_cores=0.5, pods=("pod-a", "pod-b"))
    with oracle_process(delayed(0.005)) as oracle, answering(two), answering(one):
        agents = [two.planned("pod-a", "pod-b"), one.planned("pod-c", node="worker-2")]
        unmetered = a_plan(
            oracle.url("HTTP"),
            {"singleStream": {}},
            agents=agents,
            spec=NO_IDLE,
            validity={"minDurationSeconds": 6},
        )
        plan = load_plan(
            unmetered.run,
            place="Local",
            servers=[PlannedServer(url=oracle.url("HTTP"))] * 3,
            agents=agents,
        )
        run = measure(plan)
    (step,) = steps = steps_of(run)
    require_edges(steps, require_quiet)
    assert step.energy.attribution == "node"  # the second agent does not find its server
    parts = {each.node: each.microjoules for each in step.energy.domains}
    assert parts == {
        "worker-1": pytest.approx(counted_joules(step, WATTS / 4, one, two) * 1e6, rel=0.02),
        "worker-2": pytest.approx(counted_joules(step, 10, one, two) * 1e6, rel=0.02),
    }
    assert step.energy.microjoules == sum(parts.values())
    assert step.server_cpu_seconds is None  # what one of them used is not known
    assert two.request_lines[0] == "GET /v1/sample?pod=pod-a&pod=pod-b HTTP/1.1"


def test_a_server_without_an_agent_leaves_no_energy() -> None:
    """Why it has none stands in the result and in a caution; no time is spent for it."""
    with oracle_process() as oracle:
        plan = a_plan(oracle.url("HTTP"), {"singleStream": {}}, unmetered="no agent is configured")
        run = measure(plan)
    (step,) = steps_of(run)
    assert step.energy.reason == "no agent is configured"
    (caution,) = [
        each for each in run.scenarios[0].verdict.cautions if each.rule == "EnergyUnavailable"
    ]
    assert caution.message.startswith("Energy was not measured: no agent is configured.")
    assert "Idle" not in {report.stage for report in run.progress}


def test_an_estimate_of_a_local_server_is_called_one(require_quiet: Callable[[], None]) -> None:
    """By choice, CPU seconds times the stated power; a node without a source gives it too."""
    estimate = {"telemetry": {"estimatedMilliwattsPerCore": 5000}}
    law = steady(busy_cores=2.0, target_cores=0.5)

    def without_rapl(seconds: float) -> AgentSample:
        return law(seconds).model_copy(update={"energy": []})

    agent = FakeAgent(law=without_rapl)
    run = run_of(agent, {"singleStream": {}}, spec=estimate)
    (step,) = steps = steps_of(run)
    if step.energy.reason:
        require_edges(steps, require_quiet)
    assert step.energy.attribution == "estimated"
    joules = counted_joules(step, 0.5 * 5, agent)
    assert step.energy.microjoules == pytest.approx(joules * 1e6, rel=0.01)
    assert "Idle" not in {report.stage for report in run.progress}
    require_edges(steps, require_quiet)
