"""Runs the load generator as a pod does, and receives its result."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.load_report import LoadReport
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.result_transport import decode_log
from support.load_runs import COMMAND
from support.result_logs import document_bytes

TOKEN = "a token that cannot be guessed"  # noqa: S105 - of a test
RUN_ID = "6fdd4dba-2c4c-4c6c-9a8a-3f6a5c2a7f10"
_ENDS_WITHIN_SECONDS = 60.0
_LISTENS = "Answers GET /progress, GET /metrics, POST /stop and POST /targets on port "


@dataclass(frozen=True, slots=True)
class Handed:
    """What a pod left behind."""

    exit_code: int
    document: ResultDocument | None
    """None if its log has none."""
    report: LoadReport
    log: list[str]
    """Lines of standard error."""


@dataclass(slots=True)
class LoadPod:
    """A load generator that listens."""

    process: "subprocess.Popen[str]"
    termination_log: Path
    port: int = 0
    log: list[str] = field(default_factory=list)
    reader: Thread | None = None
    """Reads standard error."""

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(
            url, method=method, headers=headers or {}, data=body or None
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def progress(self) -> LoadReport:
        """Ask how far it is."""
        status, body = self.ask("GET", "/progress")
        assert status == 200
        return LoadReport.model_validate_json(body)

    def stop(self, token: str = TOKEN) -> int:
        """Ask it to end; return the status."""
        return self.ask("POST", "/stop", {"Authorization": f"Bearer {token}"})[0]

    def until(self, when: Callable[[LoadReport], bool]) -> LoadReport:
        """Ask again and again until something holds."""
        while self.process.poll() is None:
            report = self.progress()
            if when(report):
                return report
        raise AssertionError(f"It ended before: {self.log}")

    def ended(self) -> Handed:
        """Wait for its end and unpack what it handed over."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        code = self.process.wait(_ENDS_WITHIN_SECONDS)
        if self.reader is not None:
            self.reader.join()
        document = None
        if lines:
            written = document_bytes(decode_log([*self.log, *lines]))
            document = ResultDocument.model_validate_json(written)
        message = self.termination_log.read_bytes()
        assert len(message) <= 4096
        return Handed(code, document, LoadReport.model_validate_json(message), list(self.log))


def measures(report: LoadReport) -> bool:
    """Return whether some queries were measured."""
    progress = report.progress
    return progress is not None and progress.stage == "Measuring" and progress.queries > 10


@contextmanager
def a_load_pod(
    plan: LoadPlan | None,
    folder: Path,
    environment: dict[str, str] | None = None,
    *,
    token: str = TOKEN,
    port: int = 0,
    results: Path | None = None,
) -> Iterator[LoadPod]:
    """Start a load generator as a pod does and wait until it listens.

    `plan` is None for a file that holds none, `port` other than 0 for one that is taken.
    `results` is the folder for an exporter.
    """
    log = folder / "termination-log"
    log.touch()
    path = folder / "plan.json"
    path.write_text(json.dumps({}) if plan is None else _with_identity(plan, token))
    command = [*COMMAND, "--plan", str(path), "--host", "127.0.0.1", "--listen", str(port)]
    command += [] if results is None else ["--results", str(results)]
    with subprocess.Popen(
        [*command, "--termination-log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        pod = LoadPod(process, log)
        try:
            while plan is not None and not port and not pod.port and process.stderr is not None:
                line = process.stderr.readline()
                assert line, pod.log
                pod.log.append(line.rstrip("\n"))
                pod.port = int(line.partition(_LISTENS)[2].rstrip(".\n") or 0)
            pod.reader = Thread(target=_read, args=(pod, process.stderr))
            pod.reader.start()
            yield pod
        finally:
            process.kill()
            if pod.reader is not None:
                pod.reader.join()


def _read(pod: LoadPod, stream: Any) -> None:
    for line in stream:
        pod.log.append(line.rstrip("\n"))


def _with_identity(plan: LoadPlan, token: str) -> str:
    known = plan.model_copy(update={"run_id": RUN_ID, "stop_token": token, "place": "Cluster"})
    return known.model_dump_json(exclude_none=True)
