"""Records of entries and references in the cache's folder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from inferometer_fetch.cache.files import read_json, write_json
from inferometer_fetch.cache.references import Reference
from inferometer_fetch.object_store import ObjectVersion
from inferometer_models.cache_eviction import CachedModel


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
        described = read_json(each / "entry.json")
        usage = read_json(each / "usage.json")
        if described is None or not all(
            (each / "files" / path).is_file() for path in described["sha256"]
        ):
            discard(each)
            continue
        unknown = asdict(CachedModel(each.name, described["sizeBytes"], 0.0, 0.0, 0.0))
        check = read_json(each / "check.json") or {"checkedAt": 0.0, "isDamaged": False}
        yield (
            each.name,
            Entry(
                replace(CachedModel(**(usage or unknown)), key=each.name),
                described["sha256"],
                check["checkedAt"],
                check["isDamaged"],
                {name: ObjectVersion(**data) for name, data in described.get("data", {}).items()},
                described.get("retiredFrom", ""),
            ),
        )


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
        if record is None:
            each.unlink()
            continue
        reference = Reference(**record)
        yield reference.target, reference
