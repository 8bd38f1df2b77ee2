"""Preparation of the steps of scenarios whose queries go to a mix of models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inferometer_loadgen.drive.driver import Driver
from inferometer_loadgen.drive.mixed_requests import MixedModelRequests, MixedRequests
from inferometer_loadgen.drive.prepare import LocalDriverFactory, ReadyRequests
from inferometer_loadgen.record.recorder import ModelStatistics
from inferometer_loadgen.schedule.steps import StepPlan


@dataclass(frozen=True, slots=True)
class MixPart:
    """One model of a mix."""

    model: str
    share: float
    """Its share of the queries, from 0 to 1."""
    factory: LocalDriverFactory
    """Makes its requests."""


@dataclass(frozen=True, slots=True)
class MixDriverFactory:
    """Prepares the drivers of a run in which some scenarios have a mix; see DriverFactory."""

    plain: LocalDriverFactory
    """Prepares the steps of scenarios without a mix."""
    mixes: Mapping[str, Sequence[MixPart]]
    """By scenario."""

    async def prepare(self, scenario: str, plan: StepPlan) -> Driver:
        """Prepare the driver of a step."""
        parts = self.mixes.get(scenario)
        if parts is None:
            return await self.plain.prepare(scenario, plan)
        ready = [await _ready(each, scenario, plan) for each in parts]
        recorder = self.plain.recorder(plan, ready)
        statistics = [ModelStatistics(each.model, each.share) for each in parts]
        recorder.statistics.models = statistics
        models = [
            MixedModelRequests(counts, each.pools, each.check)
            for counts, each in zip(statistics, ready, strict=True)
        ]
        first = models[0]
        requests = self.plain.request_source(
            first.requests, first.check, MixedRequests(models, plan.seed)
        )
        return self.plain.driver(plan, recorder, requests)


async def _ready(part: MixPart, scenario: str, plan: StepPlan) -> ReadyRequests:
    """Make the requests to one model; what is said about its outputs names the model."""
    found = await part.factory.ready_requests(f"{scenario}, model {part.model}", plan)
    deviations = {
        f"{part.model}/{name}": f"{part.model}: {sentence}"
        for name, sentence in found.shape_deviations.items()
    }
    return replace(found, shape_deviations=deviations)
