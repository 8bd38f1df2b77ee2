"""Figures written for people: units and significant digits."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

DASH = "\N{EN DASH}"
"""Takes the place of a missing figure."""

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
"""The percentiles of latency in every table and comparison."""

_TOO_MANY = 10_000
"""From this many units on, a figure is written in the next larger unit."""
_PERCENT_DIGITS = 9
_LARGEST_EXPONENT = 18
"""Beyond it, in either direction, a number is written with an exponent."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit and its size in the document's unit (nanoseconds, bytes, ...)."""

    name: str
    size: float

    def of(self, value: float) -> float:
        """Return the value in this unit."""
        return value / self.size

    def text(self, value: float | None) -> str:
        """Return the value in this unit with 3 significant digits, without the unit's name."""
        return DASH if value is None else significant(self.of(value))

    def named(self, value: float | None) -> str:
        """Return the value in this unit with 3 significant digits and the unit's name."""
        return DASH if value is None else f"{self.text(value)} {self.name}"


_TIMES = (Unit("ns", 1), Unit("µs", 1e3), Unit("ms", 1e6), Unit("s", 1e9))
_BYTES = (Unit("B", 1), Unit("KiB", 2**10), Unit("MiB", 2**20), Unit("GiB", 2**30))
_PREFIXES = ("", "k", "M", "G", "T")
_ENERGIES = (Unit("µJ", 1), Unit("mJ", 1e3), Unit("J", 1e6), Unit("kJ", 1e9))


def time_unit(nanoseconds: Iterable[float | None]) -> Unit:
    """Return the unit in which all these times are easy to read."""
    return _unit(_TIMES, nanoseconds)


def byte_unit(sizes: Iterable[float | None]) -> Unit:
    """Return the unit in which all these sizes are easy to read."""
    return _unit(_BYTES, sizes)


def energy_unit(microjoules: Iterable[float | None]) -> Unit:
    """Return the unit in which all these energies are easy to read; net ones may be negative."""
    return _unit(_ENERGIES, (None if each is None else abs(each) for each in microjoules))


def energy(microjoules: float | None) -> str:
    """Return an energy in a suitable unit: 812 mJ."""
    return energy_unit([microjoules]).named(microjoules)


def watts(milliwatts: float | None) -> str:
    """Return a power in watts: 38.2 W."""
    return DASH if milliwatts is None else f"{significant(milliwatts / 1000)} W"


def percent(share: float) -> str:
    """Return a share as a percentage: 48.6 %; what only rounding leaves of it is 0 %."""
    return f"{significant(round(share * 100, _PERCENT_DIGITS))} %"


def spread_percent(share: float) -> str:
    """Return a spread or an error, a positive share, in tenths of a percent: 1.2 %.

    One that these round to zero is "< 0.1 %": no measurement is exact.
    """
    rounded = f"{100 * share:.1f} %"
    return "< 0.1 %" if rounded == "0.0 %" else rounded


def duration(nanoseconds: float | None) -> str:
    """Return a time in a suitable unit: 41.2 ms."""
    return time_unit([nanoseconds]).named(nanoseconds)


def long_duration(seconds: float) -> str:
    """Return a time of seconds to days in whole units: 45 s, 1 min 30 s, 2 h 5 min."""
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return _two(left // 60, "min", left % 60, "s")
    left = round(left / 60)
    return _two(left // 60, "h", left % 60, "min")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit} {small} {small_unit}" if small else f"{large} {unit}"


def size(count: float | None) -> str:
    """Return a number of bytes in a suitable unit: 1.46 GiB."""
    return byte_unit([count]).named(count)


def count_of(number: float) -> str:
    """Return a count with three significant digits and a prefix of the SI: "25.6 M"."""
    rounded = float(f"{number:.3g}")
    power = max(0, (len(f"{rounded:.0f}") - 1) // 3)
    return f"{significant(rounded / 1000**power)} {_PREFIXES[power]}" if power else f"{rounded:g}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits and thousands separated: 1,230, 0.0457.

    One that no measurement has is written with an exponent: 1.00e+308.
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else DASH
    exponent = math.floor(math.log10(abs(value)))
    if abs(exponent) > _LARGEST_EXPONENT:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - exponent)
    # Rounding may carry: 9.996 is 10.0, not 10.00.
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def _unit(units: tuple[Unit, ...], values: Iterable[float | None]) -> Unit:
    positive = [value for value in values if value is not None and value > 0]
    if not positive:
        return units[-2]
    smallest, largest = min(positive), max(positive)
    fitting = [unit for unit in units if smallest >= unit.size] or [units[0]]
    chosen = units.index(fitting[-1])
    while chosen + 1 < len(units) and largest / units[chosen].size >= _TOO_MANY:
        chosen += 1
    return units[chosen]
