"""Counters that the model cache of a node leaves in a file for the node's agent."""

import json
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a model cache has done since its start, and what it holds."""

    hits: int
    """Mounts of models that were on the node."""
    misses: int
    """Mounts that waited for a download."""
    fetched_bytes: int
    """Bytes received from stores."""
    evictions: int
    """Models removed from a full cache."""
    used_bytes: int
    quota_bytes: int

    def to_json(self) -> str:
        """Return the content of the file."""
        return json.dumps(asdict(self))


def read_cache_statistics(text: str) -> CacheStatistics:
    """Return the counters in a file's content; raise ValueError if there are none."""
    found = json.loads(text)
    names = [each.name for each in fields(CacheStatistics)]
    if not isinstance(found, dict) or not all(isinstance(found.get(name), int) for name in names):
        raise ValueError("the file has no counters of a model cache")
    return CacheStatistics(**{name: found[name] for name in names})
