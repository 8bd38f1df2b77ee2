"""Chooses the form in which a node keeps a model, and whether to share it at all."""

from collections.abc import Sequence
from dataclasses import dataclass

STEADY_TOLERANCE = 0.02
"""A form whose steady latency is within 2 % of the best is as good in steady state."""


@dataclass(frozen=True, slots=True)
class FormFigures:
    """What one form of a model costs."""

    name: str
    load_milliseconds: float
    steady_milliseconds: float
    added_bytes: float
    """What each further server on the node takes."""
    steady_range: tuple[float, float] | None = None
    """The least and the most steady latency of a process, in ms; None if it is not known."""


@dataclass(frozen=True, slots=True)
class FormChoice:
    """The form to keep, and the one that loads fastest whatever it costs later."""

    best: FormFigures
    """The fastest to load among those without a loss in steady state."""
    fastest: FormFigures

    @property
    def steady_cost(self) -> float:
        """The share of steady latency that the fastest load costs; 0 if it is the best."""
        if self.best.name == self.fastest.name:
            return 0.0
        return self.fastest.steady_milliseconds / self.best.steady_milliseconds - 1

    @property
    def is_cost_certain(self) -> bool:
        """Whether no process of the best form was as slow as any of the fastest to load."""
        best, fastest = self.best.steady_range, self.fastest.steady_range
        return best is None or fastest is None or fastest[0] > best[1]

    @property
    def break_even_queries(self) -> int | None:
        """After how many queries the best form has made up for its slower load; None: never."""
        gain = self.fastest.steady_milliseconds - self.best.steady_milliseconds
        if gain <= 0:
            return None
        late = self.best.load_milliseconds - self.fastest.load_milliseconds
        return max(0, round(late / gain))


def choose_form(forms: Sequence[FormFigures]) -> FormChoice:
    """Return the form to keep. Raises ValueError if there are none."""
    limit = min(each.steady_milliseconds for each in forms) * (1 + STEADY_TOLERANCE)
    as_good = [each for each in forms if each.steady_milliseconds <= limit]
    return FormChoice(
        min(as_good, key=lambda each: each.load_milliseconds),
        min(forms, key=lambda each: each.load_milliseconds),
    )


@dataclass(frozen=True, slots=True)
class SharingCosts:
    """The constants of a node that decide whether sharing pays."""

    disk_bytes_per_second: float
    """What a read of a model from the disk gives: q of TrIMS."""
    export_seconds: float
    """What it costs to offer one object to another process: o."""
    open_seconds: float
    """What it costs a process to open one: s."""


def sharing_gain_seconds(model_bytes: float, objects: int, costs: SharingCosts) -> float:
    """Return what a server saves by sharing a model that is in memory; below 0 it loses.

    It is rho = b / q - n (o + s) of TrIMS (Dakkak et al., IEEE CLOUD 2019): the time to read b
    bytes from the disk, less that to export and open each of n objects. Raises ValueError for a
    rate that is not positive.
    """
    if costs.disk_bytes_per_second <= 0:
        raise ValueError("The rate of a disk is above 0.")
    shared = objects * (costs.export_seconds + costs.open_seconds)
    return model_bytes / costs.disk_bytes_per_second - shared
