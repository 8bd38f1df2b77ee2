"""Suites on a stage of the API server's tests."""

import json
from typing import Any

from typing_extensions import override

from inferometer_api.suite.plan_suite import SuitePlan
from support.api_client import Object
from support.cluster.audit import requests
from support.crash_courses import Course
from support.fake_kubelet import ready_server
from support.fake_load import FakeLoad
from support.stage import SHORT, Stage
from support.suites import a_suite, planned

NAME = "a-suite"
GATED: dict[str, Any] = {"baseline": {"axis": "stack", "value": "old"}, "gate": {}}


def short_suite(name: str = NAME, **spec: Any) -> Object:
    """Return a suite whose runs have short minimums."""
    suite = a_suite(name, **spec)
    suite["spec"]["template"]["spec"]["validity"] = SHORT
    return suite


def apply_suite(stage: Stage, suite: Object) -> SuitePlan:
    """Create a suite; return its plan."""
    stage.api.create("BenchmarkSuite", stage.namespace, suite)
    return planned(suite)


def suite_status(stage: Stage, name: str = NAME) -> Object:
    """Return the status of a suite, empty if it has none."""
    found = stage.api.found("BenchmarkSuite", stage.namespace, name) or {}
    status: Object = found.get("status") or {}
    return status


def suite_condition(stage: Stage, kind: str, name: str = NAME) -> Object:
    """Return a condition of a suite, empty if it has none of that type."""
    conditions = suite_status(stage, name).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def finished_suite(stage: Stage, name: str = NAME) -> Object:
    """Wait until a suite is finished; return its status."""
    stage.wait_for(
        lambda: suite_condition(stage, "Finished", name).get("status") == "True",
        lambda: f"the end of {name}: {json.dumps(suite_status(stage, name))}\n{stage.logs()}",
    )
    return suite_status(stage, name)


def load_of(stage: Stage, run: str) -> FakeLoad:
    """Wait for the load generator of a run that the operator is about to create."""
    stage.wait_for(
        lambda: stage.loads.there(run),
        lambda: f"{run}: {json.dumps(suite_status(stage))}\n{stage.logs()}",
    )
    return stage.load(run)


def created_runs(stage: Stage) -> list[str]:
    """Return the names of the runs that the operator created, in order."""
    return [
        each.name
        for each in requests(stage.control_plane.audit_log, stage.user)
        if (each.verb, each.resource, each.code) == ("create", "benchmarkruns", 201)
    ]


class SuiteCourse(Course):
    """A suite through which operators are killed."""

    @override
    def begin(self, stage: Stage) -> None:
        """Create the suite."""
        stage.play("server", ready_server)
        stage.play("loadgen", stage.loads.measure)
        apply_suite(stage, short_suite(**self.spec))

    @override
    def is_over(self, stage: Stage) -> bool:
        """Return whether the suite is finished."""
        return suite_condition(stage, "Finished").get("status") == "True"

    @override
    def check(self, stage: Stage) -> None:
        """Check that each run was created and measured exactly once."""
        plan = planned(short_suite(**self.spec))
        names = [run.name for run in plan.runs]
        assert created_runs(stage) == names
        status = suite_status(stage)
        assert status["states"] == "V" * len(names), status
        assert len(stage.kubelet.all(stage.namespace, "loadgen")) == len(names)
