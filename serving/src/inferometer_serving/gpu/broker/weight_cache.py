"""Tracks the models in the memory of a GPU, and decides which of them are evicted."""

from dataclasses import dataclass

from inferometer_models.cache_eviction import CachedModel, EvictionPolicy, choose_victims


@dataclass(slots=True)
class _Entry:
    model: CachedModel
    references: int = 0
    is_loaded: bool = False


class WeightCache:
    """The models in a GPU's memory within a quota, with their sizes and references.

    The caller allocates and frees the memory, and must not call two methods at the same time. Each
    `now` is in seconds of the caller's clock.
    """

    def __init__(self, quota_bytes: int, policy: EvictionPolicy) -> None:
        self.quota_bytes = quota_bytes
        self._policy: EvictionPolicy = policy
        self._entries: dict[str, _Entry] = {}

    @property
    def used_bytes(self) -> int:
        """The size of all models, including those that are being loaded."""
        return sum(each.model.size_bytes for each in self._entries.values())

    @property
    def references(self) -> int:
        """The number of references to all models."""
        return sum(each.references for each in self._entries.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all models, including those that are being loaded."""
        return tuple(self._entries)

    def is_loaded(self, key: str) -> bool | None:
        """Return True if a model is loaded, False while it is being loaded, None without it."""
        entry = self._entries.get(key)
        return None if entry is None else entry.is_loaded

    def reserve(self, key: str, size_bytes: int, now: float) -> tuple[str, ...] | None:
        """Add a model as being loaded, and evict unused ones; return the keys of the evicted.

        The caller frees their memory. Returns None, and changes nothing, if the quota has no room
        for the model even without all unused models.
        """
        missing_bytes = self.used_bytes + size_bytes - self.quota_bytes
        unused = (
            each.model for each in self._entries.values() if each.is_loaded and not each.references
        )
        victims = choose_victims(unused, missing_bytes, policy=self._policy, now=now)
        if victims is None:
            return None
        for victim in victims:
            del self._entries[victim]
        self._entries[key] = _Entry(CachedModel(key, size_bytes, 0.0, 0.0, now))
        return victims

    def finish(self, key: str, load_seconds: float, now: float) -> None:
        """Mark a reserved model as loaded, without a reference."""
        size_bytes = self._entries[key].model.size_bytes
        model = CachedModel(key, size_bytes, load_seconds, 0.0, now)
        self._entries[key] = _Entry(model, is_loaded=True)

    def discard(self, key: str) -> None:
        """Remove a reserved model whose load failed."""
        del self._entries[key]

    def acquire(self, key: str, now: float) -> None:
        """Add a reference to a loaded model, which counts as a use."""
        entry = self._entries[key]
        entry.references += 1
        entry.model = entry.model.used_at(now)

    def release(self, key: str, now: float) -> None:
        """Remove a reference. The model counts as used until `now`."""
        entry = self._entries[key]
        entry.references -= 1
        entry.model = entry.model.released_at(now)
