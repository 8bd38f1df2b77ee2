"""Models of the mixes of a run: their descriptions, their inputs, and the makers of requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from inferometer_api.results.result import other_model_note
from inferometer_api.spec.model_mix import mix_shares
from inferometer_api.spec.scenario import Scenario
from inferometer_loadgen.drive.mix_factory import MixDriverFactory, MixPart
from inferometer_loadgen.drive.prepare import DriverFactory, LocalDriverFactory, encoder_of
from inferometer_loadgen.requests.inputs import check_taken
from inferometer_loadgen.requests.pool import InputSources, load_of_model
from inferometer_loadgen.run.executor import RunContext
from inferometer_loadgen.server.control_plane import ServerDescription


@dataclass(frozen=True, slots=True)
class MixedModels:
    """The run's model and all others that its mixes name."""

    run: RunContext
    scenarios: Sequence[Scenario]
    descriptions: Mapping[str, ServerDescription]
    """By model; the run's own comes first."""
    sources: Mapping[str, InputSources]
    """By model."""

    @classmethod
    async def describe(
        cls, run: RunContext, first: ServerDescription, scenarios: Sequence[Scenario]
    ) -> Self:
        """Fetch the descriptions of the others, and make the sources of all inputs.

        Raises ModelNotServedError and InputRefusedError.
        """
        plan = run.plan
        found = {plan.model_name: first}
        for name in [each.model for scenario in scenarios for each in scenario.mix or ()]:
            if name not in found:
                found[name] = await run.servers.describe_other(name)
        load = plan.run.spec.load
        names = {tensor.name for each in found.values() for tensor in each.inputs}
        sources = {
            model: InputSources(
                load_of_model(load, each.inputs, names),
                plan.inputs_file,
                each.inputs,
                each.optional_inputs,
                run.files,
            )
            for model, each in found.items()
        }
        return cls(run, scenarios, found, sources)

    @property
    def others(self) -> tuple[str, ...]:
        """The models other than the run's own."""
        return tuple(self.descriptions)[1:]

    def notes(self) -> Iterator[str]:
        """Yield what the servers report of each further model."""
        for model in self.others:
            settings = self.descriptions[model].settings
            if checksum := settings.get("model_sha256"):
                yield other_model_note(model, checksum)

    def inputs(self, model: str) -> InputSources:
        """Return the source of the inputs of a model."""
        return self.sources[model]

    def check_inputs(self, scenario: Scenario) -> Iterator[str]:
        """Yield a note for each pool that is smaller than requested; raises InputRefusedError."""
        own = self.run.plan.model_name
        if scenario.sampled_accuracy is not None:  # whose samples are its inputs
            return
        for model in [each.model for each in scenario.mix or ()] or [own]:
            for size in scenario.load_profile.request_batch_sizes:
                check_taken(size, self.descriptions[model].max_batch_size)
                note = self.sources[model].note(self.sources[model].source(size), size)
                if note is not None:
                    yield note

    def driver_factory(self, drivers: LocalDriverFactory) -> DriverFactory:
        """Return a factory of drivers that heeds the mixes; `drivers` is that of the own model."""
        mixes = {
            scenario.name: [
                MixPart(each.model, share, self._factory(drivers, each.model))
                for each, share in zip(
                    scenario.mix, mix_shares(scenario.mix, scenario.mix_weights), strict=True
                )
            ]
            for scenario in self.scenarios
            if scenario.mix is not None
        }
        return MixDriverFactory(drivers, mixes) if mixes else drivers

    def _factory(self, drivers: LocalDriverFactory, model: str) -> LocalDriverFactory:
        plan, description = self.run.plan, self.descriptions[model]
        other = None if model == plan.model_name else model
        return replace(
            drivers,
            targets=self.run.servers.targets(other),
            encoder=encoder_of(plan, description, other),
            outputs=description.outputs,
            inputs=self.sources[model],
        )
