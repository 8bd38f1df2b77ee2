"""The work of a layer follows from its shapes and attributes."""

import pytest

from inferometer_analysis.layer_work import (
    element_bytes,
    flops_of,
    graph_layers,
    macs_of,
    moved_bytes,
)
from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor, LayerUse


def _tensor(*shape: int, kind: str = "Activation", datatype: str = "FLOAT") -> LayerTensor:
    return LayerTensor.model_validate({"kind": kind, "datatype": datatype, "shape": list(shape)})


def _layer(operator: str, *inputs: LayerTensor, output: LayerTensor, **attributes: int) -> Layer:
    return Layer(
        operator=operator,
        version=17,
        inputs=list(inputs),
        outputs=[output],
        attributes=[{"name": name, "i": str(value)} for name, value in attributes.items()],
    )


@pytest.mark.parametrize("attributes", [{}, {"dilations": 2}])
def test_the_holes_of_a_dilated_kernel_are_not_counted(attributes: dict[str, int]) -> None:
    """A convolution multiplies its weights alone, however far they lie apart."""
    layer = _layer(
        "Conv",
        _tensor(2, 6, 16, 16),
        _tensor(8, 3, 3, 3, kind="Weight"),
        output=_tensor(2, 8, 12, 12),
        **attributes,
    )
    assert macs_of(layer) == 2 * 8 * 12 * 12 * 3 * 3 * 3


def test_a_product_counts_its_inner_axis() -> None:
    """With transA the inner axis is the first one."""
    tensors = (_tensor(5, 2), _tensor(5, 7, kind="Weight"))
    assert macs_of(_layer("Gemm", *tensors, output=_tensor(2, 7), transA=1)) == 2 * 7 * 5
    plain = _layer("MatMul", _tensor(2, 5), _tensor(5, 7), output=_tensor(2, 7))
    assert macs_of(plain) == 2 * 7 * 5


def test_a_tensor_that_is_read_twice_moves_once() -> None:
    """4 bytes for each of 10 floats, read and written."""
    same = LayerTensor(kind="Activation", datatype="FLOAT", shape=[10], same_as=0)
    assert moved_bytes(_layer("Add", _tensor(10), same, output=_tensor(10))) == 80


def test_predecessors_views_and_what_cannot_run_alone() -> None:
    """Layers name those before them; a view is free, control flow and sequences are explained."""
    layers = {
        "relu": _layer("Relu", _tensor(4), output=_tensor(4)),
        "view": _layer("Reshape", _tensor(4), output=_tensor(2, 2)),
        "loop": _layer("Loop", _tensor(4), output=_tensor(4)).model_copy(
            update={"attributes": [{"name": "body", "g": {}}]}
        ),
        "split": _layer(
            "SplitToSequence", _tensor(4), output=_tensor(datatype="seq(tensor(float))")
        ),
    }
    uses = [
        LayerUse(layer="relu", inputs=[0], outputs=[1]),
        LayerUse(layer="view", inputs=[1], outputs=[2]),
        LayerUse(layer="loop", inputs=[2], outputs=[3], name="while"),
        LayerUse(layer="split", inputs=[3, 1], outputs=[4]),
    ]
    found = graph_layers(
        LayerGraph(
            model="m",
            model_sha256="0" * 64,
            engine="ONNX Runtime",
            engine_version="1",
            batch_size=1,
            layers=layers,
            uses=uses,
        )
    )
    assert [each.predecessors for each in found] == [(), (0,), (1,), (0, 2)]
    assert [each.is_view for each in found] == [False, True, False, False]
    assert [each.name for each in found] == ["Relu_0", "Reshape_1", "while", "SplitToSequence_3"]
    assert "control flow" in found[2].why_not
    assert "seq(tensor(float))" in found[3].why_not


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "flops"),
    [
        ("Conv", [[1, 3, 8, 8], [16, 3, 3, 3], [16]], [1, 16, 6, 6], 2 * 16 * 36 * 27),
        ("FusedConv", [[1, 8, 4, 4], [8, 1, 3, 3]], [1, 8, 4, 4], 2 * 128 * 9),
        ("ConvTranspose", [[1, 4, 5, 5], [4, 2, 2, 2]], [1, 2, 10, 10], 2 * 100 * 8),
        ("Gemm", [[2, 5], [5, 7], [7]], [2, 7], 2 * 70),
        ("Gemm", [[5, 2], [7, 5]], [2, 7], 2 * 70),
        ("FusedMatMul", [[3, 4, 5, 2], [3, 4, 5, 7]], [3, 4, 2, 7], 2 * 3 * 4 * 70),
        ("MatMul", [[5], [5, 7]], [7], 2 * 35),
        ("Relu", [[1, 8]], [1, 8], 0),
        ("Attention", [[1, 8, 8]], [1, 8, 8], None),
        ("MatMulNBits", [[1, 8], [8, 8]], [1, 8], None),
        ("Conv", [], [1, 8], None),
    ],
)
def test_flops_follow_from_the_shapes_of_a_layer_that_ran(
    operator: str, inputs: list[list[int]], output: list[int], flops: int | None
) -> None:
    """Transposed or not, with and without groups; operators without a formula have none."""
    assert flops_of(operator, inputs, output) == flops


def test_types_have_the_names_of_the_engine_or_of_onnx() -> None:
    """Bytes of a tensor are those of its type; an unknown one has none."""
    assert element_bytes("float", [2, 3]) == 24
    assert element_bytes("FLOAT16", [2, 3]) == 12
    assert element_bytes("tensor(int64)", []) == 8
    assert element_bytes("string", [1]) is None
