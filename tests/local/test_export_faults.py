"""Faults of an export: targets that refuse, fail or are full, SIGTERM, hostile folders."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from inferometer_api.plan.exporting import ExportFile, ExportManifest
from inferometer_api.plan.result_folder import POD_INDEX_VARIABLE
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
from support.requirements import cannot_run


@pytest.mark.parametrize(
    ("target", "others", "words"),
    [
        (TARGET, {"secretAccessKey": "wrong"}, "SignatureDoesNotMatch"),
        (TARGET, {"secretAccessKey": ""}, "spec.retention.export.credentialsSecret"),
        ("s3://none/of/a-run", {}, "NoSuchBucket"),
    ],
    ids=["wrong key", "no key", "no bucket"],
)
def test_a_store_that_refuses_is_reported_at_once(
    endpoint: str, tmp_path: Path, target: str, others: dict[str, str], words: str
) -> None:
    """Another attempt would end the same; the message says what to correct."""
    end_load_generator(tmp_path / "results")
    exporter = Exporter(tmp_path, target, keys(endpoint, **others))
    assert exporter.wait() == 2, exporter.tail()
    assert exporter.report.sha256 is None
    assert exporter.report.error.startswith(f"{target} could not be written: ")
    assert words in exporter.report.error


def test_a_store_that_stays_down_is_given_up(tmp_path: Path) -> None:
    """The report has the last fault."""
    end_load_generator(tmp_path / "results")
    endpoint = f"http://127.0.0.1:{free_port()}"
    exporter = Exporter(tmp_path, TARGET, keys(endpoint), give_up_seconds=0)
    assert exporter.wait() == 1, exporter.tail()
    assert "Connection refused" in exporter.report.error


def test_sigterm_ends_an_exporter_that_waits_for_a_load_generator_to_start(tmp_path: Path) -> None:
    """There is nothing to export."""
    (tmp_path / "results").mkdir()
    exporter = Exporter(tmp_path, ON_CLAIM)
    exporter.wait_for_start()
    exporter.terminate()
    assert exporter.wait() == 143
    assert "stopped before" in exporter.report.error


def test_sigterm_lets_a_load_generator_end_first(claim: Path, tmp_path: Path) -> None:
    """A pod that is deleted exports what its load generator writes on SIGTERM."""
    load_generator = LoadGenerator(tmp_path / "results")
    exporter = Exporter(tmp_path, ON_CLAIM)
    exporter.wait_for_start()
    exporter.terminate()
    load_generator.end(DOCUMENT)
    assert exporter.wait() == 0, exporter.tail()
    assert_exported(claim / "team" / "a-run-0c9e8f3a")


def test_sigterm_ends_retries(tmp_path: Path) -> None:
    """With the last fault in the report."""
    end_load_generator(tmp_path / "results")
    exporter = Exporter(tmp_path, TARGET, keys(f"http://127.0.0.1:{free_port()}"))
    exporter.wait_for("Retried in")
    exporter.terminate()
    assert exporter.wait() == 1
    assert "Connection refused" in exporter.report.error


def test_the_pod_of_a_worker_exports_nothing(claim: Path, tmp_path: Path) -> None:
    """Pod 0 of a fleet has the result."""
    (tmp_path / "results").mkdir()
    exporter = Exporter(tmp_path, ON_CLAIM, {POD_INDEX_VARIABLE: "1"})
    assert exporter.wait() == 0
    assert list(claim.iterdir()) == []


def test_a_link_is_not_exported(claim: Path, tmp_path: Path) -> None:
    """A load generator must not make the exporter read its own credentials."""
    secret = tmp_path / "secret"
    secret.write_bytes(TEXT)
    end_load_generator(tmp_path / "results")
    document = tmp_path / "results" / "result.json"
    document.unlink()
    document.symlink_to(secret)
    exporter = Exporter(tmp_path, ON_CLAIM)
    assert exporter.wait() == 2
    assert "result.json cannot be read" in exporter.report.error
    assert not list(claim.rglob("result.json"))


def test_names_that_leave_the_folder_are_refused(claim: Path, tmp_path: Path) -> None:
    """The list of files comes from the load generator."""
    results = tmp_path / "results"
    end_load_generator(results)
    listed = json.loads((results / "files.json").read_text())
    listed["files"][0]["name"] = "../secret"
    (results / "files.json").write_text(json.dumps(listed))
    exporter = Exporter(tmp_path, ON_CLAIM)
    assert exporter.wait() == 1
    assert "list of result files cannot be read" in exporter.report.error


def test_a_large_result_is_exported_in_parts(endpoint: str, bucket: Path, tmp_path: Path) -> None:
    """The log takes 8 MiB at most, the store any size."""
    results = tmp_path / "results"
    end_load_generator(results)
    text = os.urandom(20 << 20)
    (results / "result.json").write_bytes(text)
    file = ExportFile(name="result.json", sha256=hashlib.sha256(text).hexdigest(), bytes=len(text))
    (results / "files.json").write_text(ExportManifest(files=[file]).model_dump_json())
    exporter = Exporter(tmp_path, TARGET, keys(endpoint))
    assert exporter.wait() == 0, exporter.tail()
    exported = bucket / "of" / "team" / "a-run-0c9e8f3a" / "result.json"
    assert exported.read_bytes() == text
    assert exporter.report.bytes == len(text)


def test_a_file_that_is_not_the_listed_one_is_not_exported(claim: Path, tmp_path: Path) -> None:
    """Its checksum is compared with the list."""
    end_load_generator(tmp_path / "results")
    (tmp_path / "results" / "result.json").write_bytes(b"{}")
    exporter = Exporter(tmp_path, ON_CLAIM)
    assert exporter.wait() == 2
    assert "another checksum" in exporter.report.error
    assert not [each for each in claim.rglob("*") if each.is_file()]


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        cannot_run(f"no small disk can be mounted here: {error}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def test_a_full_claim_is_retried_until_there_is_room(claim: Path, tmp_path: Path) -> None:
    """No partial file stays."""
    end_load_generator(tmp_path / "results")
    with _small_disk(claim):
        filler = _fill(claim)
        exporter = Exporter(tmp_path, ON_CLAIM)
        exporter.wait_for("No space left on device. Retried in")
        assert [each for each in claim.rglob("*") if each.is_file()] == [filler]
        filler.unlink()
        assert exporter.wait() == 0, exporter.tail()
        assert_exported(claim / "team" / "a-run-0c9e8f3a")


def test_a_full_store_is_retried_until_there_is_room(
    program: Path, bucket: Path, tmp_path: Path
) -> None:
    """It answers with an internal error, as stores do that cannot write."""
    end_load_generator(tmp_path / "results")
    with _small_disk(bucket), object_store(program, bucket.parent) as port:
        filler = _fill(bucket)
        exporter = Exporter(tmp_path, TARGET, keys(f"http://127.0.0.1:{port}"))
        exporter.wait_for("Retried in")
        filler.unlink()
        assert exporter.wait() == 0, exporter.tail()
        assert_exported(bucket / "of" / "team" / "a-run-0c9e8f3a")
