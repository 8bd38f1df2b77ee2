"""Rules for runs whose server runs the steps of the manifest."""

from collections.abc import Iterator
from typing import Any

from inferometer_api.rules import Rule, Where
from inferometer_api.spec.runtime_lists import RUN_STEPS

_IN_SERVER = "has(self.model.pipeline) && self.model.pipeline == 'Server'"


def _without_samples(spec: Any) -> Iterator[tuple[Where, str]]:
    """Yield each scenario that would send random tensors to a server that expects samples."""
    if not spec.model.runs_steps_in_server:
        return
    for index, each in enumerate(spec.scenarios):
        if each.evaluated is None:
            yield ("scenarios", index, each.kind), f"{each.kind} in scenario {each.name}"


PIPELINE_RULES = (
    Rule(
        cel=f"!({_IN_SERVER}) || self.server.runtime in {list(RUN_STEPS)}",
        message=f"pipeline Server is for runtime {', '.join(RUN_STEPS[:-1])} and "
        f"{RUN_STEPS[-1]}, whose server runs the steps: take one of them, or pipeline Client",
        holds=lambda spec: not spec.model.runs_steps_in_server or spec.server.runtime in RUN_STEPS,
        field="model.pipeline",
        found=lambda spec: f"runtime {spec.server.runtime}",
    ),
    Rule(
        cel=f"!({_IN_SERVER}) || self.scenarios.all(s, has(s.accuracy) || has(s.sampledAccuracy))",
        message="with pipeline Server requests carry samples of a data set: take scenario "
        "accuracy, or add sampledAccuracy",
        holds=lambda spec: not any(_without_samples(spec)),
        field="scenarios",
        breaches=_without_samples,
    ),
)
