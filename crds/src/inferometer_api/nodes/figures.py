"""A figure from its samples."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from inferometer_api.nodes.characteristics import NodeFigure, Unit
from inferometer_api.statistics import geometric_mean, half_width

_RATES = ("bytes/s", "flop/s")


def figure(
    name: str, unit: Unit, samples: Sequence[float], setting: Mapping[str, object] | None = None
) -> NodeFigure:
    """Return samples as a figure; those of a share are of equal spans of time."""
    value, low, high = _mean_share(samples) if unit == "share" else geometric_mean(samples)
    best = max(samples) if unit in _RATES else min(samples)
    return NodeFigure(
        name=name,
        setting={key: str(each) for key, each in (setting or {}).items()},
        unit=unit,
        value=value,
        low=low,
        high=high,
        best=best,
        samples=list(samples),
    )


def _mean_share(samples: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the arithmetic mean of shares, of which some may be 0, with its 95 % bounds."""
    middle = fmean(samples)
    if len(samples) < 2:
        return middle, None, None
    half = half_width(stdev(samples), len(samples))
    return middle, max(0.0, middle - half), min(1.0, middle + half)
