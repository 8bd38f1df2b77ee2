"""The figures of a measurement that pages follow and rank: column, unit, and direction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from inferometer_results.quantity import Unit, duration, energy, energy_unit, significant, time_unit


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """One figure: where it is, and how it is written."""

    name: str
    column: str
    heading: str
    text: Callable[[float], str]
    unit: Callable[[list[float]], Unit]
    more_is_better: bool = False

    def of(self, row: Mapping[str, Any]) -> float | None:
        """Return the figure of a measurement, None if it has none."""
        value = row[self.column]
        return None if value is None or value <= 0 else float(value)


def _rate_unit(_: list[float]) -> Unit:
    return Unit("1/s", 1)


def _figures() -> dict[str, ShownFigure]:
    found = [
        ShownFigure(name, f"{column}_nanoseconds", f"Latency {name}", duration, time_unit)
        for name, column in (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999"))
    ]
    found += [
        ShownFigure(name, column, heading, significant, _rate_unit, more_is_better=True)
        for name, column, heading in (
            ("qps", "qps", "Queries per second"),
            ("samples", "samples_per_second", "Inferences per second"),
            ("peak", "peak_qps", "Peak queries per second"),
        )
    ]
    found.append(
        ShownFigure(
            "energy", "microjoules_per_inference", "Energy per inference", energy, energy_unit
        )
    )
    return {each.name: each for each in found}


FIGURES: Mapping[str, ShownFigure] = MappingProxyType(_figures())
"""The figures by the names that a search uses for them."""
