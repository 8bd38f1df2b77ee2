"""References from pods to entries, and their reconciliation with the mounts of the node."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

MOUNTING, MOUNTED = "Mounting", "Mounted"


@dataclass(frozen=True, slots=True)
class Reference:
    """A mount of an entry in a pod, or the intent to make it."""

    target: str
    """The path at which the kubelet wants the volume. It identifies the reference."""
    key: str
    phase: str
    """MOUNTING until the mount is whole and read-only."""


@dataclass(frozen=True, slots=True)
class NodeMount:
    """A mount of the node at one path."""

    key: str | None
    """The entry of the cache that is mounted; None if it is something else."""
    read_only: bool


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What to do after a restart of the plugin or of the node."""

    kept: tuple[Reference, ...]
    """References that hold, including those of mounts without a record."""
    dropped: tuple[str, ...]
    """Targets whose record goes."""
    unmounted: tuple[str, ...]
    """Targets of mounts that were interrupted before they were read-only."""


def reconcile(references: Mapping[str, Reference], mounts: Mapping[str, NodeMount]) -> Reconciled:
    """Compare the records with the mounts of the node; the mounts are the truth.

    A restart of the node leaves no mount, so every reference goes. A mount that was not finished
    goes too: the kubelet tries again. A finished mount stays, even if its record is lost, or names
    the key that its entry had before it was retired.
    """
    kept, dropped, unmounted = [], [], []
    for target, reference in references.items():
        mount = mounts.get(target)
        if mount is not None and reference.phase == MOUNTED:
            kept.append(replace(reference, key=mount.key or reference.key))
            continue
        dropped.append(target)
        if mount is not None:
            unmounted.append(target)
    for target, mount in mounts.items():
        if target in references or mount.key is None:
            continue
        if mount.read_only:
            kept.append(Reference(target, mount.key, MOUNTED))
        else:
            unmounted.append(target)
    return Reconciled(tuple(kept), tuple(dropped), tuple(unmounted))


def count_references(references: Mapping[str, Reference]) -> dict[str, int]:
    """Return how many pods refer to each entry."""
    counts: dict[str, int] = {}
    for reference in references.values():
        counts[reference.key] = counts.get(reference.key, 0) + 1
    return counts
