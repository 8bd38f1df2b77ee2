"""The order in which the sides of a case take turns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.case import Case, Figures, PeerMissingError, Place, Source, Taken

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a case."""

    taken: Taken
    missing: dict[str, str]
    """For each side that could not be run here: why not."""


def measure(case: Case, place: Place, repeats: int, log: Log) -> Measured:
    """Measure a case; `log` hears of each turn."""
    missing = _missing(case)
    names = [side.name for side in case.sides if side.name not in missing]
    repeated: list[dict[Source, float]] = []
    for repeat in range(repeats if names else 0):
        log(f"repeat {repeat + 1} of {repeats}: starting {', '.join(names)}")
        with _folder(place) as fresh, case.stage(fresh, frozenset(names)) as turns:
            gathered: dict[Source, list[float]] = {}
            for number in range(case.rounds):
                for name in turn_order(names, repeat + number):
                    figures = turns[name]()
                    log(f"repeat {repeat + 1} of {repeats}: {name}: {_figures_text(figures)}")
                    for figure, value in figures.items():
                        gathered.setdefault(Source(name, figure), []).append(value)
        repeated.append({source: median(values) for source, values in gathered.items()})
    # A figure such as energy may be missing in some repeats.
    common = (
        [each for each in repeated[0] if all(each in one for one in repeated)] if repeated else []
    )
    taken = {source: tuple(each[source] for each in repeated) for source in common}
    return Measured(taken, missing)


def turn_order(names: Sequence[str], number: int) -> list[str]:
    """Return who goes after whom in a round: every other round is reversed.

    So that no side is always the one that comes after the same other.
    """
    return list(names) if number % 2 == 0 else list(reversed(names))


def _missing(case: Case) -> dict[str, str]:
    reasons = {}
    for side in case.sides:
        try:
            side.require()
        except PeerMissingError as missing:
            reasons[side.name] = str(missing)
    return reasons


@contextmanager
def _folder(place: Place) -> Iterator[Place]:
    with TemporaryDirectory(dir=place.folder) as folder:
        yield replace(place, folder=Path(folder))


def _figures_text(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.6g}" for name, value in figures.items())
