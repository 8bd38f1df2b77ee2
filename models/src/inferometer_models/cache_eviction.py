"""Decides which unused entries leave a full cache, of a node or of a GPU."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

EvictionPolicy: TypeAlias = Literal["CostAware", "LRU"]

HALF_LIFE_SECONDS = 6 * 3600.0
"""After this time without use, the popularity of a model is half of what it was."""


@dataclass(frozen=True, slots=True)
class CachedModel:
    """What eviction knows of an entry."""

    key: str
    size_bytes: int
    fetch_seconds: float
    """How long its download, or its load to a GPU, took."""
    popularity: float
    """Uses, each of which counts half as much after HALF_LIFE_SECONDS; as of `last_used`."""
    last_used: float
    """The last use, or its end if that is later; in seconds of the caller's clock."""

    def used_at(self, now: float) -> "CachedModel":
        """Return the entry after one more use."""
        return replace(self.released_at(now), popularity=decayed(self, now) + 1)

    def released_at(self, now: float) -> "CachedModel":
        """Return the entry after the end of a use: it was in use until then."""
        return replace(self, popularity=decayed(self, now), last_used=max(now, self.last_used))


def decayed(model: CachedModel, now: float) -> float:
    """Return the popularity of an entry now."""
    idle_seconds = max(0.0, now - model.last_used)
    return float(model.popularity * 0.5 ** (idle_seconds / HALF_LIFE_SECONDS))


def _cost_of_loss(model: CachedModel, now: float) -> float:
    """Return the seconds of fetching that a byte of this entry saves."""
    return model.fetch_seconds * decayed(model, now) / max(1, model.size_bytes)


_ORDERS: Mapping[EvictionPolicy, Callable[[CachedModel, float], float]] = MappingProxyType(
    {"LRU": lambda model, _: model.last_used, "CostAware": _cost_of_loss}
)


def choose_victims(
    unused: Iterable[CachedModel], missing_bytes: int, *, policy: EvictionPolicy, now: float
) -> tuple[str, ...] | None:
    """Return the keys of entries whose removal frees `missing_bytes`, the least valuable first.

    None if all unused entries together are too small: then nothing should be removed.
    """
    if missing_bytes <= 0:
        return ()
    order = _ORDERS[policy]
    freed, victims = 0, []
    for model in sorted(unused, key=lambda each: (order(each, now), each.last_used, each.key)):
        victims.append(model.key)
        freed += model.size_bytes
        if freed >= missing_bytes:
            return tuple(victims)
    return None
