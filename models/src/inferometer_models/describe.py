"""Describes a light graph for the index of the zoo."""

import hashlib
import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships neither types nor stubs
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from inferometer_models.calibration import Calibration
from inferometer_models.errors import UnfitModelError
from inferometer_models.light import default_opset, set_checksum
from inferometer_models.structure import DATA_OPERATORS
from inferometer_models.weights import chunks, write_draws
from inferometer_models.zoo import DATA_SUFFIX, Shape

BATCH = "batch"
"""The name of the one dimension that may be open, the first."""

_SAMPLES = 4
_SAMPLE_SEED = 1
_TOKENS = 30_000
"""Every vocabulary of the zoo is larger."""

_DATATYPES: dict[int, str] = {
    TensorProto.BOOL: "BOOL",
    TensorProto.UINT8: "UINT8",
    TensorProto.INT8: "INT8",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.FLOAT16: "FP16",
    TensorProto.FLOAT: "FP32",
    TensorProto.DOUBLE: "FP64",
}


def compress(content: bytes) -> bytes:
    """Return an ONNX file as the zoo keeps it: xz, preset 9."""
    return lzma.compress(content, preset=9)


def random_samples(model: ModelProto) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return inputs like those that the load generator draws; several where the batch is open.

    Raises UnfitModelError.
    """
    declared = _only(model.graph.input, "input")
    shape = _at_batch(_declared_shape(declared), _SAMPLES)
    random = np.random.default_rng(_SAMPLE_SEED)
    dtype = _dtype(declared)
    if np.issubdtype(dtype, np.floating):
        return random.random(shape, np.float32).astype(dtype)
    return random.integers(0, _TOKENS, shape).astype(dtype)


def describe(
    model: ModelProto, calibration: Calibration, name: str, origin: str
) -> tuple[bytes, dict[str, str]]:
    """Return the ONNX file of a light graph, and its row by column, for the model "task/name".

    The output's shape is found by running the graph on zeros at batch 1 and, where the batch is
    open, 2: exporters often leave it unknown. Raises UnfitModelError.
    """
    task, _, bare_name = name.rpartition("/")
    data = b"".join(chunks(calibration.draws))
    weights_sha256 = hashlib.sha256(data).hexdigest()
    set_checksum(model, weights_sha256)
    content = model.SerializeToString(deterministic=True)
    declared_input = _only(model.graph.input, "input")
    declared_output = _only(model.graph.output, "output")
    input_shape = _declared_shape(declared_input)
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        path = Path(folder) / f"{bare_name}.onnx"
        path.write_bytes(content)
        path.with_name(f"{bare_name}{DATA_SUFFIX}").write_bytes(data)
        output_shape = _found_shape(path, input_shape, _dtype(declared_input))
    return content, {
        "name": bare_name,
        "task": task,
        "input_type": _datatype(declared_input),
        "input_shape": _written(input_shape),
        "output_type": _datatype(declared_output),
        "output_shape": _written(output_shape),
        "operators": str(_operators(model)),
        "parameters": str(calibration.parameters),
        "macs": str(calibration.macs),
        "opset": str(default_opset(model)),
        "onnx_bytes": str(len(content)),
        "xz_bytes": str(len(compress(content))),
        "sha256": hashlib.sha256(content).hexdigest(),
        "weights_bytes": str(len(data)),
        "weights_sha256": weights_sha256,
        "origin": origin,
        "weights": write_draws(calibration.draws),
    }


def _operators(model: ModelProto) -> int:
    """Count the top graph's nodes without those that only hold data."""
    return sum(node.op_type not in DATA_OPERATORS for node in model.graph.node)


def _only(values: Sequence[ValueInfoProto], name: str) -> ValueInfoProto:
    """Return the one value of `values`, which must be called `name`."""
    if [value.name for value in values] == [name]:
        return values[0]
    found = ", ".join(f'"{value.name}"' for value in values) or "none"
    raise UnfitModelError(
        f'A model of the zoo has one {name}, called "{name}"; this one has {found}. Export it so.'
    )


def _datatype(value: ValueInfoProto) -> str:
    number = value.type.tensor_type.elem_type
    if number in _DATATYPES:
        return _DATATYPES[number]
    raise UnfitModelError(
        f'"{value.name}" is of the ONNX type {TensorProto.DataType.Name(number)}; a model of the '
        f"zoo takes and gives one of {', '.join(_DATATYPES.values())}. Export it so."
    )


def _dtype(value: ValueInfoProto) -> np.dtype[np.generic]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _declared_shape(value: ValueInfoProto) -> Shape:
    """Return the declared shape, whose first dimension alone may be open, as "batch"."""
    dims = value.type.tensor_type.shape.dim
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else BATCH for dim in dims)
    if BATCH in shape[1:]:
        raise UnfitModelError(
            f'"{value.name}" has an open dimension besides the first, which is the batch. '
            "Fix all others when exporting."
        )
    return shape


def _found_shape(path: Path, input_shape: Shape, dtype: np.dtype[np.generic]) -> Shape:
    """Run the graph at batch 1, and at 2 if the batch is open: what doubles is the batch."""
    one, two = (_run(path, np.zeros(_at_batch(input_shape, batch), dtype)) for batch in (1, 2))
    dims = zip(one, two, strict=False)
    shape: Shape = tuple(BATCH if pair == (1, 2) else pair[0] for pair in dims)
    if _at_batch(shape, 1) != one or _at_batch(shape, 2) != two:
        raise UnfitModelError(
            f"The output has the shape {_written(one)} at batch 1 and {_written(two)} at batch 2. "
            "Export a model whose output has one entry for each sample."
        )
    return shape


def _run(path: Path, sample: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Shape:
    """Return the shape of the output for one input."""
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        output = session.run(None, {"input": sample})[0]
    except Exception as error:  # ONNX Runtime's errors share no nearer class
        raise UnfitModelError(
            f"ONNX Runtime {onnxruntime.__version__} cannot run the graph on zeros of the shape "
            f"{_written(sample.shape)} ({error}). Export it for a version that this one knows."
        ) from error
    return tuple(output.shape)


def _at_batch(shape: Shape, batch: int) -> tuple[int, ...]:
    return tuple(batch if isinstance(dim, str) else dim for dim in shape)


def _written(shape: Shape) -> str:
    return "x".join(map(str, shape))
