"""Does a real load, metered by an agent of known joules, give them back?"""

from collections.abc import Mapping
from typing import Any

import pytest

from inferometer_api.result import Step
from inferometer_api.telemetry import AgentSample
from support.fake_agent import SERVER_POD, FakeAgent, a_sample, answering, no_source, steady
from support.load_runs import LoadRun, a_plan, measure
from support.oracle import Oracle, fixed, serving

WATTS = 40.0
NO_IDLE = {"telemetry": {"idleSeconds": 0}}


def run_of(agent: FakeAgent, *scenarios: Mapping[str, Any], **more: Any) -> LoadRun:
    """Measure an oracle whose node has this agent; the run must end well."""
    oracle = more.pop("oracle", None) or Oracle(law=fixed(0.005))
    with serving(oracle), answering(agent):
        plan = a_plan(oracle.url("HTTP"), *scenarios, agents=[agent.planned()], **more)
        run = measure(plan)
    assert run.outcome.state == "Complete", run.outcome.message
    return run


def steps_of(run: LoadRun) -> list[Step]:
    """Return the steps of all scenarios."""
    return [step for scenario in run.scenarios for step in scenario.steps]


@pytest.mark.parametrize(
    "scenario", [{"singleStream": {}}, {"server": {"targetQps": 300}}], ids=["closed", "open"]
)
def test_known_joules_are_found(scenario: Mapping[str, Any]) -> None:
    """Energy is power times the window, shared by CPU seconds, over the samples: within 1 %."""
    agent = FakeAgent(law=steady(WATTS, busy_cores=2.0, target_cores=0.5))
    (step,) = steps_of(run_of(agent, scenario, spec={"telemetry": {"idleSeconds": 1}}))
    window_seconds = step.duration_nanoseconds / 1e9
    energy = step.energy
    assert energy.attribution == "shared"
    assert energy.window_nanoseconds == pytest.approx(step.duration_nanoseconds, rel=0.02)
    (domain,) = energy.domains
    assert domain.domain_microjoules == pytest.approx(WATTS * window_seconds * 1e6, rel=0.01)
    assert energy.microjoules == pytest.approx(WATTS * window_seconds * 1e6 / 4, rel=0.01)
    each = WATTS * window_seconds * 1e6 / 4 / step.counts.samples
    assert energy.microjoules_per_inference == pytest.approx(each, rel=0.01)
    assert energy.baseline_milliwatts == pytest.approx(WATTS * 1000, rel=0.01)
    assert abs(energy.net_microjoules or 0) < 0.01 * (energy.microjoules or 0)
