"""What a GPU holds: models, their references, and the room that is left."""

from dataclasses import dataclass

from inferometer_models.cache_eviction import CachedModel, EvictionPolicy, choose_victims


@dataclass(slots=True)
class _Entry:
    model: CachedModel
    references: int = 0
    is_loaded: bool = False


class WeightCache:
    """Decides; the memory itself is its caller's, who also makes calls one after another.

    Times are seconds of the caller's clock.
    """

    def __init__(self, quota_bytes: int, policy: EvictionPolicy) -> None:
        self.quota_bytes = quota_bytes
        self._policy: EvictionPolicy = policy
        self._entries: dict[str, _Entry] = {}

    @property
    def used_bytes(self) -> int:
        """The bytes of all models, those being loaded included."""
        return sum(each.model.size_bytes for each in self._entries.values())

    @property
    def references(self) -> int:
        """How many clients use a model."""
        return sum(each.references for each in self._entries.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """The models."""
        return tuple(self._entries)

    def is_loaded(self, key: str) -> bool | None:
        """Say whether a model is loaded; None: it is not here. False: it is being loaded."""
        entry = self._entries.get(key)
        return None if entry is None else entry.is_loaded

    def reserve(self, key: str, size_bytes: int, now: float) -> tuple[str, ...] | None:
        """Make room for a model that is not here; return the keys of those that have to leave.

        None if it has no room even without all unused models: then nothing changes.
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
        """Note that a reserved model is loaded."""
        size_bytes = self._entries[key].model.size_bytes
        model = CachedModel(key, size_bytes, load_seconds, 0.0, now)
        self._entries[key] = _Entry(model, is_loaded=True)

    def discard(self, key: str) -> None:
        """Forget a reserved model that could not be loaded."""
        del self._entries[key]

    def acquire(self, key: str, now: float) -> None:
        """Add a reference to a loaded model."""
        entry = self._entries[key]
        entry.references += 1
        entry.model = entry.model.used_at(now)

    def release(self, key: str, now: float) -> None:
        """Remove a reference."""
        entry = self._entries[key]
        entry.references -= 1
        entry.model = entry.model.released_at(now)
