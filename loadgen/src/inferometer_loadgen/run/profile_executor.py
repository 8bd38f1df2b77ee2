"""Executor of profiles: measures under load without a profiler, then has the server profiled."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError

from inferometer_api.results.result import ScenarioResult, StepProfile
from inferometer_api.spec.scenario import Profile
from inferometer_loadgen.run.executor import (
    CUTS_SHORT,
    RunContext,
    ScenarioRepeat,
    StepEnd,
)
from inferometer_loadgen.run.load_executor import LoadExecutor, LoadRepeat, open_load_executor
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ProfileRefusedError, ServerDescription

EXTENSION = "profile"
"""The server's extension of the protocol: POST /v2/models/NAME/profile."""


@asynccontextmanager
async def open_profile_executor(run: RunContext) -> AsyncIterator["ProfileExecutor"]:
    """Open the executor of the load, whose figures the profiles explain."""
    async with open_load_executor(run) as load:
        yield ProfileExecutor(load)


class ProfileExecutor:
    """Measures each step under load, then has the first server profile it; see Executor."""

    def __init__(self, load: LoadExecutor) -> None:
        self._load = load
        self._run: RunContext | None = None
        self._has_profiles = False

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Prepare the load."""
        self._run = run
        self._has_profiles = EXTENSION in descriptions[0].extensions
        return await self._load.prepare(run, descriptions, repeats)

    def start(self, repeat: ScenarioRepeat) -> "ProfileRepeat":
        """Begin one repeat of a scenario; raises RuntimeError before `prepare`."""
        profile = repeat.scenario.profile
        if self._run is None or profile is None:
            raise RuntimeError("A profile was started before it was prepared.")
        return ProfileRepeat(self._load.start(repeat), self._run, profile, self._has_profiles)


class ProfileRepeat:
    """Measures one repeat and profiles each of its steps; see RepeatExecution."""

    def __init__(
        self,
        load: LoadRepeat,
        run: RunContext,
        profile: Profile,
        has_profiles: bool,  # noqa: FBT001 - one caller
    ) -> None:
        self._load = load
        self._run = run
        self._profile = profile
        self._has_profiles = has_profiles
        self._profiles: dict[str, StepProfile] = {}

    def next_step(self) -> StepPlan | None:
        """Return the next planned step."""
        return self._load.next_step()

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Measure a step under load, then profile it."""
        end = await self._load.run_step(step)
        if end.why not in CUTS_SHORT:
            self._profiles[step.label] = await self._profiled(step)
        return end

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the figures and the verdict of the load, with the profiles."""
        result = self._load.judge(cut_short, server_restarted=server_restarted)
        if result is None:
            return None
        steps = [
            step.model_copy(update={"profile": self._profiles.get(step.label)})
            for step in result.steps
        ]
        return result.model_copy(update={"steps": steps})

    async def _profiled(self, step: StepPlan) -> StepProfile:
        levels = self._profile.levels
        if not self._has_profiles:
            why = (
                "The server has no profile extension: only the server that Inferometer starts "
                "with the runtime OnnxRuntime or OpenVino has one."
            )
            return StepProfile(unavailable=dict.fromkeys(levels, why))
        request = {
            "batchSize": step.batch_size,
            "iterations": self._profile.iterations,
            "layers": levels != ["Model"],
        }
        controls = self._run.servers.controls()
        try:
            return step_profile(await controls[0].profile(request), levels)
        except ProfileRefusedError as error:
            return StepProfile(unavailable=dict.fromkeys(levels, str(error)))
        finally:
            for control in controls:
                await control.close()


def step_profile(answer: Mapping[str, Any], levels: Sequence[str]) -> StepProfile:
    """Return the profile in a server's answer, with the levels that it has of those requested."""
    unavailable: dict[str, str] = {}
    kernels_missing = str(answer.get("kernelsMissing", ""))
    if "Kernel" in levels and kernels_missing:
        unavailable["Kernel"] = kernels_missing
    try:
        return StepProfile.model_validate(
            {
                "levels": [each for each in levels if each not in unavailable],
                "unavailable": unavailable,
                **{
                    name: answer[name]
                    for name in ("modelNanoseconds", "profiledNanoseconds", "layers", "notes")
                },
            }
        )
    except (ValidationError, KeyError) as error:
        raise ProfileRefusedError(
            f"The server's profile cannot be read: {str(error).splitlines()[0]}."
        ) from error
