"""Tests of the exporter as a process, against a real S3-compatible store and a folder."""

import hashlib
from pathlib import Path

from support.exporter import (
    DOCUMENT,
    ON_CLAIM,
    TARGET,
    TEXT,
    Exporter,
    LoadGenerator,
    assert_exported,
    end_load_generator,
)
from support.fake_load import free_port
from support.object_store import keys, object_store


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
    assert_exported(bucket / "of" / "team" / "a-run-0c9e8f3a")
    assert exporter.report.sha256 == hashlib.sha256(TEXT).hexdigest()
    assert exporter.report.bytes == len(TEXT)
    assert exporter.tail().splitlines()[1:] == [f"The result is in {TARGET}."]


def test_a_store_that_is_down_is_retried_until_it_is_up(
    program: Path, bucket: Path, tmp_path: Path
) -> None:
    """Each attempt is logged."""
    end_load_generator(tmp_path / "results")
    port = free_port()
    exporter = Exporter(tmp_path, TARGET, keys(f"http://127.0.0.1:{port}"))
    exporter.wait_for("Retried in")
    with object_store(program, bucket.parent, port=port):
        assert exporter.wait() == 0, exporter.tail()
    assert_exported(bucket / "of" / "team" / "a-run-0c9e8f3a")


def test_a_load_generator_that_dies_ends_its_exporter(claim: Path, tmp_path: Path) -> None:
    """The kernel releases its lock; nothing is exported."""
    end_load_generator(tmp_path / "results", document=None)
    exporter = Exporter(tmp_path, ON_CLAIM)
    assert exporter.wait() == 1
    assert exporter.report.error == "The load generator ended without a result."
    assert list(claim.iterdir()) == []
