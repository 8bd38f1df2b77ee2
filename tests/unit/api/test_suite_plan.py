"""The plan of a suite: its cells, names, order, and what makes it invalid."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inferometer_api.spec.problems import describe_errors
from inferometer_api.suite.anchor import anchor_digest
from inferometer_api.suite.plan_suite import InvalidSuiteError, System
from inferometer_api.suite.spec import BenchmarkSuite
from support.suites import a_suite, an_axis, parsed, planned

_TWO = [System("node-a", takes_turns=True), System("node-b", takes_turns=True)]


def labels(data: dict[str, Any]) -> list[str]:
    """Return the cells of a suite, as people read them."""
    return [cell.label for cell in planned(data).cells]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["old", "new"]),
        ({"axes": []}, ["the template"]),
        (
            {"axes": [an_axis("a", "x", "y"), an_axis("b", "p", "q", path="spec.load.seed")]},
            ["x, p", "x, q", "y, p", "y, q"],
        ),
        (
            {
                "axes": [an_axis("a", "x", "y"), an_axis("b", "p", "q", path="spec.load.seed")],
                "exclude": [{"a": "x", "b": "q"}, {"a": "y", "b": "p"}],
            },
            ["x, p", "y, q"],
        ),
        ({"exclude": [{"stack": "old"}]}, ["new"]),
        (
            {
                "include": [
                    {"name": "wide", "values": {"stack": "new"}, "set": {"spec.load.seed": 7}}
                ]
            },
            ["old", "new", "wide, new"],
        ),
        ({"axes": [], "include": [{"name": "alone"}]}, ["alone"]),
    ],
    ids=["axis", "none", "product", "exclude", "exclude-value", "include", "include-alone"],
)
def test_cells_are_the_product_without_the_excluded_and_with_the_included(
    spec: dict[str, Any], expected: list[str]
) -> None:
    """Cells stand in the order of the axes, the last one changing fastest."""
    assert labels(a_suite(**spec)) == expected


def test_a_cell_sets_the_fields_of_its_values() -> None:
    """A whole number and a text with YAML are set as `--set` would; later axes win."""
    suite = a_suite(
        axes=[
            an_axis("stack", "old", "new"),
            {
                "name": "load",
                "values": [
                    {
                        "name": "many",
                        "set": {
                            "spec.load": "{protocol: GRPC, connections: 5}",
                            "spec.scenarios[latency].singleStream": "{}",
                        },
                    }
                ],
            },
        ]
    )
    runs = planned(suite).runs
    assert [run.run.spec.load.connections for run in runs] == [5, 5]
    assert runs[0].run.spec.load.protocol == "GRPC"


def test_repeats_are_spread_over_blocks_in_random_order() -> None:
    """Each block has each cell once; orders differ between blocks and follow the seed."""
    suite = a_suite(axes=[an_axis("a", *"abcdefgh")], repeats=5)
    runs = planned(suite).runs
    blocks = [[run.cell.label for run in runs if run.block.repeat == at] for at in range(1, 6)]
    assert all(sorted(block) == list("abcdefgh") for block in blocks)
    assert len({tuple(block) for block in blocks}) == 5
    assert [run.block.repeat for run in runs] == sorted(run.block.repeat for run in runs)
    other = planned(a_suite(axes=[an_axis("a", *"abcdefgh")], repeats=5, seed=43)).runs
    assert [run.name for run in other] != [run.name for run in runs]
    assert {run.name for run in other} == {run.name for run in runs}


def test_the_anchor_opens_and_closes_each_block() -> None:
    """With a gate the first cell is the anchor, unless the suite names another one."""
    gated = a_suite(
        repeats=2, baseline={"axis": "stack", "value": "old"}, gate={}, anchor={"stack": "new"}
    )
    plan = planned(gated, _TWO)
    assert plan.anchor is not None
    assert plan.anchor.label == "new"
    for block in dict.fromkeys(run.block for run in plan.runs):
        of_block = [run for run in plan.runs if run.block == block]
        assert [run.role for run in of_block] == ["opening", "cell", "cell", "closing"]
        assert of_block[0].cell == of_block[-1].cell == plan.anchor
    gated["spec"].pop("anchor")
    found = planned(gated).anchor
    assert found is not None
    assert found.label == "old"
    assert planned(a_suite()).anchor is None


def test_every_system_has_every_cell_and_places_it() -> None:
    """The server of a cell gets the system's labels in addition to the template's."""
    suite = a_suite()
    suite["spec"]["template"]["spec"]["server"] = {"placement": {"nodeSelector": {"pool": "bench"}}}
    system = System("node-a", "m7", {"kubernetes.io/hostname": "node-a"}, takes_turns=True)
    for run in planned(suite, [system]).runs:
        assert run.run.spec.server.placement.node_selector == {
            "pool": "bench",
            "kubernetes.io/hostname": "node-a",
        }
    assert Counter(run.block.system.name for run in planned(suite, _TWO).runs) == {
        "node-a": 2,
        "node-b": 2,
    }


_NAMES = st.text("abz019-", min_size=1, max_size=20).map(lambda text: f"a{text}z")


@given(
    suite=_NAMES,
    axes=st.lists(st.lists(_NAMES, min_size=1, max_size=4, unique=True), min_size=1, max_size=3),
    repeats=st.integers(1, 3),
)
def test_names_are_unique_and_the_same_again(
    suite: str, axes: list[list[str]], repeats: int
) -> None:
    """Whatever the names: each run has a DNS label of its own, and planning again gives it."""
    data = a_suite(
        suite,
        axes=[an_axis(f"axis-{at}", *values) for at, values in enumerate(axes)],
        repeats=repeats,
        anchor={},
    )
    names = [run.name for run in planned(data, _TWO).runs]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 45 and name.strip("-") == name for name in names)
    assert names == [run.name for run in planned(data, _TWO).runs]
    # Another value of one axis leaves the names of the other cells as they are.
    data["spec"]["axes"][0]["values"].append({"name": "another", "set": {"spec.load.seed": 9}})
    assert set(names) < {run.name for run in planned(data, _TWO).runs}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"axes": [an_axis("stack", "old", "new", path="spec.load.connection")]},
            "cell old and 1 more: spec.load.connection: unknown field; did you mean connections?",
        ),
        (
            {
                "axes": [
                    {
                        "name": "stack",
                        "values": [
                            {"name": "old"},
                            {"name": "new", "set": {"spec.server.runtime": "External"}},
                        ],
                    }
                ]
            },
            "cell new: spec",
        ),
        (
            {"axes": [an_axis("stack", "old", path="spec.scenarios[traffic].server.targetQps")]},
            "cell old: spec.scenarios[traffic].server.targetQps cannot be set: spec.scenarios has",
        ),
        (
            {"axes": [{"name": "a", "values": [{"name": "x", "set": {"spec.suspend": "true"}}]}]},
            "cell x: spec.suspend, spec.cancel: set those of the suite",
        ),
        ({"exclude": [{}]}, "spec.exclude: every cell is excluded"),
        (
            {"exclude": [{"stack": "old"}], "baseline": {"axis": "stack", "value": "old"}},
            "spec.baseline: measure cells with and without its value",
        ),
        (
            {"exclude": [{"stack": "old"}], "anchor": {"stack": "old"}},
            "spec.anchor: its cell is excluded",
        ),
        (
            {"include": [{"name": "wide"}, {"name": "old"}]},
            "spec.include[1].name: old is a value of the axis stack already. Give the cell",
        ),
    ],
    ids=["unknown", "rule", "path", "suspend", "empty", "baseline", "anchor", "include"],
)
def test_a_cell_that_is_no_valid_run_is_named_before_anything_starts(
    spec: dict[str, Any], expected: str
) -> None:
    """The message has the cell, the field, what is wrong and what would be right."""
    with pytest.raises(InvalidSuiteError) as caught:
        planned(a_suite(**spec))
    assert expected in str(caught.value)


def test_many_systems_are_counted() -> None:
    """Cells times systems times repeats are at most 1,000, and systems at most 100."""
    suite = a_suite(axes=[an_axis("a", *(f"v{at}" for at in range(30)))])
    with pytest.raises(InvalidSuiteError, match="30 cells on 34 systems, 1 times, are 1020 runs"):
        planned(suite, [System(f"n{at}") for at in range(34)])
    with pytest.raises(InvalidSuiteError, match="101 systems match"):
        planned(a_suite(), [System(f"n{at}") for at in range(101)])
    with pytest.raises(InvalidSuiteError, match="no node can take the runs"):
        planned(a_suite(), [])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"axis": []}, "spec.axis: unknown field; did you mean axes?"),
        (
            {"exclude": [{"stack": "newer"}]},
            "name an axis and one of its values; found stack: newer",
        ),
        ({"anchor": {"model": "x"}}, "spec.anchor.model: name an axis and one of its values"),
        ({"gate": {}}, "spec.gate: a gate needs a baseline"),
        (
            {"baseline": {"axis": "stack", "suite": "x"}},
            "set exactly one of axis, suite; found axis and suite",
        ),
        (
            {"baseline": {"axis": "stack"}},
            "spec.baseline.value: set value with axis, and only then",
        ),
        (
            {"axes": [an_axis("stack", "a", "a")]},
            "stands at index 0 already: each name may stand once",
        ),
        (
            {"axes": [an_axis("a", *(f"v{at}" for at in range(100)))], "repeats": 11},
            "spec.axes: a suite has at most 1000 cells, repeats counted",
        ),
        ({"systems": {"each": "Label"}}, "set labelKey with each: Label, and only then"),
        ({"schedule": {"cron": "daily"}}, "must be five fields of cron"),
        (
            {"axes": [an_axis("stack", "a", path="load.seed")]},
            "the key must be a path that begins with spec",
        ),
        ({"axes": [an_axis("cell", "a")]}, "an axis cannot have the name cell"),
        ({"template": {"spec": {"cancel": True}}}, "set suspend and cancel of the suite"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_suite_that_contradicts_itself_is_refused(spec: dict[str, Any], expected: str) -> None:
    """Each message has the field and what would be right."""
    data = a_suite(**spec)
    with pytest.raises(ValidationError) as caught:
        parsed(data)
    found = describe_errors(caught.value, data, BenchmarkSuite)
    text = "\n".join(f"{'.'.join(map(str, where))}: {message}" for where, message in found)
    assert expected in text


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"activeDeadlineSeconds": 900}, True),
        ({"server": {"placement": {"tolerations": [{"operator": "Exists"}]}}}, True),
        ({"server": {"placement": {}}}, True),
        ({"retention": {"ttlSecondsAfterFinished": 99}}, True),
        ({"server": {"placement": {"nodeSelector": {"pool": "a"}}}}, False),
        ({"load": {"protocol": "GRPC"}}, False),
    ],
)
def test_the_pairs_of_an_anchor_outlive_a_change_of_no_figure(
    changed: dict[str, Any], *, is_same: bool
) -> None:
    """They belong to the digest of its spec; without 20 of them the gate is advisory."""
    suite, other = (a_suite(anchor={"stack": "old"}) for _ in range(2))
    other["spec"]["template"]["spec"] |= changed
    assert (anchor_digest(planned(suite)) == anchor_digest(planned(other))) == is_same
