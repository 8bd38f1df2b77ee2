"""The extension `profile`: the server profiles the model at each step's batch size."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from inferometer_api.results.result import StepProfile
from inferometer_api.runtimes.table import runtimes_that
from inferometer_api.spec.scenario import Profile
from inferometer_loadgen.run.executor import ScenarioRepeat
from inferometer_loadgen.run.extension_executor import ServerExtension
from inferometer_loadgen.schedule.steps import StepPlan
from inferometer_loadgen.server.control_plane import ProfileRefusedError


def step_profile(answer: Mapping[str, Any], levels: Sequence[str]) -> StepProfile:
    """Return the profile in a server's answer, with the levels that it has of those requested.

    Raises ProfileRefusedError if it cannot be read.
    """
    layers_missing = str(answer.get("layersMissing", ""))
    missing = {
        "Layer": layers_missing,
        "Kernel": str(answer.get("kernelsMissing", "")) or layers_missing,
    }
    unavailable = {level: why for level, why in missing.items() if why and level in levels}
    try:
        return StepProfile.model_validate(
            {
                "levels": [each for each in levels if each not in unavailable],
                "unavailable": unavailable,
                **{
                    name: answer[name]
                    for name in ("modelNanoseconds", "profiledNanoseconds", "layers", "notes")
                },
                **{
                    name: answer[name]
                    for name in ("kernelProfiledNanoseconds", "openingIterations", "kernels", "gpu")
                    if name in answer
                },
            }
        )
    except (ValidationError, KeyError) as error:
        raise ProfileRefusedError(
            f"The server's profile cannot be read: {str(error).splitlines()[0]}."
        ) from error


def _profile(repeat: ScenarioRepeat) -> Profile:
    if repeat.scenario.profile is None:
        raise ValueError(f"a scenario of kind {repeat.scenario.kind} has no profile")
    return repeat.scenario.profile


def _request(repeat: ScenarioRepeat, step: StepPlan) -> dict[str, Any]:
    profile = _profile(repeat)
    return {
        "batchSize": step.batch_size,
        "iterations": profile.iterations,
        "layers": profile.levels != ["Model"],
        "kernels": "Kernel" in profile.levels,
    }


PROFILE = ServerExtension(
    name="profile",
    missing="The server has no profile extension: only the server that Inferometer starts with "
    f"the runtime {' or '.join(runtimes_that(lambda each: each.times_layers))} has one.",
    request=_request,
    read=lambda answer, repeat: step_profile(answer, _profile(repeat).levels),
    unavailable=lambda why, repeat: StepProfile(
        unavailable=dict.fromkeys(_profile(repeat).levels, why)
    ),
)
