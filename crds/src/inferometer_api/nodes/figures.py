"""A figure from its samples."""

from collections.abc import Mapping, Sequence

from inferometer_api.nodes.characteristics import NodeFigure, Unit
from inferometer_api.statistics import geometric_mean

_RATES = ("bytes/s", "flop/s")


def figure(
    name: str, unit: Unit, samples: Sequence[float], setting: Mapping[str, object] | None = None
) -> NodeFigure:
    """Return samples as a figure."""
    value, low, high = geometric_mean(samples)
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
