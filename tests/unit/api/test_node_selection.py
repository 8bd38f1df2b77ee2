"""Which nodes a NodeBenchmark measures."""

from typing import Any

import pytest

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.nodes.selection import matching_nodes


def _node(name: str = "a", *, ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"pool": "cpu"}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def _matching(node: dict[str, Any], **spec: Any) -> list[str]:
    return matching_nodes(NodeBenchmarkSpec.model_validate(spec), [node])


def test_nodes_match_by_their_labels_in_the_order_of_their_names() -> None:
    """Without a selector all match."""
    nodes = [_node("b"), _node("a"), {**_node("c"), "metadata": {"name": "c"}}]
    selecting = NodeBenchmarkSpec.model_validate({"nodeSelector": {"pool": "cpu"}})
    assert matching_nodes(selecting, nodes) == ["a", "b"]
    assert matching_nodes(NodeBenchmarkSpec(), nodes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "node",
    [
        _node(ready="False"),
        _node(ready="Unknown"),
        _node(unschedulable=True),
        _node(taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        {**_node(), "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"name": "a"}},
    ],
    ids=["not ready", "silent", "cordoned", "tainted", "deleted", "new"],
)
def test_nodes_on_which_no_pod_would_start_are_left_out(node: dict[str, Any]) -> None:
    """A pod for them would wait until its deadline."""
    assert _matching(node) == []


@pytest.mark.parametrize(
    ("toleration", "matches"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_that_is_tolerated_keeps_no_node_out(
    toleration: dict[str, str], *, matches: bool
) -> None:
    """Key, value and effect count, as they do for the scheduler."""
    node = _node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert bool(_matching(node, tolerations=[toleration])) == matches


def test_a_preference_of_a_node_keeps_no_pod_out() -> None:
    """PreferNoSchedule is no reason to leave a node unmeasured."""
    assert _matching(_node(taints=[{"key": "x", "effect": "PreferNoSchedule"}])) == ["a"]
