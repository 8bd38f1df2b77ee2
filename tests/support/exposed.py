"""Reads a text of metrics by prometheus-client's own parser."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from inferometer_api.metrics.definitions import METRICS, Component

Series = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name with its labels."""


@dataclass(frozen=True, slots=True)
class ExposedFamily:
    """One family of metrics in a text."""

    name: str
    type: str
    help: str
    labels: frozenset[frozenset[str]]
    """The sets of names of labels that its samples have; a histogram's `le` is not among them."""
    bounds: tuple[float, ...]
    """Every `le` of a histogram, rising."""


def samples(text: str) -> dict[Series, float]:
    """Return the value of each sample; a series that comes twice is a fault."""
    found: dict[Series, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series = (sample.name, frozenset(sample.labels.items()))
            if series in found:
                raise AssertionError(f"{series} comes twice")
            found[series] = sample.value
    return found


def families(text: str) -> dict[str, ExposedFamily]:
    """Return every family by its name, as Prometheus shows it; one that comes twice is a fault."""
    found: dict[str, ExposedFamily] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name in found:
            raise AssertionError(f"{name} comes twice")
        names = [frozenset(sample.labels) - {"le"} for sample in family.samples]
        bounds = {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}
        found[name] = ExposedFamily(
            name, family.type, family.documentation, frozenset(names), tuple(sorted(bounds))
        )
    return found


def is_own(name: str) -> bool:
    """Return whether a family is of prometheus-client itself."""
    return name.startswith(("process_", "python_"))


def faults(component: Component, text: str) -> list[str]:
    """Return in what a component's text differs from the metrics that it is said to have.

    Every family with its name, type and help; each sample with exactly its labels; each histogram
    with its buckets; and besides these only prometheus-client's own.
    """
    found = {name: each for name, each in families(text).items() if not is_own(name)}
    named = {metric.name: metric for metric in METRICS[component]}
    differs = [f"{name} is exposed, and in no list" for name in found if name not in named]
    for name, metric in named.items():
        exposed = found.get(name)
        if exposed is None:
            differs.append(f"{name} is missing")
            continue
        if (exposed.type, exposed.help) != (metric.type, metric.help):
            differs.append(f"{name} is a {exposed.type}: {exposed.help}")
        if exposed.labels - {frozenset(metric.labels)}:
            differs.append(f"{name} has the labels {[sorted(each) for each in exposed.labels]}")
        if exposed.bounds not in ((), (*metric.buckets, float("inf"))):
            differs.append(f"{name} has other buckets")
    return differs


def silent(text: str) -> set[str]:
    """Return the metrics that have no sample in a text."""
    return {name for name, each in families(text).items() if not each.labels and not is_own(name)}
