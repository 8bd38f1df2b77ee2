"""The suites and their runs as the watches and the operator's own writes show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from inferometer_api.ranking import Computation
from inferometer_api.suite.comparisons import BaselineCell, baseline_cells
from inferometer_api.suite.figures import CellKey, computation_of_run, scenario_specs
from inferometer_api.suite.labels import (
    CELL_LABEL,
    ROLE_LABEL,
    SUITE_LABEL,
    SYSTEM_LABEL,
)
from inferometer_api.suite.progress import OPEN, RunOutcome, outcome_of
from inferometer_api.suite.status import AnchorPairs
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.suite.draft import is_true, read_suite_status
from inferometer_operator.reconcile.suite.executions import SuiteExecution

_KIND = "BenchmarkSuite"


@dataclass(frozen=True, slots=True)
class SuiteRunFacts:
    """What is kept of a run that a suite owns."""

    uid: str
    version: int
    key: CellKey
    role: str
    outcome: RunOutcome
    computation: Computation
    specs: Mapping[str, str]
    """Those of its scenarios, see `scenario_specs`."""


@dataclass(slots=True)
class SuiteStore:
    """Suites by UID, and the runs of each by name."""

    suites: dict[str, Json] = field(default_factory=dict)
    runs: dict[str, dict[str, SuiteRunFacts]] = field(default_factory=dict)
    anchors: dict[str, Sequence[AnchorPairs]] = field(default_factory=dict)
    """All A/A pairs of a suite that has ended here, by UID; its status may lack some."""

    def put_run(self, run: Json) -> str:
        """Take in a run; return the UID of its suite if that is news, else an empty text."""
        owner = suite_of(run)
        if not owner:
            return ""
        metadata, labels = run["metadata"], run["metadata"].get("labels") or {}
        of_suite = self.runs.setdefault(owner, {})
        held = of_suite.get(metadata["name"])
        if held is not None and version(run) <= held.version:
            return ""
        outcome = outcome_of(read_status(run))
        of_suite[metadata["name"]] = SuiteRunFacts(
            metadata["uid"],
            version(run),
            (labels.get(CELL_LABEL, ""), labels.get(SYSTEM_LABEL, "")),
            labels.get(ROLE_LABEL, ""),
            outcome,
            _computation(run, outcome),
            _specs(run),
        )
        return "" if held is not None and held.outcome == outcome else owner

    def remove_run(self, run: Json) -> str:
        """Forget a run; return the UID of its suite, empty if that need not know.

        A run that is over stays with its figures: its retention may be short.
        """
        owner, metadata = suite_of(run), run["metadata"]
        held = self.runs.get(owner, {}).get(metadata["name"])
        if held is None or held.uid != metadata["uid"] or held.outcome.state not in OPEN:
            return ""
        del self.runs[owner][metadata["name"]]
        return owner

    def retain_runs(self, uids: frozenset[str]) -> set[str]:
        """Forget the runs that a complete list lacks; return the UIDs of their suites."""
        changed = set()
        for owner, of_suite in self.runs.items():
            gone = [
                name
                for name, run in of_suite.items()
                if run.uid not in uids and run.outcome.state in OPEN
            ]
            for name in gone:
                del of_suite[name]
                changed.add(owner)
        return changed

    def put_suite(self, suite: Json) -> bool:
        """Take in a suite; return whether it is news."""
        held = self.suites.get(suite["metadata"]["uid"])
        if held is not None and version(suite) <= version(held):
            return False
        metadata = {k: each for k, each in suite["metadata"].items() if k != "managedFields"}
        self.suites[metadata["uid"]] = {**suite, "metadata": metadata}
        return True

    def remove_suite(self, uid: str) -> Json | None:
        """Forget a suite and its runs; return it."""
        self.runs.pop(uid, None)
        self.anchors.pop(uid, None)
        return self.suites.pop(uid, None)

    def named(self, namespace: str, name: str) -> Json | None:
        """Return the suite of this name."""
        return next(
            (
                suite
                for suite in self.suites.values()
                if (suite["metadata"]["namespace"], suite["metadata"]["name"]) == (namespace, name)
            ),
            None,
        )

    def executions_of(self, uid: str) -> list[SuiteExecution]:
        """Return the executions that a schedule created, the earliest first."""
        found = [
            _execution(each, self.anchors.get(each["metadata"]["uid"]))
            for each in self.suites.values()
            if suite_of(each) == uid
        ]
        return sorted(found, key=lambda each: (each.created, each.name))

    def baseline(self, suite: Json, name: str) -> dict[CellKey, BaselineCell] | None:
        """Return the runs of the last complete execution of the suite `name` before `suite`.

        None if there is none: never this suite, nor one that was created after it.
        """
        metadata = suite["metadata"]
        found = self.named(metadata["namespace"], name)
        if found is None:
            return None
        is_scheduled = (found.get("spec") or {}).get("schedule") is not None
        uid = found["metadata"]["uid"]
        executions = self.executions_of(uid) if is_scheduled else [_execution(found)]
        created = str(metadata.get("creationTimestamp", ""))
        earlier = [
            each.uid
            for each in executions
            if each.is_complete and each.created < created and each.uid != metadata["uid"]
        ]
        if not earlier:
            return None
        runs = self.runs.get(earlier[-1], {}).values()
        return baseline_cells(
            (run.key, run.outcome, run.computation, run.specs) for run in runs if run.role == "cell"
        )

    def scheduled_by(self, suite: Json) -> Json | None:
        """Return the suite whose schedule created this one."""
        return self.suites.get(suite_of(suite))


def suite_of(child: Json) -> str:
    """Return the UID of the suite that owns an object, empty if none does."""
    controller = controller_of(child)
    return str(controller.get("uid", "")) if controller.get("kind") == _KIND else ""


def _computation(run: Json, outcome: RunOutcome) -> Computation:
    """Return what computed the outputs of a run; of a spec that cannot be read, nothing."""
    try:
        return computation_of_run(run["spec"], outcome.scenarios)
    except (KeyError, ValidationError):
        return Computation()


def _specs(run: Json) -> Mapping[str, str]:
    """Return the specifications of a run's scenarios; none of a spec that cannot be read."""
    try:
        return scenario_specs(run["spec"])
    except (KeyError, ValidationError):
        return {}


def family_of(suite: Json) -> str:
    """Return the name of a suite, or of the suite whose schedule created it."""
    metadata = suite["metadata"]
    if not suite_of(suite):
        return str(metadata["name"])
    return str((metadata.get("labels") or {}).get(SUITE_LABEL) or metadata["name"])


def version(thing: Json) -> int:
    """Return the resourceVersion of an object as a number: it grows with each change."""
    return int(thing["metadata"].get("resourceVersion") or 0)


def _execution(suite: Json, anchors: Sequence[AnchorPairs] | None = None) -> SuiteExecution:
    """Return a suite as an execution; `anchors` are all its A/A pairs, as far as they are known."""
    metadata: Any = suite["metadata"]
    status = read_suite_status(suite)
    if anchors is not None:
        status = status.model_copy(update={"anchors": list(anchors)})
    return SuiteExecution(
        metadata["name"],
        metadata["uid"],
        str(metadata.get("creationTimestamp", "")),
        status,
        is_true(status, "Finished"),
        is_true(status, "Complete"),
    )
