"""What does a text of metrics say, read by prometheus-client's own parser?"""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

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
