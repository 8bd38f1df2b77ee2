"""The tiny ONNX models that the tests serve."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnx.external_data_helper import set_external_data

type_of_datatype = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
"""The ONNX element type of each datatype of the Open Inference Protocol."""

Shape = Sequence[int | str | None]


def save(model: ModelProto, path: Path) -> Path:
    """Write `model` to `path` and return the path."""
    path.write_bytes(model.SerializeToString())
    return path


def identity(datatype: str = "FP32", shape: Shape = ("batch", 4)) -> ModelProto:
    """Build a model `y = x` of one datatype; strings name open axes."""
    node = helper.make_node("Identity", ["x"], ["y"], name="copy")
    return _model([node], [_tensor("x", datatype, shape)], [_tensor("y", datatype, shape)])


def copies(datatypes: Sequence[str]) -> ModelProto:
    """Build a model that copies input `in_FP32` to `out_FP32`, and so on for each datatype."""
    shape = ("batch", 3)
    nodes = [
        helper.make_node("Identity", [f"in_{each}"], [f"out_{each}"], name=f"copy_{each}")
        for each in datatypes
    ]
    inputs = [_tensor(f"in_{each}", each, shape) for each in datatypes]
    outputs = [_tensor(f"out_{each}", each, shape) for each in datatypes]
    return _model(nodes, inputs, outputs)


def add(shape: Shape = ("batch", 4)) -> ModelProto:
    """Build a model `sum = left + right` on FP32."""
    node = helper.make_node("Add", ["left", "right"], ["sum"], name="add")
    inputs = [_tensor("left", "FP32", shape), _tensor("right", "FP32", shape)]
    return _model([node], inputs, [_tensor("sum", "FP32", shape)])


def fixed_batch(batch: int = 2, width: int = 3) -> ModelProto:
    """Build a model `y = -x` on FP32 whose shape is fixed to [batch, width]."""
    node = helper.make_node("Neg", ["x"], ["y"], name="negate")
    shape = (batch, width)
    return _model([node], [_tensor("x", "FP32", shape)], [_tensor("y", "FP32", shape)])


def several_outputs() -> ModelProto:
    """Build a model of two FP32 inputs with outputs `sum`, `difference` and INT64 `whole`."""
    shape = ("batch", 4)
    nodes = [
        helper.make_node("Add", ["left", "right"], ["sum"], name="add"),
        helper.make_node("Sub", ["left", "right"], ["difference"], name="subtract"),
        helper.make_node("Cast", ["sum"], ["whole"], name="cast", to=TensorProto.INT64),
    ]
    outputs = [
        _tensor("sum", "FP32", shape),
        _tensor("difference", "FP32", shape),
        _tensor("whole", "INT64", shape),
    ]
    inputs = [_tensor("left", "FP32", shape), _tensor("right", "FP32", shape)]
    return _model(nodes, inputs, outputs)


def open_axes() -> ModelProto:
    """Build a model that averages an FP32 image [batch, 3, height, width] to [batch, 3, 1, 1]."""
    node = helper.make_node("GlobalAveragePool", ["image"], ["mean"], name="pool")
    inputs = [_tensor("image", "FP32", ("batch", 3, "height", "width"))]
    return _model([node], inputs, [_tensor("mean", "FP32", ("batch", 3, 1, 1))])


def unsupported_operator() -> ModelProto:
    """Build a model with an operator that no runtime has: com.example:Frobnicate."""
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="com.example")
    shape = ("batch", 4)
    graph = helper.make_graph(
        [node], "odd", [_tensor("x", "FP32", shape)], [_tensor("y", "FP32", shape)]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def zip_map() -> ModelProto:
    """Build a classifier as converters do: its output is a sequence of maps, made by a ZipMap."""
    node = helper.make_node(
        "ZipMap", ["x"], ["y"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3]
    )
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    by_class = helper.make_map_type_proto(TensorProto.INT64, number)
    model = _model(
        [node],
        [_tensor("x", "FP32", ("batch", 4))],
        [helper.make_value_info("y", helper.make_sequence_type_proto(by_class))],
    )
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return model


def sequence() -> ModelProto:
    """Build a model whose output is a sequence of two tensors."""
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"], name="both")
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 4])
    output = helper.make_value_info("y", helper.make_sequence_type_proto(tensor))
    return _model([node], [_tensor("x", "FP32", ("batch", 4))], [output])


def sequence_input() -> ModelProto:
    """Build a model whose input is a sequence of tensors, of which it returns the first."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 4])
    given = helper.make_value_info("x", helper.make_sequence_type_proto(tensor))
    first = numpy_helper.from_array(np.array(0, dtype=np.int64), "first")
    node = helper.make_node("SequenceAt", ["x", "first"], ["y"], name="at")
    return _model([node], [given], [_tensor("y", "FP32", ("batch", 4))], weights=[first])


def relu_of_opset_1() -> ModelProto:
    """Build a model with an operator in a version that ONNX Runtime does not implement."""
    shape = ("batch", 4)
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    model = _model([node], [_tensor("x", "FP32", shape)], [_tensor("y", "FP32", shape)])
    model.opset_import[0].version = 1
    return model


def with_versions(opset: int | None = 17, ir_version: int = 8) -> ModelProto:
    """Build a model `y = x` of these versions of the operator set, if any, and of the format."""
    model = identity()
    del model.opset_import[:]
    if opset is not None:
        model.opset_import.append(helper.make_opsetid("", opset))
    model.ir_version = ir_version
    return model


def busy(trips: int = 1000, width: int = 64) -> ModelProto:
    """Build a model `y = x` [batch, width] that is slow on demand: it multiplies `trips` matrices.

    One trip of the default width costs about 5 us on one core.
    """
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"], name="go"),
            helper.make_node("MatMul", ["state", "eye"], ["product"], name="multiply"),
        ],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [width, width]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("product", TensorProto.FLOAT, [width, width]),
        ],
    )
    nodes = [
        helper.make_node("Loop", ["trips", "go", "eye"], ["last"], name="loop", body=body),
        helper.make_node("MatMul", ["x", "last"], ["y"], name="apply"),
    ]
    weights = [
        numpy_helper.from_array(np.eye(width, dtype=np.float32), "eye"),
        numpy_helper.from_array(np.array(trips, dtype=np.int64), "trips"),
        numpy_helper.from_array(np.array(True), "go"),
    ]
    shape = ("batch", width)
    return _model(
        nodes, [_tensor("x", "FP32", shape)], [_tensor("y", "FP32", shape)], weights=weights
    )


def picks(rows: int = 4) -> ModelProto:
    """Build a model that picks rows of a table: `y[i] = [10 * x[i], 10 * x[i] + 1]`, INT64 to FP32.

    It fails where an element of `x` is not from 0 to `rows` less one.
    """
    table = np.array([[10 * row, 10 * row + 1] for row in range(rows)], dtype=np.float32)
    node = helper.make_node("Gather", ["table", "x"], ["y"], name="pick")
    inputs = [_tensor("x", "INT64", ("batch",))]
    outputs = [_tensor("y", "FP32", ("batch", 2))]
    weights = [numpy_helper.from_array(table, "table")]
    return _model([node], inputs, outputs, weights=weights)


def cast(source: str, target: str) -> ModelProto:
    """Build a model that casts input `x` [batch, 3] of one datatype to `y` of another."""
    code = type_of_datatype[target]
    node = helper.make_node("Cast", ["x"], ["y"], name="cast", to=code)
    shape = ("batch", 3)
    return _model([node], [_tensor("x", source, shape)], [_tensor("y", target, shape)])


def spread(width: int = 65536) -> ModelProto:
    """Build a model that repeats the one FP32 number of `x` [1] to `y` [width]."""
    node = helper.make_node("Expand", ["x", "shape"], ["y"], name="expand")
    weights = [numpy_helper.from_array(np.array([width], dtype=np.int64), "shape")]
    return _model(
        [node], [_tensor("x", "FP32", (1,))], [_tensor("y", "FP32", (width,))], weights=weights
    )


def non_zero() -> ModelProto:
    """Build a model that gives the places [1, n] where its FP32 input `x` [4] is not zero."""
    node = helper.make_node("NonZero", ["x"], ["places"], name="places")
    return _model([node], [_tensor("x", "FP32", (4,))], [_tensor("places", "INT64", (1, None))])


def open_trips() -> ModelProto:
    """Build a model that counts to its INT64 input `trips` [1]: as slow as a request sets.

    A million trips take about a second and a half; none take none.
    """
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"], name="go"),
            helper.make_node("Add", ["state", "one"], ["next"], name="count"),
        ],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.INT64, [1]),
        ],
    )
    nodes = [
        helper.make_node("Squeeze", ["trips"], ["limit"], name="squeeze"),
        helper.make_node("Loop", ["limit", "go", "zero"], ["count"], name="loop", body=body),
    ]
    weights = [
        numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
        numpy_helper.from_array(np.array([0], dtype=np.int64), "zero"),
        numpy_helper.from_array(np.array(True), "go"),
    ]
    inputs = [_tensor("trips", "INT64", (1,))]
    return _model(nodes, inputs, [_tensor("count", "INT64", (1,))], weights=weights)


def write_with_external_data(folder: Path, location: str = "weights.bin") -> Path:
    """Write a model `y = x + [1, 2, 3, 4]` whose weights lie in a file next to it.

    The weights go to `folder / "weights.bin"`; `location` is what the model says of their place.
    """
    weights = np.arange(1, 5, dtype=np.float32)
    tensor = numpy_helper.from_array(weights, "weights")
    set_external_data(tensor, location=location, offset=0, length=weights.nbytes)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    (folder / "weights.bin").write_bytes(weights.tobytes())
    node = helper.make_node("Add", ["x", "weights"], ["y"], name="add")
    shape = ("batch", 4)
    inputs = [_tensor("x", "FP32", shape)]
    model = _model([node], inputs, [_tensor("y", "FP32", shape)], weights=[tensor])
    return save(model, folder / "model.onnx")


def _tensor(name: str, datatype: str, shape: Shape) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, type_of_datatype[datatype], list(shape))


def _model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    *,
    weights: Sequence[TensorProto] = (),
) -> ModelProto:
    graph: GraphProto = helper.make_graph(
        list(nodes), "test", list(inputs), list(outputs), initializer=list(weights)
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
