"""Layers and whole models by ONNX Runtime's CUDA provider, with all tensors on the GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto, helper

from inferometer_api.layers.graph import LayerTensor
from inferometer_models.graph_file import GraphFile
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.brick_model import BrickModel
from inferometer_serving.layers.layer_tensors import graph_inputs, number_of_datatype, random_array
from inferometer_serving.layers.optimised_graph import (
    FOLDER_OF_WEIGHTS,
    LEVELS,
    GraphSettings,
    session_options,
    with_fixed_shapes,
)

CUDA = "CUDAExecutionProvider"
_MEMORY = {CUDA: "cuda", "CPUExecutionProvider": "cpu"}
_NO_FALLBACK = "session.disable_cpu_ep_fallback"


@dataclass(frozen=True, slots=True)
class CudaChoices:
    """How the CUDA provider is to compute."""

    allows_tf32: bool = True
    uses_graph: bool = False
    """Whether the whole inference is launched as one CUDA graph."""
    channels_last: bool = False
    provider: str = CUDA
    """Another one only to try this code without a GPU."""

    @property
    def providers(self) -> list[Any]:
        """The providers with their options, as a session takes them."""
        if self.provider != CUDA:
            return [self.provider]
        options = {
            "use_tf32": str(int(self.allows_tf32)),
            "enable_cuda_graph": str(int(self.uses_graph)),
            "prefer_nhwc": str(int(self.channels_last)),
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "arena_extend_strategy": "kSameAsRequested",
        }
        return [(self.provider, options)]


@dataclass(slots=True)
class DeviceSession:
    """A session whose inputs and outputs lie on the GPU."""

    session: Any
    feeds: Mapping[str, Array]
    outputs: Mapping[str, LayerTensor | None]
    """None: ONNX Runtime takes the memory itself."""
    provider: str = CUDA
    inputs: tuple[Any, ...] = ()
    """In host memory, none."""
    _binding: Any = field(init=False)
    _kept: list[Any] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._binding = self.session.io_binding()
        memory = _MEMORY[self.provider]
        for name, array in self.feeds.items():
            self._kept.append(onnxruntime.OrtValue.ortvalue_from_numpy(array, memory, 0))
            self._binding.bind_ortvalue_input(name, self._kept[-1])
        for name, tensor in self.outputs.items():
            if tensor is None or not tensor.shape:
                self._binding.bind_output(name, memory, 0)
                continue
            dtype = helper.tensor_dtype_to_np_dtype(number_of_datatype(tensor.datatype))
            self._kept.append(
                onnxruntime.OrtValue.ortvalue_from_shape_and_type(tensor.shape, dtype, memory, 0)
            )
            self._binding.bind_ortvalue_output(name, self._kept[-1])

    def run(self) -> None:
        """Run it once, to its end on the GPU."""
        self.session.run_with_iobinding(self._binding)

    @property
    def version(self) -> str:
        """The version of ONNX Runtime."""
        return str(onnxruntime.__version__)

    def results(self) -> list[Array]:
        """Return the outputs of the last run."""
        found: list[Array] = self._binding.copy_outputs_to_cpu()
        return found


def open_layer(made: BrickModel, choices: CudaChoices) -> DeviceSession:
    """Return a session of one layer, which must run on the GPU.

    Raises Exception if ONNX Runtime has no kernel for it there.
    """
    options = session_options(1, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    if choices.provider == CUDA:
        options.add_session_config_entry(_NO_FALLBACK, "1")
    session = onnxruntime.InferenceSession(
        made.whole().SerializeToString(), options, providers=choices.providers
    )
    return DeviceSession(session, made.inputs, made.outputs, choices.provider)


def open_whole(graph: GraphFile, settings: GraphSettings, choices: CudaChoices) -> DeviceSession:
    """Return a session of a whole model; what the GPU has no kernel for runs on the CPU."""
    options = session_options(settings.threads, LEVELS["Blocked"])
    options.add_session_config_entry(FOLDER_OF_WEIGHTS, str(graph.path.parent.resolve()))
    model = with_fixed_shapes(graph, settings)
    providers = choices.providers
    if choices.provider == CUDA:
        providers.append("CPUExecutionProvider")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    if choices.provider not in session.get_providers():
        raise RuntimeError(f"ONNX Runtime could not start {choices.provider}.")
    generator = np.random.default_rng(0)
    feeds = {name: random_array(generator, each) for name, each in graph_inputs(model).items()}
    outputs = {each.name: _known_output(each) for each in session.get_outputs()}
    if choices.uses_graph and None in outputs.values():
        raise RuntimeError("The shape of an output is not known, which a CUDA graph needs.")
    return DeviceSession(session, feeds, outputs, choices.provider)


_DATATYPES = {
    f"tensor({theirs})": TensorProto.DataType.Name(number)
    for theirs, number in {
        "bool": TensorProto.BOOL,
        "double": TensorProto.DOUBLE,
        "float": TensorProto.FLOAT,
        "float16": TensorProto.FLOAT16,
        "int32": TensorProto.INT32,
        "int64": TensorProto.INT64,
        "uint8": TensorProto.UINT8,
    }.items()
}


def _known_output(output: Any) -> LayerTensor | None:
    """Return the type and shape of an output; None if its shape is open."""
    shape = list(output.shape or ())
    if output.type not in _DATATYPES or not all(isinstance(each, int) for each in shape):
        return None
    return LayerTensor(kind="Activation", datatype=_DATATYPES[output.type], shape=shape)
