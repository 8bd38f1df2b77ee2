"""The outcome of each test of a group of `make verify`, kept in a file while the tests run."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pytest

from support.quiet import INCONCLUSIVE

OUTCOMES_VARIABLE = "INFEROMETER_OUTCOMES"
"""Names the file: tests that it holds as finished do not run, the others are added to it."""

State = Literal["passed", "skipped", "inconclusive", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one test, with the reason if it was skipped or inconclusive."""

    test: str
    state: State
    reason: str = ""

    @property
    def is_finished(self) -> bool:
        """Return whether the test need not be repeated."""
        return self.state in {"passed", "skipped"}


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """Return the last outcome of each test in a file that may not exist yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    return {each.test: each for each in outcomes}


class OutcomeRecorder:
    """A pytest plugin that leaves out finished tests, and adds each test once it is torn down."""

    def __init__(self, path: Path) -> None:
        """Read what is finished."""
        self._path = path
        self._finished = {name for name, each in read_outcomes(path).items() if each.is_finished}
        self._running: dict[str, Outcome] = {}

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out finished tests."""
        finished = [item for item in items if item.nodeid in self._finished]
        items[:] = [item for item in items if item.nodeid not in self._finished]
        if finished:
            config.hook.pytest_deselected(items=finished)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first phase that did not pass; write it after the last."""
        before = self._running.pop(report.nodeid, None)
        now = Outcome(report.nodeid, *_state(report))
        if before is not None and (now.state == "passed" or before.state == "failed"):
            now = before
        if report.when != "teardown":
            self._running[report.nodeid] = now
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(now)) + "\n")


def inconclusive_reason(report: pytest.TestReport) -> str:
    """Return why a test was inconclusive, an empty text if it was not."""
    reason = _skip_reason(report)
    return reason if reason.startswith(INCONCLUSIVE) else ""


def _skip_reason(report: pytest.TestReport) -> str:
    if not (report.skipped and isinstance(report.longrepr, tuple)):
        return ""
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def _state(report: pytest.TestReport) -> tuple[State, str]:
    return "inconclusive" if inconclusive_reason(report) else report.outcome, _skip_reason(report)
