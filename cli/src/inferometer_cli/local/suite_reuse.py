"""Stored results that stand for a cell of a suite with `reuse: true`."""

import hashlib
import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_version

_MOST_READ = 500
"""So many of the newest results of this machine are compared."""


@dataclass(frozen=True, slots=True)
class StoredMeasurement:
    """A stored result that stands for a run."""

    id: str
    document: ResultDocument


def reusable_result(
    run: BenchmarkRun, base: Path, taken: Collection[str]
) -> StoredMeasurement | None:
    """Return a stored VALID result of this very measurement, None if there is none.

    It has the same spec, model checksum, version of Inferometer, and machine. `taken` are the IDs
    of runs that count in the suite already: their results would count twice.
    """
    from inferometer_api.results.reading import UnreadableResultError, read_result
    from inferometer_cli.result_store import opened
    from inferometer_results.store.query import Search

    version, node = program_version(), platform.node()
    where = f'verdict=VALID and node="{node}"'
    try:
        with opened(None) as store:
            for row in store.find(Search(where=where, limit=_MOST_READ)):
                if row["inferometer_version"] != version or row["retracted"] is not None:
                    continue
                stored = store.read(row["id"])
                found = read_result(stored.content, source=row["id"]).document
                if found.run_id not in taken and _is_same(run, base, found):
                    return StoredMeasurement(row["id"], found)
    except (FailedError, RefusedError, OSError, UnreadableResultError):
        return None
    return None


def _is_same(run: BenchmarkRun, base: Path, found: ResultDocument) -> bool:
    spec = run.spec
    data = [spec.load.inputs.file, spec.model.manifest]
    sums = [each.sha256 for each in data if each is not None]
    sums += [
        each.load_profile.data_sha256
        for each in spec.scenarios
        if each.load_profile.data_uri is not None
    ]
    # Files without a checksum may have changed.
    return found.run.spec == spec and None not in sums and _is_same_model(run, base, found)


def _is_same_model(run: BenchmarkRun, base: Path, found: ResultDocument) -> bool:
    """Return whether the model file is still the one of a result."""
    uri = run.spec.model.uri or ""
    if not uri.startswith("file:"):
        # The address of the others names one content: a version of the zoo, a checksum.
        return uri.startswith("zoo://") or run.spec.model.sha256 is not None
    path = base / uri.removeprefix("file:").removeprefix("//")
    known = None if found.environment is None else found.environment.model.sha256
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == known
    except OSError:
        return False
