"""The systems of a suite: which nodes satisfy its constraint."""

from typing import Any

import pytest

from inferometer_api.spec.server import Toleration
from inferometer_api.suite.matrix import Systems
from inferometer_api.suite.systems import (
    find_systems,
    left_out_nodes,
    recorded_name,
    systems_named,
)

_TYPE = "node.kubernetes.io/instance-type"


def a_node(name: str, *, arch: str = "amd64", kind: str = "m7", **changed: Any) -> dict[str, Any]:
    """Return a node of 8 CPUs and 16 GiB, in the units of a kubelet."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": arch, _TYPE: kind}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": changed.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "7500m", "memory": "15728640Ki", **changed.get("offers", {})},
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


_GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
_TAINTED = [
    a_node("a"),
    a_node("b", spec={"taints": [_GPU]}),
    a_node("c", kind="c7", spec={"taints": [{"key": "drain", "effect": "NoExecute"}]}),
    a_node("d", spec={"taints": [{"key": "d", "effect": "PreferNoSchedule"}]}),
    a_node("e", spec={"unschedulable": True}),
    a_node("f", ready="False"),
    {**a_node("g"), "status": {}},
]


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], ["a", "d"]),
        ([{"key": "gpu", "value": "yes"}], ["a", "b", "d"]),
        ([{"key": "gpu", "value": "no"}], ["a", "d"]),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["a", "b", "d", "e"]),
        ([{"operator": "Exists"}], ["a", "b", "c", "d", "e"]),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], ["a", "d", "e"]),
        ([{"operator": "Exists", "effect": "NoExecute"}], ["a", "c", "d"]),
    ],
)
def test_a_node_whose_taints_the_template_does_not_tolerate_is_no_system(
    tolerations: list[dict[str, str]], expected: list[str]
) -> None:
    """Its runs would wait until their deadline. Cordoned is a taint too, not Ready is none."""
    known = [Toleration.read(each) for each in tolerations]
    assert [each.name for each in find_systems(Systems(), _TAINTED, known)] == expected
    sentence = left_out_nodes(Systems(), _TAINTED, known)
    names = {each["metadata"]["name"] for each in _TAINTED} - set(expected)
    assert all(f"{name} (" in sentence for name in names)


def test_nodes_that_match_and_are_left_out_are_named_with_the_reason() -> None:
    """Their count comes first, then five names; none that the constraint excludes."""
    assert left_out_nodes(Systems(), _TAINTED) == (
        "5 matching nodes are left out, since no run would start on them: b (taint "
        "gpu=yes:NoSchedule), c (taint drain:NoExecute), e (cordoned), f (not Ready), g (not "
        "Ready)."
    )
    more = left_out_nodes(Systems(), [*_TAINTED, *_TAINTED[4:]])
    assert more.startswith("8 matching nodes are left out, since no run would start on them: b (")
    assert more.endswith(", and 3 more.")
    one = left_out_nodes(Systems(), _TAINTED[:2])
    assert one.startswith("1 matching node is left out, since no run would start on it: b (taint")
    c7 = Systems(selector={_TYPE: "c7"})
    assert left_out_nodes(c7, _TAINTED).count("(") == 1
    assert left_out_nodes(c7, _TAINTED[:2]) == ""


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
