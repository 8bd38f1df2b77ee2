"""Errors of the node's model cache; each message is a sentence for the pod's events."""

from inferometer_models.errors import ModelRefusedError

GRAPH_TOO_LARGE_EXIT = 3
"""Exit code of the process that reads a graph."""


class CacheFullError(Exception):
    """Pods use so much of the quota or disk that a model does not fit."""


class RefusedContentError(ModelRefusedError):
    """A download whose content is not the model, or none that the cache takes."""


class UnreadableGraphError(RefusedContentError):
    """A whole and right download whose graph takes more than the cache gives to read it."""


class StillFetchingError(Exception):
    """A download or check goes on, or has to wait for others; the kubelet tries again."""


class DamagedEntryError(Exception):
    """A model in use no longer has its checksum."""


class MountedOtherwiseError(Exception):
    """Another volume is mounted at the target."""
