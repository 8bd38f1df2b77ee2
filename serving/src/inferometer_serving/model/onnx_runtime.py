"""The engine ONNX Runtime."""

import contextlib
import ctypes
import json
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.infer.datatypes import BY_RUNTIME_NAME, DATATYPES
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.cuda_graph import CudaGraphRunner
from inferometer_serving.model.onnx_refusals import refusal
from inferometer_serving.model.placement import (
    AssignedNode,
    GraphPlacement,
    placement,
    work_depends_on_values,
)
from inferometer_serving.model.precision import precisions_of
from inferometer_serving.model.prepacked_weights import check_prepacked
from inferometer_serving.model.session import EngineSettings, Interrupt, Runner, Session
from inferometer_serving.options import Device, Provider

_OPENING_PARTS = {"model_loading_uri": "parse", "session_initialization": "initialise"}
"""Events of the profiler. Initialisation optimises the graph and prepacks the weights."""
_LOG_FATAL_ONLY = 4  # every error reaches us as an exception, whose sentence is enough
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_PROVIDERS = {
    Provider.CPU: _CPU,
    Provider.XNNPACK: "XnnpackExecutionProvider",
    Provider.CUDA: _CUDA,
    Provider.TENSORRT: "TensorrtExecutionProvider",
    Provider.OPENVINO: "OpenVINOExecutionProvider",
}
_NAMES = {theirs: ours.value for ours, theirs in _PROVIDERS.items()}
_LEVELS = {
    "Disabled": "ORT_DISABLE_ALL",
    "Basic": "ORT_ENABLE_BASIC",
    "Extended": "ORT_ENABLE_EXTENDED",
    "All": "ORT_ENABLE_ALL",
}
_CUDA_CHOICES = {
    "cuda_graph": "enable_cuda_graph",
    "channels_last": "prefer_nhwc",
    "tf32": "use_tf32",
}
"""Choices of OnnxRuntimeChoices, as options of the CUDA provider."""
NO_PREPACKING = "session.disable_prepacking"
_NOT_IN_CUDA_GRAPHS = frozenset({"BF16", "BYTES"})
_SPINNING = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning")


def load(graph: GraphFile, settings: EngineSettings, interrupt: Interrupt) -> Session:
    """Load a model with intra-operator threads on its device.

    The precision is that of the model's own tensors, whichever is requested. Raises
    ModelRefusedError if the device is not there, an operator is not supported, or the model is
    otherwise not for this engine.
    """
    check_prepacked(graph)
    wanted = _provider(settings)
    options, end_sharing, sharing = _options_and_weights(graph, wanted, settings)
    run_options: list[Any] = []

    def new_run_options() -> Any:
        made = onnxruntime.RunOptions()
        made.log_severity_level = _LOG_FATAL_ONLY
        made.terminate = interrupt.is_set
        run_options.append(made)
        return made

    def interrupt_calls() -> None:
        options.set_load_cancellation_flag(True)
        for each in run_options:
            each.terminate = True

    interrupt.add(interrupt_calls)
    try:
        session, parts = _open(
            graph, options, _providers(wanted, settings), is_timed=settings.times_opening
        )
    except Exception as error:
        if end_sharing is not None:
            end_sharing()
        raise refusal(graph, settings.device, error) from error
    if end_sharing is not None:
        # At the end of the process the memory goes with it.
        weakref.finalize(session, end_sharing).atexit = False
    _check_provider(session, wanted)
    placed = placement(_assigned(session), wanted, graph.model)
    if settings.device is Device.CPU:
        placed = replace(placed, compute_nodes_fell_back=0)  # a provider may take a part
    signature = _signature(graph, session)
    return Session(
        runner=_runner(graph, session, signature, new_run_options),
        signature=signature,
        providers=tuple(session.get_providers()),
        placement=placed,
        work_depends_on_values=work_depends_on_values(graph.model),
        runtime_version=str(onnxruntime.__version__),
        threads=settings.threads,
        precisions=precisions_of(graph.model),
        facts={**_effective(session, wanted, placed), **sharing},
        unload=lambda: interrupt.remove(interrupt_calls),
        opening_microseconds=parts,
    )


def _options_and_weights(
    graph: GraphFile, wanted: str, settings: EngineSettings
) -> tuple[Any, Callable[[], None] | None, dict[str, str]]:
    """Return options, what ends the use of shared weights, and the fact of whose they are."""

    def new_options() -> Any:
        options = session_options(settings)
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        return options

    if settings.weight_broker is None:
        return new_options(), None, {}
    # It uses CUDA's memory and private names of ONNX Runtime.
    from inferometer_serving.model import shared_weights  # noqa: PLC0415

    if wanted != _CUDA:
        reason = f"The provider is {_NAMES[wanted]}, not CUDA."
        return new_options(), None, shared_weights.not_shared(reason)
    return shared_weights.share_or_own(graph, new_options, settings.weight_broker)


def open_profiled(path: str, settings: EngineSettings, prefix: str) -> Any:
    """Return a session that writes its profile to a file of this prefix.

    It computes where `load`'s would. Raises ModelRefusedError if the device is not there.
    """
    wanted = _provider(settings)
    options = session_options(settings)
    options.enable_profiling = True
    options.profile_file_prefix = prefix
    session = onnxruntime.InferenceSession(
        path, options, providers=_providers(wanted, settings), enable_fallback=0
    )
    _check_provider(session, wanted)
    return session


def _open(
    graph: GraphFile, options: Any, providers: list[Any], *, is_timed: bool
) -> tuple[Any, dict[str, int]]:
    """Return a session, and the microseconds of its parts if these are timed.

    The profiler times them. It ends before the first inference.
    """

    def open_session() -> Any:
        return onnxruntime.InferenceSession(
            str(graph.path), options, providers=providers, enable_fallback=0
        )

    if not is_timed:
        return open_session(), {}
    with tempfile.TemporaryDirectory(prefix="inferometer-opening-") as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "opening")
        session = open_session()
        events = json.loads(Path(session.end_profiling()).read_bytes())
    return session, {
        _OPENING_PARTS[event["name"]]: int(event["dur"])
        for event in events
        if event.get("name") in _OPENING_PARTS
    }


def session_options(settings: EngineSettings) -> Any:
    """Return the options of every session that computes with these settings."""
    options = onnxruntime.SessionOptions()
    choices = settings.onnx_runtime
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = choices.inter_op_threads
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, _LEVELS[choices.graph_optimization]
    )
    options.execution_mode = getattr(
        onnxruntime.ExecutionMode, f"ORT_{choices.execution_mode.upper()}"
    )
    options.enable_cpu_mem_arena = choices.arena
    for entry in _SPINNING:
        options.add_session_config_entry(entry, str(int(choices.spinning)))
    options.add_session_config_entry(NO_PREPACKING, str(int(not choices.prepacking)))
    options.log_severity_level = _LOG_FATAL_ONLY
    return options


def _effective(session: Any, wanted: str, placed: GraphPlacement) -> dict[str, str]:
    """Return the choices that the session has; a provider without a node is not used."""
    options = session.get_session_options()
    levels = {getattr(onnxruntime.GraphOptimizationLevel, v): k for k, v in _LEVELS.items()}
    is_used = placed.nodes_by_provider.get(wanted, 0) > 0
    mode = str(options.execution_mode).rpartition("ORT_")[2].capitalize()
    return {
        "provider": _NAMES[wanted if is_used else _CPU],
        "graph_optimization": levels[options.graph_optimization_level],
        "execution_mode": mode,
        "inter_op_threads": str(options.inter_op_num_threads),
        "arena": _on_or_off(options.enable_cpu_mem_arena),
        "prepacking": _on_or_off(options.get_session_config_entry(NO_PREPACKING) == "0"),
        "spinning": _on_or_off(options.get_session_config_entry(_SPINNING[0]) == "1"),
        **_choices_of_cuda(session),
    }


def _choices_of_cuda(session: Any) -> dict[str, str]:
    """Return the choices that the CUDA provider has; none without it."""
    options = session.get_provider_options().get(_CUDA)
    if options is None:
        return {}
    return {ours: _on_or_off(options.get(theirs) == "1") for ours, theirs in _CUDA_CHOICES.items()}


def _on_or_off(value: bool) -> str:  # noqa: FBT001 - the value is the subject
    return "on" if value else "off"


def _providers(wanted: str, settings: EngineSettings) -> list[Any]:
    """Return the providers by preference; each falls back to the ones behind it."""
    if wanted == _CPU:
        return [_CPU]
    if wanted == _PROVIDERS[Provider.XNNPACK]:
        # It has threads of its own.
        return [(wanted, {"intra_op_num_threads": str(settings.threads)}), _CPU]
    if wanted == _CUDA:
        choices = settings.onnx_runtime
        made = {theirs: str(int(getattr(choices, ours))) for ours, theirs in _CUDA_CHOICES.items()}
        return [(wanted, made), _CPU]
    return [wanted, _CUDA, _CPU] if wanted == _PROVIDERS[Provider.TENSORRT] else [wanted, _CPU]


def _provider(settings: EngineSettings) -> str:
    device, chosen = settings.device, settings.onnx_runtime.provider
    available = onnxruntime.get_available_providers()
    if chosen is not Provider.DEFAULT and _PROVIDERS[chosen] not in available:
        has = ", ".join(_NAMES.get(each, each) for each in available)
        raise ModelRefusedError(
            f"The provider {chosen} was requested, but ONNX Runtime {onnxruntime.__version__} has "
            f"only {has} here: use one of these, or install a build with {chosen}."
        )
    if device is Device.CPU:
        return _PROVIDERS.get(chosen, _CPU)
    if _CUDA not in available:
        raise ModelRefusedError(
            f"The device GPU was requested, but ONNX Runtime {onnxruntime.__version__} has only "
            f"{', '.join(available)} here: install the extra 'gpu' on a machine with an NVIDIA "
            "GPU, or set the device to CPU."
        )
    with contextlib.redirect_stdout(sys.stderr):  # it prints what it misses
        onnxruntime.preload_dlls()
    return _PROVIDERS.get(chosen, _CUDA)


def _check_provider(session: Any, wanted: str) -> None:
    """Refuse a session that went without the provider: ONNX Runtime itself only warns."""
    found = session.get_providers()
    if wanted not in found:
        raise ModelRefusedError(
            f"ONNX Runtime could not start {wanted}, which the device or the provider needs, and "
            f"fell back to {', '.join(found)}: check the GPU, its driver and the CUDA libraries, "
            "or use the device CPU and its provider CPU."
        )


def _assigned(session: Any) -> Iterator[AssignedNode]:
    for subgraph in session.get_provider_graph_assignment_info():
        for node in subgraph.get_nodes():
            yield AssignedNode(node.name, node.op_type, subgraph.ep_name)


def _signature(graph: GraphFile, session: Any) -> Signature:
    return Signature(
        inputs=tuple(_spec(graph, "input", each) for each in session.get_inputs()),
        outputs=tuple(_spec(graph, "output", each) for each in session.get_outputs()),
    )


def _spec(graph: GraphFile, kind: str, argument: Any) -> TensorSpec:
    datatype = BY_RUNTIME_NAME.get(argument.type)
    if datatype is None:
        raise ModelRefusedError(
            f"The {kind} '{argument.name}' of the model {graph.path} is of type {argument.type}, "
            f"which the Open Inference Protocol lacks: it has tensors of {', '.join(DATATYPES)}."
            f"{_remedy_for_type(kind, argument.type)}"
        )
    shape = tuple(
        each if isinstance(each, int) and each >= 0 else -1 for each in argument.shape or ()
    )
    return TensorSpec(argument.name, datatype, shape)


def _remedy_for_type(kind: str, found: str) -> str:
    if found.startswith(("seq(map(", "map(")):
        return (
            " It comes from a ZipMap, which converters add to classifiers: convert the model again "
            "without it (skl2onnx: options={'zipmap': False})."
        )
    if found.startswith(("seq(", "optional(")):
        return f" Export the model so that each {kind} is one tensor."
    return ""


def _runner(
    graph: GraphFile, session: Any, signature: Signature, new_run_options: Callable[[], Any]
) -> Runner:
    if _choices_of_cuda(session).get("cuda_graph") == "on":
        return _graph_runner(graph, session, signature, new_run_options)
    run_options = new_run_options()
    if not any(each.datatype.name == "BF16" for each in signature.outputs):
        return _ArrayRunner(session, signature, run_options)
    if any(each.datatype.name == "BYTES" for each in signature.inputs):
        raise ModelRefusedError(
            f"The model {graph.path} takes BYTES and gives BF16, which ONNX Runtime cannot do in "
            "one call from Python: let the model cast its BF16 outputs to FP32."
        )
    return _ValueRunner(session, signature, run_options)


def _graph_runner(
    graph: GraphFile, session: Any, signature: Signature, new_run_options: Callable[[], Any]
) -> Runner:
    for each in (*signature.inputs, *signature.outputs):
        if each.datatype.name in _NOT_IN_CUDA_GRAPHS:
            raise ModelRefusedError(
                f"The tensor '{each.name}' of the model {graph.path} is {each.datatype.name}: "
                "a CUDA graph cannot have it, so set cudaGraph to false."
            )
    return CudaGraphRunner(session, new_run_options)


class _ArrayRunner:
    """Hands numpy arrays to ONNX Runtime, which reads them in place, and gets arrays back."""

    def __init__(self, session: Any, signature: Signature, run_options: Any) -> None:
        self._run = session.run
        self._options = run_options
        self._bf16 = [each.name for each in signature.inputs if each.datatype.name == "BF16"]

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        given: dict[str, Any] = inputs
        if self._bf16:
            given = {**inputs, **{name: _bf16_value(inputs[name]) for name in self._bf16}}
        results: list[Array] = self._run(output_names, given, self._options)
        return results


class _ValueRunner:
    """Gets OrtValues back: ONNX Runtime gives BF16 in no other form, since numpy has no such."""

    def __init__(self, session: Any, signature: Signature, run_options: Any) -> None:
        self._session = session
        self._signature = signature
        self._options = run_options

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        values = {name: self._value(name, array) for name, array in inputs.items()}
        results = self._session.run_with_ort_values(output_names, values, self._options)
        return [_array(each) for each in results]

    def _value(self, name: str, array: Array) -> Any:
        if self._signature.input_by_name[name].datatype.name == "BF16":
            return _bf16_value(array)
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _bf16_value(array: Array) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        array.view(np.uint16), TensorProto.BFLOAT16
    )


def _array(value: Any) -> Array:
    if value.element_type() != TensorProto.BFLOAT16:
        array: Array = value.numpy()
        return array
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, dtype=DATATYPES["BF16"].dtype).reshape(value.shape())
