"""The folder of a suite's results: what was measured, what failed, and what is left."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inferometer_api.results.reading import UnreadableDocumentError, read_result
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.suite.outcome import execution_label
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.progress import WAITING, RunOutcome, State
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.result_file import RESULT_NAME, show_notice
from inferometer_results.store.server_machine import server_machine

SUITE_FILE = "suite.json"
PAGE_NAME = "suite.html"


@dataclass(slots=True)
class SuiteFolder:
    """A folder with the results of one execution of a suite."""

    path: Path
    plan: SuitePlan
    outcomes: list[RunOutcome]
    documents: dict[str, ResultDocument] = field(default_factory=dict)
    """The results of the runs that were measured, by name."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why each failed run failed. It is not measured again."""
    reused: dict[str, str] = field(default_factory=dict)
    """The IDs of the stored results that stand for runs, by name."""
    is_changed: bool = False
    """Whether results or failures were added since it was opened."""

    @property
    def execution(self) -> str:
        """The execution, as the label of its runs names it."""
        return execution_label(self.plan)

    @property
    def begun_at(self) -> str:
        """When the first of its runs was measured, empty if none was."""
        measured = (run for name, run in self.documents.items() if name not in self.reused)
        return min((run.started_at for run in measured), default="")

    @classmethod
    def open(cls, path: Path, plan: SuitePlan) -> "SuiteFolder":
        """Return the folder with what it holds of this plan.

        Raises RefusedError if it belongs to another suite.
        """
        record = _read_record(path / SUITE_FILE)
        if record is not None and record.get("planSha256") != plan.sha256:
            raise RefusedError(
                f"{path} has results of another suite, or of another version of it. Choose another "
                "directory with --output."
            )
        folder = cls(path, plan, [WAITING] * len(plan.runs))
        failures = (record or {}).get("failures")
        folder.failures = failures if isinstance(failures, dict) else {}
        reused = (record or {}).get("reused")
        folder.reused = reused if isinstance(reused, dict) else {}
        for index, run in enumerate(plan.runs):
            file = path / run.name / RESULT_NAME
            if run.name in folder.failures:
                folder.outcomes[index] = RunOutcome("F", problem=folder.failures[run.name])
            elif file.exists():
                folder.take(index, _load(file))
        folder.is_changed = False
        return folder

    def take(self, index: int, document: ResultDocument) -> None:
        """Take in the result of a run."""
        name = self.plan.runs[index].name
        self.documents[name] = document
        self.is_changed = True
        self.outcomes[index] = outcome_of_document(document)
        if name in self.reused:
            self.outcomes[index] = replace(
                self.outcomes[index], state="R", result=self.reused[name]
            )

    def reuse(self, index: int, document: ResultDocument, id_: str) -> None:
        """Record that a stored result stands for a run, before its copy is in the folder."""
        self.reused[self.plan.runs[index].name] = id_
        self.take(index, document)
        self.write()

    def fail(self, index: int, problem: str) -> None:
        """Record that a run has failed, so that it is not measured again."""
        self.failures[self.plan.runs[index].name] = problem
        self.is_changed = True
        self.outcomes[index] = RunOutcome("F", problem=problem)
        self.write()

    def directory_of(self, run: PlannedRun) -> Path:
        """Return where the result of a run goes."""
        return self.path / run.name

    def write(self) -> None:
        """Write what the results do not say. Raises FailedError."""
        record = {
            "planSha256": self.plan.sha256,
            "execution": self.execution,
            "failures": self.failures,
            **({"reused": self.reused} if self.reused else {}),
        }
        text = json.dumps(record, indent=2) + "\n"
        replace_file(self.path / SUITE_FILE, text)


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Keep other commands from measuring into a folder. Raises RefusedError if one does.

    A folder that stays empty is removed.
    """
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            with suppress(OSError):
                path.rmdir()
    except BlockingIOError as error:
        raise RefusedError(
            f"Another command measures a suite into {path}. Wait for its end, or choose another "
            "directory with --output."
        ) from error
    finally:
        os.close(descriptor)


def recorded_execution(path: Path) -> str:
    """Return the execution that a folder belongs to, empty if it is new."""
    found = (_read_record(path / SUITE_FILE) or {}).get("execution")
    return found if isinstance(found, str) else ""


def replace_file(path: Path, text: str) -> None:
    """Write a file completely or not at all. Raises FailedError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FailedError(f"Cannot write {path}: {error.strerror}.") from error


def outcome_of_document(document: ResultDocument) -> RunOutcome:
    """Return the outcome of a run from its result."""
    if document.outcome.state != "Complete":
        return RunOutcome("F", problem=document.outcome.message)
    state: State = "V" if document.valid else "I"
    reasons = [
        finding.message for each in document.scenarios for finding in each.verdict.reasons[:1]
    ]
    return RunOutcome(
        state,
        scenarios=tuple(scenario_summary(each) for each in document.scenarios),
        node=machine_of(document),
        problem=" ".join(reasons),
    )


def machine_of(document: ResultDocument) -> str:
    """Return the class of the machine of a result, as the store names it."""
    found = server_machine(document)
    return f"{found.cpu} {found.gpu}".strip()[:253] or "this machine"


def _read_record(file: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RefusedError(f"Cannot read {file}: {error}.") from error
    return record if isinstance(record, dict) else {}


def _load(file: Path) -> ResultDocument:
    try:
        read = read_result(file.read_bytes(), source=str(file))
    except (OSError, UnreadableDocumentError) as error:
        raise RefusedError(f"Cannot read {file}: {error}.") from error
    return show_notice(read)
