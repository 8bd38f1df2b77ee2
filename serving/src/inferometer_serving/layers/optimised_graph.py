"""The graph that ONNX Runtime runs for a model, with the type of every tensor."""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from inferometer_api.layers.graph import LayerTensor, Layout
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.layers.layer_tensors import (
    add_sampling,
    describe_array,
    describe_value,
    graph_inputs,
    has_denormals,
    is_fractions,
    random_array,
    sample_of,
    sampled_name,
)
from inferometer_serving.model.onnx_refusals import refusal
from inferometer_serving.model.onnx_runtime import NO_PREPACKING
from inferometer_serving.options import Device
from inferometer_serving.temporary_disk import disk_advice, free_bytes

_OPTIMISED = "optimised.onnx"
_WEIGHTS = "weights.bin"
_SMALL_BYTES = 256
"""Larger weights stay out of the saved graph: nothing here reads them."""
_EXPONENTIALS = frozenset({"Exp", "Softmax"})
"""Operators that may turn ordinary numbers into denormal ones, which slow a CPU down."""
_TENSORS_PER_PASS = 200
"""As many tensors are kept at once; the memory that they take is that of no inference."""
MOST_SECONDS = 300.0
"""An inference that takes longer may never end: a loop can have no limit."""
_MOST_PASSES = 4
"""A graph of 100,000 nodes takes ten seconds to open."""
OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
LEVELS = {
    "Blocked": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "Plain": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}
FOLDER_OF_WEIGHTS = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """What the layers of a model depend on."""

    batch_size: int = 1
    threads: int = 1
    layout: Layout = "Blocked"
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Whole shapes of inputs with open axes other than the batch, by name."""
    device: Device = Device.CPU
    """Whose kernels the graph is optimised for."""

    @property
    def providers(self) -> list[str]:
        """ONNX Runtime's execution providers, by preference."""
        cpu = "CPUExecutionProvider"
        return [cpu] if self.device is Device.CPU else ["CUDAExecutionProvider", cpu]


@dataclass(frozen=True, slots=True)
class OptimisedGraph:
    """A graph as ONNX Runtime runs it."""

    model: ModelProto
    tensors: dict[str, LayerTensor]
    """Each activation, by its name in the graph."""


def optimise(graph: GraphFile, settings: GraphSettings) -> OptimisedGraph:
    """Return the graph that ONNX Runtime runs for queries of `batch_size` samples.

    The model runs once or a few times with seeded random inputs: every shape is known. Raises
    ModelRefusedError if an axis stays open, or it cannot run.
    """
    fixed = with_fixed_shapes(graph, settings)
    with tempfile.TemporaryDirectory(prefix="inferometer-layers-") as name:
        folder = Path(name)
        options = session_options(settings.threads, LEVELS[settings.layout])
        options.optimized_model_filepath = str(folder / _OPTIMISED)
        for key, value in {
            FOLDER_OF_WEIGHTS: str(graph.path.parent.resolve()),
            "session.optimized_model_external_initializers_file_name": _WEIGHTS,
            "session.optimized_model_external_initializers_min_size_in_bytes": str(_SMALL_BYTES),
        }.items():
            options.add_session_config_entry(key, value)
        try:
            _open(graph, fixed.SerializeToString(), options, settings)
        except ModelRefusedError as error:
            if free_bytes() > graph.size_bytes:
                raise
            raise ModelRefusedError(
                f"The optimised graph of the model {graph.path} cannot be written. {disk_advice()}"
            ) from error
        optimised = onnx.load(folder / _OPTIMISED, load_external_data=False)
        return OptimisedGraph(optimised, _tensors(graph, optimised, folder, settings))


def with_fixed_shapes(graph: GraphFile, settings: GraphSettings) -> ModelProto:
    """Return the model with fixed shapes; the batch size takes the place of an open first axis.

    Raises ModelRefusedError if another axis is open whose input has no given shape.
    """
    model = ModelProto()
    model.CopyFrom(graph.model)
    weights = {each.name for each in model.graph.initializer}
    for each in model.graph.input:
        given = settings.shapes.get(each.name, ())
        _check_tensor(each, graph, given)
        for number, axis in enumerate(each.type.tensor_type.shape.dim):
            if each.name in weights or axis.HasField("dim_value"):
                continue
            if number and number >= len(given):
                raise ModelRefusedError(
                    f"Axis {number} of the input '{each.name}' of the model {graph.path} is open, "
                    "and its layers depend on it: give the whole shape by --warm-up-shape "
                    f"{each.name}=..., or export the model with a fixed shape. Only the first "
                    "axis, the batch, may be open."
                )
            axis.dim_value = given[number] if number else settings.batch_size
    del model.graph.value_info[:]
    return model


def _check_tensor(value: ValueInfoProto, graph: GraphFile, given: Sequence[int]) -> None:
    """Give an input without a shape the given one.

    Raises ModelRefusedError if it has none, or is no tensor.
    """
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelRefusedError(
            f"The input '{value.name}' of the model {graph.path} is no tensor but a sequence, map "
            "or optional value, which cannot be made up: its layers cannot be found. Export the "
            "model with tensors as inputs."
        )
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        if not given:
            raise ModelRefusedError(
                f"The input '{value.name}' of the model {graph.path} has no shape, and its layers "
                f"depend on it: give the whole shape by --warm-up-shape {value.name}=..."
            )
        for size in given:
            tensor.shape.dim.add(dim_value=size)


def session_options(threads: int, level: Any = OFF) -> Any:
    """Return options of a session with so many threads and a level of optimisation."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = level
    return options


def _open(graph: GraphFile, model: bytes, options: Any, settings: GraphSettings) -> Any:
    if settings.device is Device.GPU:
        load_cuda_libraries()
    # Sessions that run once at most are open in half the time without packed weights.
    options.add_session_config_entry(NO_PREPACKING, "1")
    try:
        session = onnxruntime.InferenceSession(model, options, providers=settings.providers)
    except Exception as error:
        raise refusal(graph, settings.device, error) from error
    if settings.providers[0] not in session.get_providers():  # ONNX Runtime itself only warns
        raise ModelRefusedError(
            f"ONNX Runtime {onnxruntime.__version__} could not start {settings.providers[0]}: "
            "install the extra 'gpu' on a machine with an NVIDIA GPU, and check its driver and "
            "the CUDA libraries."
        )
    return session


def load_cuda_libraries() -> None:
    """Load what the CUDA provider needs from its Python packages, if they are installed."""
    with contextlib.redirect_stdout(sys.stderr):  # it prints what it misses
        onnxruntime.preload_dlls()


def _tensors(
    graph: GraphFile, optimised: ModelProto, folder: Path, settings: GraphSettings
) -> dict[str, LayerTensor]:
    """Return the inputs, and every tensor that the nodes compute, found by running the graph.

    The graph need not be run for fractions whose whole shape ONNX infers.
    """
    inference = _Inference(graph, optimised, folder, settings)
    tensors = inferred_fractions(optimised) | inference.inputs()
    names = [
        name
        for node in optimised.graph.node
        for name in node.output
        if name and name not in tensors
    ]
    size = max(_TENSORS_PER_PASS, -(-len(names) // _MOST_PASSES))
    for start in range(0, len(names), size):
        values = inference.run(names[start : start + size])
        tensors |= {name: describe_value(each) for name, each in values.items()}
    if settings.device is Device.CPU:
        tensors |= _with_samples(inference, tensors)
    return tensors


def _with_samples(
    inference: "_Inference", tensors: Mapping[str, LayerTensor]
) -> dict[str, LayerTensor]:
    """Return the tensors next to operators that compute denormal numbers, with samples.

    The graph runs once more if it has operators that may; it gathers the samples itself, so that
    no whole tensor is kept.
    """
    graph = inference.model.graph
    pairs = [
        (node.input[0], node.output[0])
        for node in graph.node
        if node.op_type in _EXPONENTIALS and is_fractions(tensors.get(node.input[0]))
    ]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    if not names:
        return {}
    for name in names:
        add_sampling(graph, name, prod(tensors[name].shape))
    values = inference.run(list(map(sampled_name, names)))
    samples = {name: sample_of(values[sampled_name(name)].numpy()) for name in names}
    return {
        name: tensors[name].model_copy(update={"sample": samples[name]})
        for pair in pairs
        if has_denormals(samples[pair[1]])
        for name in pair
    }


def inferred_fractions(model: ModelProto) -> dict[str, LayerTensor]:
    """Return the inner tensors of fractions whose whole shape ONNX infers without running them."""
    found = {}
    for each in onnx.shape_inference.infer_shapes(model).graph.value_info:
        tensor = each.type.tensor_type
        datatype = TensorProto.DataType.Name(tensor.elem_type)
        is_whole = tensor.HasField("shape") and all(
            axis.HasField("dim_value") for axis in tensor.shape.dim
        )
        if is_whole and "FLOAT" in datatype:
            shape = [axis.dim_value for axis in tensor.shape.dim]
            found[each.name] = LayerTensor(kind="Activation", datatype=datatype, shape=shape)
    return found


class _Inference:
    """An inference of a graph with seeded random inputs, of which any tensor can be had."""

    def __init__(
        self, graph: GraphFile, optimised: ModelProto, folder: Path, settings: GraphSettings
    ) -> None:
        self._graph = graph
        self._folder = folder
        self._settings = settings
        self.model = ModelProto()
        """A copy, to which nodes can be added."""
        self.model.CopyFrom(optimised)
        generator = np.random.default_rng(0)
        self._feeds = graph_inputs(optimised)
        try:
            self._arrays = {
                name: random_array(generator, each) for name, each in self._feeds.items()
            }
        except ValueError as error:
            raise ModelRefusedError(
                f"The layers of the model {graph.path} cannot be found: {error} Random inputs are "
                "numbers or truth values. Give a model whose inputs are."
            ) from error

    def inputs(self) -> dict[str, LayerTensor]:
        """Return the inputs with what their integers say."""
        return {
            name: describe_array(self._arrays[name], each.datatype)
            for name, each in self._feeds.items()
        }

    def run(self, names: Sequence[str]) -> dict[str, Any]:
        """Return these tensors. Raises ModelRefusedError if the graph cannot run or never ends."""
        graph, settings = self._graph, self._settings
        del self.model.graph.output[:]
        self.model.graph.output.extend(map(helper.make_empty_tensor_value_info, names))
        options = session_options(settings.threads)
        options.add_session_config_entry(FOLDER_OF_WEIGHTS, str(self._folder))
        session = _open(graph, self.model.SerializeToString(), options, settings)
        run_options = onnxruntime.RunOptions()
        limit = threading.Timer(MOST_SECONDS, setattr, (run_options, "terminate", True))
        limit.start()
        try:
            values = session.run_with_ort_values(
                list(names),
                {
                    name: onnxruntime.OrtValue.ortvalue_from_numpy(each)
                    for name, each in self._arrays.items()
                },
                run_options,
            )
        except Exception as error:
            if run_options.terminate:
                raise ModelRefusedError(
                    f"The layers of the model {graph.path} cannot be found: an inference with "
                    f"random inputs has not ended after {MOST_SECONDS:g} s. If it has a loop, give "
                    "the loop a limit."
                ) from error
            raise ModelRefusedError(
                f"The layers of the model {graph.path} cannot be found, since it fails with random "
                f"inputs: {' '.join(str(error).split())[:400]}"
            ) from error
        finally:
            limit.cancel()
        return dict(zip(names, values, strict=True))
