"""Stored results that stand for a cell of a suite with `reuse: true`."""

import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.digest import spec_digest
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_version


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
    of runs that count in the suite already: their results would count twice. There is none if
    `reuse_obstacle` has a reason.
    """
    if reuse_obstacle(run, base):
        return None
    from inferometer_api.results.reading import UnreadableDocumentError, read_result
    from inferometer_cli.result_store import open_store
    from inferometer_results.store.query import Search

    version, node = program_version(), platform.node()
    where = f'verdict=VALID and node="{node}" and spec={spec_digest(run.spec)}'
    try:
        with open_store(None) as store:
            for row in store.find(Search(where=where)):
                if row["inferometer_version"] != version or row["retracted"] is not None:
                    continue
                stored = store.read(row["id"])
                found = read_result(stored.content, source=row["id"]).document
                if found.run_id not in taken and _is_same(run, base, found):
                    return StoredMeasurement(row["id"], found)
    except (FailedError, RefusedError, OSError, UnreadableDocumentError):
        return None
    return None


def reuse_obstacle(run: BenchmarkRun, base: Path) -> str:
    """Return why no stored result may stand for a run, empty if one may."""
    spec = run.spec
    if not is_launched(spec):
        return "an External server may have changed since a result was stored"
    data = [spec.load.inputs.file, spec.model.manifest]
    sums = [each.sha256 for each in data if each is not None]
    sums += [
        each.load_profile.data_sha256
        for each in spec.scenarios
        if each.load_profile.data_uri is not None
    ]
    if None in sums:
        return "inputs, traces or data sets may have changed: give the sha256 of each"
    others = spec.other_models or ()
    if any(each.uri.startswith("file:") and each.sha256 is None for each in others):
        # A result has the checksum of the first model alone.
        return "another of its models may have changed: give the sha256 of each"
    if any(_has_external_data(each.uri or "", base) for each in (spec.model, *others)):
        return "the external data of its model has no checksum, and may have changed"
    return ""


def _has_external_data(uri: str, base: Path) -> bool:
    """Return whether a model file has weights in other files, which its checksum leaves out."""
    if not uri.startswith("file:"):
        return False
    from inferometer_fetch.model import local_path
    from inferometer_models.errors import ModelRefusedError
    from inferometer_models.graph_file import external_files

    try:
        return bool(external_files(local_path(uri, base)))
    except ModelRefusedError:
        return False  # no such model was ever measured


def _is_same(run: BenchmarkRun, base: Path, found: ResultDocument) -> bool:
    return found.run.spec == run.spec and _is_same_model(run, base, found)


def _is_same_model(run: BenchmarkRun, base: Path, found: ResultDocument) -> bool:
    """Return whether model file and manifest, if there are any, are still those of a result."""
    uri = run.spec.model.uri or ""
    if not uri.startswith("file:"):
        return True
    from inferometer_cli.local.files import manifest_file
    from inferometer_fetch.model import local_path
    from inferometer_models.errors import ModelRefusedError
    from inferometer_models.graph_file import sha256_of

    known = None if found.environment is None else found.environment.model
    if known is None:
        return False
    try:
        manifest = manifest_file(run, base)
        known_manifest = None if known.manifest is None else known.manifest.sha256
        is_same_manifest = known_manifest == (None if manifest is None else manifest.sha256)
        return is_same_manifest and sha256_of(local_path(uri, base)) == known.sha256
    except (OSError, ModelRefusedError, RefusedError):
        return False
