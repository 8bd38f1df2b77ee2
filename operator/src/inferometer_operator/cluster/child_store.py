"""The children of all runs, as the watches and the operator's own writes show them.

Events come late, twice, or after the answer to a write that is newer. An object's resourceVersion
grows with each change and its UID is never given again, so that the newest that was heard of each
object is what is held.
"""

from collections.abc import Iterable
from typing import Any

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, RESULT, RUN_UID_LABEL
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json

_MAX_DELETED = 10_000
"""UIDs of deleted objects that are remembered: an event that is older than the deletion of its
object may come later by seconds."""

Key = tuple[str, str, str]
"""Kind, namespace and name."""


class ChildStore:
    """Objects with the label of a run, by run; without its result, which may be large."""

    def __init__(self) -> None:
        self._objects: dict[Key, Json] = {}
        self._by_run: dict[str, set[Key]] = {}
        self.unserved: set[str] = set()
        """Kinds that are watched and whose API the cluster does not serve."""
        self.forbidden: dict[str, str] = {}
        """Kinds that the operator may not see now, with the API server's words."""
        self._deleted: dict[str, float] = {}
        """The version at which each object went, by UID."""

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._objects)

    def put(self, kind: str, found: Json) -> bool:
        """Hold an object, unless a newer version of it is known; return whether it is news."""
        metadata = found["metadata"]
        key = _key(kind, found)
        held = self._objects.get(key)
        if _version(found) <= self._deleted.get(metadata.get("uid", ""), -1):
            return False
        if held is not None and _version(found) <= _version(held):
            # The content of an object that was known by its metadata alone is news.
            completes = "data" in found and "data" not in held and _is_same(found, held)
            if not completes:
                return False
        if run_uid(found) and not _is_result(found):
            self._drop(key)
            self._objects[key] = {**_slim(kind, found), "metadata": _trimmed(metadata)}
            self._by_run.setdefault(run_uid(found), set()).add(key)
        elif held is not None:
            self._drop(key)
        return True

    def remove(self, kind: str, gone: Json, version: float = float("inf")) -> bool:
        """Forget an object that went at this version; return whether it is news."""
        uid = gone["metadata"].get("uid", "")
        self._deleted[uid] = version
        if len(self._deleted) > _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]
        key = _key(kind, gone)
        held = self._objects.get(key)
        if held is None or held["metadata"].get("uid", "") != uid or _version(held) > version:
            return False
        self._drop(key)
        return True

    def retain(
        self, kind: str, uids: Iterable[str], version: str | None = None
    ) -> tuple[Json, ...]:
        """Forget the objects of a kind that a complete list lacks; return them.

        `version` is the list's: what changed after it may have been created after it. None:
        nothing can have been.
        """
        listed = set(uids)
        gone = tuple(
            held
            for key, held in self._objects.items()
            if key[0] == kind
            and held["metadata"].get("uid", "") not in listed
            and (version is None or _version(held) <= int(version))
        )
        for held in gone:
            self._drop(_key(kind, held))
        return gone

    def get(self, kind: str, namespace: str, name: str, owner_uid: str) -> Json | None:
        """Return a child of this owner, None if it is absent or another owner's."""
        held = self._objects.get((kind, namespace, name))
        return held if held is not None and is_child_of(held, owner_uid) else None

    def of_run(self, kind: str, namespace: str, uid: str) -> tuple[Json, ...]:
        """Return the objects of a kind that have the run's label, its own or not, by name."""
        keys = (key for key in self._by_run.get(uid, ()) if key[:2] == (kind, namespace))
        return tuple(self._objects[key] for key in sorted(keys))

    def run_uids(self, *kinds: str) -> set[str]:
        """Return the UIDs of the runs that have objects of these kinds."""
        return {run_uid(held) for key, held in self._objects.items() if key[0] in kinds}

    def _drop(self, key: Key) -> None:
        held = self._objects.pop(key, None)
        if held is not None:
            keys = self._by_run[run_uid(held)]
            keys.discard(key)
            if not keys:
                del self._by_run[run_uid(held)]


def run_uid(found: Json) -> str:
    """Return the UID of the run whose label an object has, empty without one."""
    return str((found["metadata"].get("labels") or {}).get(RUN_UID_LABEL, ""))


def is_child_of(child: Json, owner_uid: str) -> bool:
    """Return whether the run is an object's controller: any author can copy its labels."""
    return controller_of(child).get("uid") == owner_uid


def _key(kind: str, found: Json) -> Key:
    metadata = found["metadata"]
    return kind, str(metadata.get("namespace", "")), str(metadata["name"])


def _version(found: Json) -> int:
    return int(found["metadata"].get("resourceVersion") or 0)


def _is_result(found: Json) -> bool:
    return bool(found["metadata"]["labels"].get(COMPONENT_LABEL) == RESULT)


def _is_same(one: Json, other: Json) -> bool:
    return _version(one) == _version(other) and one["metadata"].get("uid") == other["metadata"].get(
        "uid"
    )


def _slim(kind: str, found: Json) -> Json:
    """Return an object without its large part that no decision reads: a Workload's pods."""
    if kind != "Workload":
        return found
    spec = {name: value for name, value in (found.get("spec") or {}).items() if name != "podSets"}
    return {**found, "spec": spec}


def _trimmed(metadata: Json) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "managedFields"}
