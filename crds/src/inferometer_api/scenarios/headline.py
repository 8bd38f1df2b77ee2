"""The headline scenario of a run: the one that a line about the whole run shows."""

from collections.abc import Collection, Sequence

from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.scenario import Scenario

_SOUGHT = ("peak", "knee")
"""Headlines of kinds that search for what the server carries: they come before the others."""


def headline_scenario(scenarios: Sequence[Scenario], among: Collection[str]) -> str | None:
    """Return the name of the headline scenario among those named; None if there is none.

    It is the first that searches for a peak, else the first that searches for a knee, else the
    first in the order of the spec.
    """
    candidates = [each for each in scenarios if each.name in among]
    return min(candidates, key=_rank).name if candidates else None


def _rank(scenario: Scenario) -> int:
    # A newer version may have more kinds.
    kind = SCENARIOS.get(scenario.kind)
    sought = kind is not None and kind.headline in _SOUGHT
    return _SOUGHT.index(kind.headline) if kind is not None and sought else len(_SOUGHT)
