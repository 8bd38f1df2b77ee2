"""The energy tables of the report: a row for each counter, and what the figures cover."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_api.results.result import (
    Energy,
    EnergyDomain,
    ResultDocument,
    ScenarioResult,
    Step,
)
from inferometer_results.quantity import DASH, energy, percent, watts
from inferometer_results.wording.energy import explained, mean_milliwatts, net_explained

_METHODS = {"Counter": "counter", "PowerIntegral": "power over time", "Estimate": "estimate"}
HEADINGS = (
    "Counter",
    "Read as",
    "Attribution",
    "Share",
    "Mean power",
    "Idle power",
    "Energy",
    "Servers' share",
    "Net",
    "Per inference",
    "Net",
)


@dataclass(frozen=True, slots=True)
class StepCounters:
    """The counters of one step, a row for each, and their sum if there are several."""

    label: str
    rows: tuple[tuple[str, ...], ...]
    """As many cells each as there are HEADINGS."""


def energy_of_steps(result: ScenarioResult) -> list[StepCounters]:
    """Return the energy of each step that has counters."""
    steps = [step for step in result.steps if step.energy.domains]
    nodes = {domain.node for step in steps for domain in step.energy.domains}
    return [StepCounters(step.label, tuple(_rows(step, len(nodes) > 1))) for step in steps]


def left_out(result: ScenarioResult) -> list[str]:
    """Return what the energy figures do not cover, each once, without a period."""
    found = (each.strip().rstrip(".") for s in result.steps for each in s.energy.not_covered)
    return list(dict.fromkeys(found))


def energy_words(document: ResultDocument) -> list[tuple[str, str]]:
    """Return the attributions in the report and what they mean."""
    found = [step.energy for result in document.scenarios for step in result.steps]
    known = [each for each in found if each.microjoules_per_inference is not None]
    words: list[tuple[str, str]] = [*explained(each.attribution for each in known)]
    net = net_explained(each.net_microjoules_per_inference for each in known)
    return [*words, ("net", net)] if net else words


def _rows(step: Step, several_nodes: bool) -> Iterator[tuple[str, ...]]:  # noqa: FBT001 - private
    spent = step.energy
    for domain in spent.domains:
        name = f"{domain.node} {domain.domain}" if several_nodes else domain.domain
        yield (
            name,
            _METHODS.get(domain.method, domain.method),
            domain.attribution,
            percent(domain.share),
            watts(_mean_milliwatts(domain, spent)),
            watts(domain.baseline_milliwatts),
            energy(domain.domain_microjoules),
            energy(domain.microjoules),
            energy(domain.net_microjoules),
            _each(domain.microjoules, step),
            _each(domain.net_microjoules, step),
        )
    if len(spent.domains) > 1:
        yield (
            "total",
            "",
            spent.attribution,
            "",
            watts(mean_milliwatts(spent)),
            watts(spent.baseline_milliwatts),
            energy(sum(domain.domain_microjoules for domain in spent.domains)),
            energy(spent.microjoules),
            energy(spent.net_microjoules),
            energy(spent.microjoules_per_inference),
            energy(spent.net_microjoules_per_inference),
        )


def _mean_milliwatts(domain: EnergyDomain, spent: Energy) -> float | None:
    if not spent.window_nanoseconds:
        return None
    return domain.domain_microjoules / spent.window_nanoseconds * 1e6


def _each(microjoules: int | None, step: Step) -> str:
    if microjoules is None or not step.counts.samples:
        return DASH
    return energy(microjoules / step.counts.samples)
