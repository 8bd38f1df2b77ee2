"""The systems of a suite: which nodes satisfy its constraint."""

from typing import Any

import pytest

from inferometer_api.suite.matrix import Systems
from inferometer_api.suite.systems import find_systems, recorded_name, systems_named

_TYPE = "node.kubernetes.io/instance-type"


def a_node(name: str, *, arch: str = "amd64", kind: str = "m7", **changed: Any) -> dict[str, Any]:
    """Return a node of 8 CPUs and 16 GiB."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": arch, _TYPE: kind}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": changed.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "7500m", "memory": "15Gi", **changed.get("offers", {})},
            "conditions": [{"type": "Ready", "status": changed.get("ready", "True")}],
        },
    }


NODES = [
    a_node("c", kind="c7"),
    a_node("a"),
    a_node("b", arch="arm64"),
    a_node("g", offers={"nvidia.com/gpu": "2", "cpu": "32"}),
    a_node("cordoned", spec={"unschedulable": True}),
    a_node("lost", ready="Unknown"),
]


def found(**fields: Any) -> list[str]:
    """Return the names of the systems."""
    wanted = Systems.model_validate(fields, by_alias=True, by_name=False)
    return [system.name for system in find_systems(wanted, NODES)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["a", "b", "c", "g"]),
        ({"selector": {_TYPE: "m7"}}, ["a", "b", "g"]),
        ({"requirements": {"architecture": "arm64"}}, ["b"]),
        ({"requirements": {"accelerator": "nvidia.com/gpu"}}, ["g"]),
        ({"requirements": {"minCpus": 8}}, ["g"]),
        ({"requirements": {"minCpus": 7, "minMemory": "15Gi"}}, ["a", "b", "c", "g"]),
        ({"requirements": {"minMemory": "16Gi"}}, []),
        ({"each": "Label", "labelKey": _TYPE}, ["c7", "m7"]),
        ({"each": "Label", "labelKey": "absent"}, []),
    ],
)
def test_every_node_that_satisfies_the_constraint_is_a_system(
    fields: dict[str, Any], expected: list[str]
) -> None:
    """By labels and by what it can give to pods; cordoned and lost nodes are left out."""
    assert found(**fields) == expected


def test_a_suite_keeps_the_systems_that_it_started_with() -> None:
    """A node that has gone keeps its name, so that the plan stays as it is."""
    wanted = Systems()
    (first, gone) = systems_named(wanted, ["a", "gone"], NODES)
    assert (first.node_class, first.takes_turns) == ("m7", True)
    assert gone.node_selector == {"kubernetes.io/hostname": "gone"}


def test_a_size_is_enforced_by_the_node_that_stands_for_a_label() -> None:
    """No selector can compare sizes, so runs go to the first node that has them, and stay there."""
    wanted = Systems.model_validate(
        {"each": "Label", "labelKey": _TYPE, "requirements": {"minCpus": 7}},
        by_alias=True,
        by_name=False,
    )
    systems = find_systems(wanted, [a_node("0-small", offers={"cpu": "2"}), *reversed(NODES)])
    assert [(each.name, each.node_class, each.pinned_node) for each in systems] == [
        ("c7", "c7", "c"),
        ("m7", "m7", "a"),
    ]
    assert systems[1].node_selector == {_TYPE: "m7", "kubernetes.io/hostname": "a"}
    assert all(each.takes_turns for each in systems)
    recorded = [recorded_name(each) for each in systems]
    assert recorded == ["c7=c", "m7=a"]
    assert systems_named(wanted, recorded, NODES) == systems
    assert systems_named(wanted, recorded, []) == systems


def test_a_label_alone_leaves_the_node_to_the_scheduler() -> None:
    """Also with an architecture, which is a label itself."""
    wanted = Systems.model_validate(
        {"each": "Label", "labelKey": _TYPE, "requirements": {"architecture": "amd64"}},
        by_alias=True,
        by_name=False,
    )
    systems = find_systems(wanted, NODES)
    selectors = [each.node_selector for each in systems]
    assert selectors == [{"kubernetes.io/arch": "amd64", _TYPE: kind} for kind in ("c7", "m7")]
    assert systems_named(wanted, [recorded_name(each) for each in systems], []) == systems
