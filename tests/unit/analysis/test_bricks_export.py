"""An exported file has nothing of a model but the shapes and settings of its layers."""

from typing import Any

import pytest

from inferometer_analysis.bricks.export import exportable
from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.graph import LayerTensor
from inferometer_api.layers.split import compose_suite
from support.layer_graphs import layer_graph


def _suite(**changes: Any) -> BrickSuite:
    """Return a suite of Relu and of a layer with these fields."""
    graph = layer_graph(("Changed", [0], [1]), ("Relu", [1], [2]))
    layer = graph.layers["Changed"].model_copy(update=changes)
    return compose_suite(
        [graph.model_copy(update={"layers": {**graph.layers, "Changed": layer}})], 1
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"attributes": [{"name": "body", "g": {"name": "secret"}}]}, id="a graph"),
        pytest.param({"attributes": [{"name": "value", "t": {"name": "secret"}}]}, id="a tensor"),
        pytest.param({"attributes": [{"name": "classes", "strings": ["secret"]}]}, id="names"),
        pytest.param({"attributes": [{"name": "offset", "floats": [0.5] * 17}]}, id="a long list"),
        pytest.param({"domain": "ai.onnx.ml"}, id="an operator of classical models"),
    ],
)
def test_a_layer_with_a_part_of_a_model_is_left_out_and_named(changes: dict[str, Any]) -> None:
    """The other layers stay."""
    suite, operators = exportable(_suite(**changes))
    assert operators == ("Changed",)
    assert suite.layers.keys() == suite.bricks.keys() == {"Relu"}
    assert "secret" not in suite.model_dump_json()


def test_a_chain_with_such_a_layer_is_left_out() -> None:
    """A brick is exported whole or not at all."""
    graph = layer_graph(("Loop", [0], [1]), ("Relu", [1], [2]))
    loop = graph.layers["Loop"].model_copy(update={"attributes": [{"name": "body", "g": {}}]})
    graph = graph.model_copy(update={"layers": {**graph.layers, "Loop": loop}})
    suite, operators = exportable(compose_suite([graph], 2))
    assert operators == ("Loop",)
    assert (suite.layers, suite.bricks) == ({}, {})


@pytest.mark.parametrize(
    "attribute",
    [
        {"name": "kernel_shape", "ints": ["3", "3"]},
        {"name": "activation_params", "floats": [0.0, 6.0]},
        {"name": "activations", "strings": ["U2lnbW9pZA=="]},
    ],
    ids=lambda each: each["name"],
)
def test_settings_of_operators_stay(attribute: dict[str, Any]) -> None:
    """A layer takes as long elsewhere only with its settings."""
    before = _suite(attributes=[attribute])
    assert exportable(before) == (before, ())


def test_integer_weights_of_quantised_layers_lose_their_values() -> None:
    """Axes and shapes of other layers stay, which could not run without them."""
    weights = [
        LayerTensor(kind="Weight", datatype="UINT8", shape=[], values=[131]),
        LayerTensor(kind="Weight", datatype="INT8", shape=[64], lowest=-127, highest=126),
        LayerTensor(kind="Weight", datatype="INT32", shape=[2], values=[-4711, 4711]),
        LayerTensor(kind="Weight", datatype="INT64", shape=[1], values=[3]),
    ]
    suite, _ = exportable(_suite(inputs=weights))
    found = [(each.values, each.lowest, each.highest) for each in suite.layers["Changed"].inputs]
    assert found == [(None, None, None)] * 3 + [([3], None, None)]
    axes = [LayerTensor(kind="Weight", datatype="INT32", shape=[1], values=[2])]
    before = _suite(inputs=axes)
    assert exportable(before) == (before, ())
