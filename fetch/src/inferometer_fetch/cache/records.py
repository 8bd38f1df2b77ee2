"""Records of entries and references in the cache's folder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from inferometer_fetch.cache.files import read_json, write_json
from inferometer_fetch.cache.references import Reference
from inferometer_fetch.object_store import ObjectVersion
from inferometer_models.cache_eviction import CachedModel

_NOT_OURS = (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError)
"""What a record raises that is JSON, but not of our fields: of another version, or damaged."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A whole model in the cache."""

    model: CachedModel
    sha256: Mapping[str, str]
    """The checksum of each file, by its path in the volume."""
    checked_at: float
    """When the checksums were last checked, in seconds since the epoch."""
    is_damaged: bool = False
    """Whether a check found another checksum: no further pod gets the entry."""
    data: Mapping[str, ObjectVersion] = field(default_factory=dict)
    """The version in the store of each file of external data, by its path in the volume."""
    retired_from: str = ""
    """The key that the entry had before a newer one took it; empty if none did."""


def read_entries(folder: Path, discard: Callable[[Path], None]) -> Iterator[tuple[str, Entry]]:
    """Yield the whole entries of a folder, and discard what is none."""
    for each in sorted(folder.iterdir()):
        entry = _read_entry(each)
        if entry is None:
            discard(each)
        else:
            yield each.name, entry


def _read_entry(folder: Path) -> Entry | None:
    """Return the entry of a folder, or None if its description or one of its files is missing."""
    described = read_json(folder / "entry.json")
    try:
        sha256 = {str(path): str(each) for path, each in described["sha256"].items()}
        data = {
            str(path): ObjectVersion(int(each["size_bytes"]), str(each["tag"]))
            for path, each in described.get("data", {}).items()
        }
        unused = CachedModel(folder.name, int(described["sizeBytes"]), 0.0, 0.0, 0.0)
        retired_from = str(described.get("retiredFrom", ""))
        if not all((folder / "files" / path).is_file() for path in sha256):
            return None
    except _NOT_OURS:
        return None
    checked_at, is_damaged = _read_check(folder)
    return Entry(_read_usage(folder, unused), sha256, checked_at, is_damaged, data, retired_from)


def _read_usage(folder: Path, unused: CachedModel) -> CachedModel:
    usage = read_json(folder / "usage.json")
    try:
        return replace(
            unused,
            fetch_seconds=float(usage["fetch_seconds"]),
            popularity=float(usage["popularity"]),
            last_used=float(usage["last_used"]),
        )
    except _NOT_OURS:
        return unused


def _read_check(folder: Path) -> tuple[float, bool]:
    """Return when an entry was checked, and whether it is damaged; one without record is due."""
    check = read_json(folder / "check.json")
    try:
        return float(check["checkedAt"]), bool(check["isDamaged"])
    except _NOT_OURS:
        return 0.0, False


def write_entry(folder: Path, entry: Entry) -> None:
    """Write what an entry is."""
    description = {
        "sha256": entry.sha256,
        "sizeBytes": entry.model.size_bytes,
        "data": {name: asdict(version) for name, version in entry.data.items()},
        "retiredFrom": entry.retired_from,
    }
    write_json(folder / "entry.json", description)


def write_check(folder: Path, entry: Entry) -> None:
    """Write when an entry was checked, and whether it is damaged."""
    write_json(
        folder / "check.json", {"checkedAt": entry.checked_at, "isDamaged": entry.is_damaged}
    )


def read_references(folder: Path) -> Iterator[tuple[str, Reference]]:
    """Yield the references of a folder, and remove what is none."""
    for each in sorted(folder.glob("*.json")):
        record = read_json(each)
        try:
            words = (str(record[name]) for name in ("target", "key", "phase"))
            reference = Reference(*words)
        except _NOT_OURS:
            each.unlink()
            continue
        yield reference.target, reference


def read_seconds(file: Path) -> float:
    """Return how long earlier tries of a download took; 0 if they left no record."""
    tries = read_json(file)
    try:
        return float(tries["fetchSeconds"])
    except _NOT_OURS:
        return 0.0
