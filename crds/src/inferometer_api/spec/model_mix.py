"""Mixes of the models of one server: which share of the queries each model receives."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from inferometer_api.document import Decimal, Document

MixWeights = Literal["Pareto", "Zipf", "Uniform"]
PARETO_SHAPE = 1.5
"""As in the workload generator of MLModelScope."""


class MixedModel(Document):
    """One model of a mix."""

    model: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the model in the server: of a launched server the last part of its address without \
.onnx, such as resnet50."""

    weight: Decimal | None = None
    """Share of the queries, relative to the other weights: 3 or "0.5". Set it for every model, or \
set mixWeights."""


_RANKED: Mapping[MixWeights, Callable[[int], float]] = MappingProxyType(
    {
        "Uniform": lambda _: 1.0,
        "Zipf": lambda rank: 1.0 / rank,
        "Pareto": lambda rank: rank**-PARETO_SHAPE - (rank + 1) ** -PARETO_SHAPE,
    }
)
"""Weight by rank, from 1. Pareto: the probability of [rank, rank + 1)."""


def mix_shares(mix: Sequence[MixedModel], weights: MixWeights | None) -> tuple[float, ...]:
    """Return the share of each model, from 0 to 1; `weights` gives them by the order of the mix."""
    if weights is None:
        found = [float(each.weight or 0) for each in mix]
    else:
        found = [_RANKED[weights](rank) for rank in range(1, len(mix) + 1)]
    total = sum(found)
    return tuple(each / total for each in found)
