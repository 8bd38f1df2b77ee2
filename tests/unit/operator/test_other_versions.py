"""Objects that a newer version wrote lose no run: what this version does not know is ignored."""

import asyncio
import json
from dataclasses import replace
from typing import cast

from inferometer_api.plan.cluster_objects import LOADGEN
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.manifests.config_maps import PLAN_FILE
from inferometer_operator.reconcile.acceptance import Rejection, parse_run
from inferometer_operator.reconcile.conditions import is_decided, read_status
from inferometer_operator.reconcile.make_plan import make_plan
from inferometer_operator.reconcile.references import raw_references
from inferometer_operator.reconcile.run_facts import run_facts
from inferometer_operator.wiring.plan_executor import PlanExecutor
from support.pretend_cluster import PretendCluster

_CONDITION = {
    "type": "Accepted",
    "status": "True",
    "lastTransitionTime": "2026-01-31T12:00:00.000Z",
    "reason": "Accepted",
    "message": "Yes.",
}
_SCENARIO = {"name": "latency", "verdict": "VALID", "queries": 7}
_NEW = {"fieldOfTheFuture": {"a": 1}}


def test_an_unknown_field_of_a_condition_or_a_scenario_drops_nothing() -> None:
    """The conditions and the figures of a run stay, without what this version does not know."""
    status = {"conditions": [_CONDITION | _NEW], "scenarios": [_SCENARIO | _NEW]} | _NEW
    read = read_status({"status": status})
    assert [each.type for each in read.conditions] == ["Accepted"]
    assert [each.queries for each in read.scenarios] == [7]


def test_an_unreadable_field_of_the_status_drops_only_itself() -> None:
    """The other fields stay, also those with fields that this version does not know."""
    status = {"conditions": [_CONDITION | _NEW], "scenarios": 1, "phase": "PhaseOfTheFuture"}
    read = read_status({"status": status})
    assert (len(read.conditions), read.scenarios) == (1, [])
    assert str(read.phase) == "PhaseOfTheFuture"


def _begun() -> PretendCluster:
    cluster = PretendCluster().settle()
    assert cluster.status()["startTime"]
    cluster.run["spec"]["fieldOfTheFuture"] = {"a": 1}
    cluster.run["spec"]["validity"] = {"fieldOfTheFuture": 1}
    return cluster


def test_an_unknown_field_of_the_spec_loses_no_run_that_has_begun() -> None:
    """A run that a newer version accepted goes on, with its facts and its references."""
    cluster = _begun()
    plan = make_plan(cluster.run, cluster.observed(), cluster.settings, cluster.now, "token")
    assert not is_decided(plan.status)
    assert not plan.delete
    assert run_facts(cluster.run).deadline is not None
    cluster.run["spec"]["model"] = {"uri": "pvc://models/a.onnx"}
    assert [each.name for each in raw_references(cluster.run)] == ["models"]


def test_an_unknown_field_of_a_new_run_is_refused() -> None:
    """Before a run begins, a field that this version does not know may be a mistake."""
    run = _begun().run
    assert isinstance(parse_run(run), Rejection)


def test_a_plan_of_another_version_is_stopped_by_its_token() -> None:
    """The stop request needs only the token of the plan."""
    tokens: list[str] = []

    class Loadgen:
        async def stop(self, address: str, token: str) -> bool:
            del address
            tokens.append(token)
            return True

    cluster = PretendCluster().settle().schedule().start_server().settle().start_load()
    plan = {"data": {PLAN_FILE: json.dumps({"stopToken": "t", **_NEW})}}
    observed = replace(cluster.observed(), children={"plan": plan})
    pod = cluster.pod(LOADGEN)
    executor = PlanExecutor(
        cast("Reader", None), cast("Writer", None), cast("LoadgenClient", Loadgen())
    )
    assert asyncio.run(executor.stop_load(pod["metadata"]["name"], observed))
    assert tokens == ["t"]
