"""Tests of the exporter as a process, against a real S3-compatible store and a folder."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan.exporting import ExportManifest
from inferometer_api.results.result import ResultDocument
from support.exporter import Exporter, LoadGenerator
from support.fake_load import free_port
from support.object_store import keys, object_store, store_binary
from support.requirements import cannot_run
from support.results import a_result

DOCUMENT = a_result()
TEXT = DOCUMENT.model_dump_json(exclude_none=True).encode()
TARGET = "s3://kept/of/team/a-run-0c9e8f3a"
ON_CLAIM = "pvc://kept/team/a-run-0c9e8f3a"


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the store's program; without it there is nothing to try."""
    found = store_binary()
    if isinstance(found, str):
        cannot_run(found)
    return found


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """Return the folder of an empty bucket."""
    folder = tmp_path / "buckets" / "kept"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def endpoint(program: Path, bucket: Path) -> Iterator[str]:
    """Run the store, and give its address."""
    with object_store(program, bucket.parent) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """Return the folder of an empty claim."""
    folder = tmp_path / "claims" / "kept"
    folder.mkdir(parents=True)
    return folder


def _ended(results: Path, document: ResultDocument | None = DOCUMENT) -> None:
    LoadGenerator(results).end(document)


def _assert_exported(folder: Path) -> None:
    assert (folder / "result.json").read_bytes() == TEXT
    manifest = ExportManifest.model_validate_json((folder / "files.json").read_text())
    (file,) = manifest.files
    digest = hashlib.sha256(TEXT).hexdigest()
    assert (file.name, file.sha256, file.bytes) == ("result.json", digest, len(TEXT))


def test_a_result_is_exported_to_a_store_when_its_load_generator_has_ended(
    endpoint: str, bucket: Path, tmp_path: Path
) -> None:
    """Not earlier; the report has the document's checksum, and the log has no key."""
    load_generator = LoadGenerator(tmp_path / "results")
    exporter = Exporter(tmp_path, TARGET, keys(endpoint))
    exporter.wait_for_start()
    assert list(bucket.iterdir()) == []
    load_generator.end(DOCUMENT)
    assert exporter.wait() == 0, exporter.tail()
    _assert_exported(bucket / "of" / "team" / "a-run-0c9e8f3a")
    assert exporter.report.sha256 == hashlib.sha256(TEXT).hexdigest()
    assert exporter.report.bytes == len(TEXT)
    assert exporter.tail().splitlines()[1:] == [f"The result is in {TARGET}."]


def test_a_store_that_is_down_is_retried_until_it_is_up(
    program: Path, bucket: Path, tmp_path: Path
) -> None:
    """Each attempt is logged."""
    _ended(tmp_path / "results")
    port = free_port()
    exporter = Exporter(tmp_path, TARGET, keys(f"http://127.0.0.1:{port}"))
    exporter.wait_for("Retried in")
    with object_store(program, bucket.parent, port=port):
        assert exporter.wait() == 0, exporter.tail()
    _assert_exported(bucket / "of" / "team" / "a-run-0c9e8f3a")


def test_a_load_generator_that_dies_ends_its_exporter(claim: Path, tmp_path: Path) -> None:
    """The kernel releases its lock; nothing is exported."""
    _ended(tmp_path / "results", document=None)
    exporter = Exporter(tmp_path, ON_CLAIM)
    assert exporter.wait() == 1
    assert exporter.report.error == "The load generator ended without a result."
    assert list(claim.iterdir()) == []
