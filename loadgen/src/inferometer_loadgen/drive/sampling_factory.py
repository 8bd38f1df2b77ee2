"""Preparation of the steps of scenarios whose queries carry the samples of a data set."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer_loadgen.drive.contract import LoadDriver
from inferometer_loadgen.drive.prepare import DriverFactory, LocalDriverFactory
from inferometer_loadgen.drive.sampled_requests import ReplyLog, SampledRequests
from inferometer_loadgen.schedule.steps import StepPlan


@dataclass(frozen=True, slots=True)
class SamplingPart:
    """What the steps of one scenario send, and where their replies are logged."""

    factory: LocalDriverFactory
    """Makes the requests from the samples."""
    sample_every: int
    log: ReplyLog


@dataclass(frozen=True, slots=True)
class SamplingDriverFactory:
    """Prepares the drivers of a run in which some scenarios send samples; see DriverFactory."""

    others: DriverFactory
    """Prepares the steps of the other scenarios."""
    parts: Mapping[str, SamplingPart]
    """By scenario."""

    async def prepare(self, scenario: str, plan: StepPlan) -> LoadDriver:
        """Prepare the driver of a step."""
        part = self.parts.get(scenario)
        if part is None:
            return await self.others.prepare(scenario, plan)
        factory = part.factory
        ready = await factory.ready_requests(scenario, plan)
        chosen = SampledRequests(ready.pools, ready.check, part.log)
        requests = factory.request_source(ready.pools, ready.check, chosen, part.sample_every)
        return factory.driver(plan, factory.recorder(plan, [ready]), requests)
