"""Which runs of a suite a stored result may stand for, and what the operator looks up."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inferometer_api.spec.digest import spec_digest
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.outcome import suite_outcome
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.reuse import ReusableResult
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.manifests.image_digests import image_digest_on
from inferometer_operator.reconcile.suite.cells import SuiteObserved, decide, run_outcomes
from inferometer_operator.reconcile.suite.draft import SuiteDraft
from inferometer_operator.reconcile.suite.reuse import (
    ReuseQuestions,
    lacking_for_reuse,
    reuse_questions,
    reused_outcomes,
)
from inferometer_operator.settings import Settings
from support.suites import a_suite, an_outcome, parsed, planned

NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
SERVING, LOADGEN = "registry.test/serving:1", "registry.test/loadgen:1"
SETTINGS = Settings.model_validate(
    {"images": {"serving": SERVING, "servingGpu": "registry.test/gpu:1", "loadgen": LOADGEN}}
)


def digest(letter: str) -> str:
    """Return the digest of an image."""
    return f"sha256:{letter * 64}"


def a_node(name: str = "node-a", **digests: str) -> dict[str, Any]:
    """Return a node that holds the images with these digests."""
    held = {"serving": digest("a"), "loadgen": digest("b"), **digests}
    images = [
        {"names": [f"registry.test/{image}@{known}", f"registry.test/{image}:1"]}
        for image, known in held.items()
    ]
    return {"metadata": {"name": name, "labels": {}}, "status": {"images": images}}


def questions(
    plan: SuitePlan, *nodes: dict[str, Any], settings: Settings = SETTINGS
) -> ReuseQuestions:
    """Return what the operator looks up."""
    return reuse_questions(plan, settings, nodes or (a_node(),))


def a_result(id_: str, p50_microseconds: int = 900) -> ReusableResult:
    """Return a stored result."""
    figures = ScenarioSummary(
        name="latency", verdict="VALID", p50_microseconds=p50_microseconds, achieved_milli_qps=1000
    )
    return ReusableResult(id=id_, run="old", started_at="2026-05-01", scenarios=[figures])


def test_a_cell_is_looked_up_by_spec_node_and_images() -> None:
    """One query for each cell, with as many results as it has repeats; no anchor among them."""
    plan = planned(a_suite(repeats=3, anchor={"stack": "old"}))
    found = questions(plan)
    cells = [run for run in plan.runs if run.role == "cell"]
    assert sorted(name for names in found.runs for name in names) == sorted(
        run.name for run in cells
    )
    assert found.obstacles == {}
    for query, names in zip(found.queries, found.runs, strict=True):
        assert (query.node, query.images, query.most) == ("node-a", [digest("a"), digest("b")], 3)
        run = next(run.run for run in cells if run.name == names[0])
        assert query.spec_digest == spec_digest(fill_defaults(run).spec)


def test_the_digest_of_a_spec_is_that_of_the_run_that_the_api_server_returns() -> None:
    """Which has every default; retention changes no figure, connections do."""
    run = fill_defaults(planned(a_suite()).runs[0].run)
    returned = run.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert spec_digest(fill_defaults(BenchmarkRun.read(returned)).spec) == spec_digest(run.spec)
    returned["spec"]["retention"] = {"ttlSecondsAfterFinished": 60}
    assert spec_digest(BenchmarkRun.read(returned).spec) == spec_digest(run.spec)
    returned["spec"]["load"]["connections"] = 77
    assert spec_digest(BenchmarkRun.read(returned).spec) != spec_digest(run.spec)


@pytest.mark.parametrize(
    ("template", "nodes", "expected"),
    [
        ({}, (a_node(), a_node("node-b")), "2 nodes match a run"),
        ({}, (a_node(serving="none"),), ""),
        (
            {"model": {"uri": "pvc://models/a.onnx"}},
            (a_node(),),
            "A model may have changed since a result was stored",
        ),
        (
            {"server": {"runtime": "Triton"}},
            (a_node(),),
            "The image of the server does not hold the model",
        ),
        (
            {"load": {"inputs": {"file": {"uri": "configmap://a/b.npz"}}}},
            (a_node(),),
            "Inputs, traces or data sets may have changed",
        ),
        (
            {
                "model": {"name": "m"},
                "server": {"runtime": "External", "external": {"url": "http://s.test:80"}},
            },
            (a_node(),),
            "An External server may have changed",
        ),
    ],
    ids=["nodes", "known", "model", "image", "inputs", "external"],
)
def test_a_run_whose_equal_is_not_known_is_measured_and_says_why(
    template: dict[str, Any], nodes: tuple[dict[str, Any], ...], expected: str
) -> None:
    """Nothing is looked up for it."""
    suite = a_suite(axes=[])
    suite["spec"]["template"]["spec"] |= template
    found = questions(planned(suite), *nodes)
    if expected:
        ((sentence, count),) = found.obstacles.items()
        assert sentence.startswith(expected)
        assert (count, found.queries) == (1, [])
    else:
        assert found.obstacles == {}


@pytest.mark.parametrize(
    ("reference", "names", "is_pulled", "expected"),
    [
        ("r.test/a:1", [["r.test/a:1", f"r.test/a@{digest('1')}"]], False, digest("1")),
        (f"r.test/a@{digest('2')}", [], True, digest("2")),
        ("r.test/a:1", [["r.test/a:1", f"r.test/a@{digest('1')}"]], True, ""),
        ("r.test/a:2", [["r.test/a:1", f"r.test/a@{digest('1')}"]], False, ""),
        ("r.test/a:1", [["r.test/a:1"]], False, ""),
        ("a", [["docker.io/library/a:latest", f"docker.io/library/a@{digest('3')}"]], False, "3"),
        ("me/a:1", [["docker.io/me/a:1", f"docker.io/me/a@{digest('4')}"]], False, "4"),
        ("localhost/a:1", [["localhost/a:1", f"localhost/a@{digest('5')}"]], False, "5"),
        (
            "r.test/a:1",
            [["r.test/a:1", f"r.test/b@{digest('6')}", f"r.test/a@{digest('1')}"]],
            False,
            digest("1"),
        ),
        (
            "r.test/a:1",
            [
                ["r.test/a:1", f"r.test/a@{digest('1')}"],
                ["r.test/a:1", f"r.test/a@{digest('2')}"],
            ],
            False,
            "",
        ),
    ],
    ids=[
        "tag", "digest", "pulled", "other", "unknown", "library", "hub", "localhost", "shared",
        "several",
    ],
)  # fmt: skip
def test_the_digest_of_an_image_is_what_the_nodes_show(
    reference: str, names: list[list[str]], expected: str, *, is_pulled: bool
) -> None:
    """A tag that each pod pulls anew is no one image, nor is one that nodes hold differently."""
    nodes = [{"status": {"images": [{"names": some}]}} for some in names]
    found = image_digest_on(nodes, reference, is_pulled=is_pulled)
    assert found == (digest(expected) if len(expected) == 1 else expected)


def test_each_stored_result_stands_for_one_run() -> None:
    """The newest for the earliest repeat; cells that are equal share them; the rest is measured."""
    plan = planned(a_suite(axes=[], repeats=3))
    found = questions(plan)
    outcomes = reused_outcomes(found, [[a_result("new"), a_result("old")]])
    assert [(name, each.result) for name, each in outcomes.items()] == [
        (plan.runs[0].name, "new"),
        (plan.runs[1].name, "old"),
    ]
    twins = a_suite(axes=[{"name": "a", "values": [{"name": "one"}, {"name": "two"}]}])
    shared = questions(planned(twins))
    assert [(len(shared.queries), shared.queries[0].most)] == [(1, 2)]


def test_reused_runs_are_recorded_before_the_first_one_starts_and_never_later() -> None:
    """An operator that takes over keeps the decision, whatever is stored by then."""
    data = a_suite(reuse=True)
    plan = planned(data)
    reused = {plan.runs[0].name: RunOutcome("R", scenarios=an_outcome().scenarios, result="r1")}
    observed = SuiteObserved({}, {}, reused=reused, reuse_note="1 runs are measured: because.")
    first = decide(parsed(data).spec, plan, SuiteDraft(SuiteStatus(), NOW, 1), observed)
    assert (first.status.states, first.create) == ("R.", (1,))
    assert first.status.cells is not None
    assert first.status.cells.reused == 1
    assert [(each.run, each.result) for each in first.status.reused] == [(plan.runs[0].name, "r1")]
    accepted = "2 cells, 2 runs. 1 runs reuse stored results. 1 runs are measured: because."
    assert first.status.conditions[0].message == accepted
    assert first.status.scenarios[0].best is not None
    # Another operator, which the service does not answer yet.
    live = {plan.runs[1].name: RunOutcome("a")}
    later = SuiteObserved(live, {}, reused={plan.runs[1].name: RunOutcome("R", result="r2")})
    second = decide(parsed(data).spec, plan, SuiteDraft(first.status, NOW, 1), later)
    assert second.status.states == "Ra"
    unstarted = run_outcomes(plan, "R.", SuiteObserved({}, {}, reused=later.reused))
    assert [each.state for each in unstarted] == ["R", "."]
    assert second.status.reused == first.status.reused
    assert second.status.conditions[0].message == accepted
    ended = decide(
        parsed(data).spec,
        plan,
        SuiteDraft(second.status, NOW, 1),
        SuiteObserved({plan.runs[1].name: an_outcome()}, {}, reused=reused),
    )
    assert ended.status.states == "RV"
    complete = next(each for each in ended.status.conditions if each.type == "Complete")
    assert complete.message == ("1 runs are complete; 0 are INVALID. 1 runs reuse stored results.")
    outcomes = run_outcomes(plan, "RV", SuiteObserved({}, {}, reused=reused))
    (kept,) = suite_outcome(plan, outcomes, None, "2026-06-01T04:00:00.000Z").reused
    assert (kept.name, kept.result, kept.values) == (plan.runs[0].name, "r1", {"stack": "old"})


@pytest.mark.parametrize(("states", "begun"), [("", False), ("..R", False), ("R.a", True)])
def test_a_suite_whose_runs_are_only_reused_has_not_begun(states: str, *, begun: bool) -> None:
    """Models are still brought to the nodes before its first run."""
    assert SuiteDraft(SuiteStatus(states=states), NOW, 1).has_begun is begun


def test_a_gate_judges_no_reused_run() -> None:
    """It was measured in another block, perhaps on another day."""
    data = a_suite(repeats=3, reuse=True, baseline={"axis": "stack", "value": "old"}, gate={})
    plan = planned(data)
    reused = {
        run.name: RunOutcome("R", scenarios=an_outcome().scenarios, result=run.name)
        for run in plan.runs
        if run.role == "cell"
    }
    measured = {run.name: an_outcome() for run in plan.runs if run.role != "cell"}
    found = decide(
        parsed(data).spec,
        plan,
        SuiteDraft(SuiteStatus(), NOW, 1),
        SuiteObserved(measured, {}, reused=reused),
    )
    assert found.status.gate is not None
    assert found.status.gate.outcome == "CouldNotRun"
    assert found.status.gate.reasons[0].startswith("6 runs reuse stored results, and the gate")


def test_an_operator_without_store_or_nodes_says_what_is_missing() -> None:
    """With the values of the chart."""
    lacking = lacking_for_reuse(SETTINGS)
    assert "no results service" in lacking
    assert "may not read nodes" in lacking
    service = {"url": "https://results.test", "tokenFile": "/token"}
    both = SETTINGS.model_dump(by_alias=True) | {"results": service, "readNodes": True}
    assert lacking_for_reuse(Settings.model_validate(both)) == ""
