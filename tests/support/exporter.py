"""An exporter as a process, and a load generator that leaves results for it."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from inferometer_api.plan.exporting import ExportManifest, ExportReport, export_command
from inferometer_api.results.result import ResultDocument
from inferometer_loadgen.pod.result_folder import hold_lock, write_result_folder
from support.results import a_result
from support.waiting import wait_until

DOCUMENT = a_result()
TEXT = DOCUMENT.model_dump_json(exclude_none=True).encode()
TARGET = "s3://kept/of/team/a-run-0c9e8f3a"
ON_CLAIM = "pvc://kept/team/a-run-0c9e8f3a"


class LoadGenerator:
    """Holds the lock of a result folder until it ends."""

    def __init__(self, results: Path) -> None:
        self._results = results
        results.mkdir(exist_ok=True)
        self._lock = hold_lock(results)

    def end(self, document: ResultDocument | None = None) -> None:
        """Write a document, if there is one, and end."""
        if document is not None:
            write_result_folder(document, self._results)
        os.close(self._lock)


class Exporter:
    """One exporter of the folder `results` in `folder`; claims are in `folder` too."""

    def __init__(
        self,
        folder: Path,
        target: str,
        environment: Mapping[str, str] | None = None,
        give_up_seconds: int = 60,
    ) -> None:
        self._report = folder / "termination-log"
        command = export_command(
            sys.executable,
            results=str(folder / "results"),
            target=target,
            claims=str(folder),
            give_up_seconds=give_up_seconds,
        )
        self.name = "exporter"
        self._log = folder / "exporter.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--termination-log", str(self._report)],
                env={**os.environ, **(environment or {})},
                stderr=log,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def tail(self) -> str:
        """Return its log."""
        return self._log.read_text()

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        return self._process.wait(60)

    def wait_for(self, words: str) -> None:
        """Wait until its log has these words."""
        wait_until(lambda: words in self.tail(), f"the exporter to log {words!r}", needs=[self])

    def wait_for_start(self) -> None:
        """Wait until it waits for the load generator."""
        self.wait_for("Waits")

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    @property
    def report(self) -> ExportReport:
        """Its termination message."""
        return ExportReport.read_json(self._report.read_text())


def end_load_generator(results: Path, document: ResultDocument | None = DOCUMENT) -> None:
    """Leave what a load generator leaves that ends with this document."""
    LoadGenerator(results).end(document)


def assert_exported(folder: Path) -> None:
    """Assert that a folder holds the document and the list with its digest."""
    assert (folder / "result.json").read_bytes() == TEXT
    manifest = ExportManifest.model_validate_json((folder / "files.json").read_text())
    (file,) = manifest.files
    digest = hashlib.sha256(TEXT).hexdigest()
    assert (file.name, file.sha256, file.bytes) == ("result.json", digest, len(TEXT))
