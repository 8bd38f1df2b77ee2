"""Gives ONNX Runtime weights that lie in shared memory, without a copy."""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import structlog
from onnx import TensorProto
from onnxruntime.capi import _pybind_state  # type: ignore[import-untyped]

from inferometer_models.graph_file import GraphFile
from inferometer_serving.gpu.broker.client import WeightsNotSharedError, open_weights
from inferometer_serving.gpu.broker.layout import Extent
from inferometer_serving.gpu.device import GpuUnavailableError
from inferometer_serving.gpu.shared_memory import open_gpu_memory

CPU_DEVICE, CUDA_DEVICE = 1, 2
"""DLPack's names of devices."""
_CAPSULE_NAME = b"dltensor"
"""A capsule keeps the address of its name."""
_INTEGER, _UNSIGNED, _FLOAT, _BFLOAT = 0, 1, 2, 4
_TYPES: dict[int, tuple[int, int]] = {
    TensorProto.FLOAT: (_FLOAT, 32),
    TensorProto.FLOAT16: (_FLOAT, 16),
    TensorProto.DOUBLE: (_FLOAT, 64),
    TensorProto.BFLOAT16: (_BFLOAT, 16),
    TensorProto.INT8: (_INTEGER, 8),
    TensorProto.INT16: (_INTEGER, 16),
    TensorProto.INT32: (_INTEGER, 32),
    TensorProto.INT64: (_INTEGER, 64),
    TensorProto.UINT8: (_UNSIGNED, 8),
    TensorProto.UINT16: (_UNSIGNED, 16),
    TensorProto.UINT32: (_UNSIGNED, 32),
    TensorProto.UINT64: (_UNSIGNED, 64),
    TensorProto.BOOL: (_UNSIGNED, 8),
}
"""DLPack's codes and bits of the types that ONNX Runtime takes; other tensors are not shared."""


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _ManagedTensor(ctypes.Structure):
    """DLManagedTensor of DLPack 0.8, which ONNX Runtime reads."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("type", _DataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class SharedInitializers:
    """What a session needs for as long as it lives."""

    values: tuple[Any, ...]
    size_bytes: int
    is_hit: bool
    """Whether the broker had the weights already."""
    stack: ExitStack

    def close(self) -> None:
        """Give up the memory, once the session has gone."""
        self.stack.close()


def share_or_own(
    graph: GraphFile, new_options: Callable[[], Any], folder: Path
) -> tuple[Any, Callable[[], None] | None, dict[str, str]]:
    """Return options, what ends the use of a broker's weights, and the fact of whose they are.

    `folder` has the brokers' sockets. A model whose weights cannot be shared loads its own.
    """
    options = new_options()
    try:
        shared = share_on_gpu(graph, options, folder)
    except WeightsNotSharedError as error:
        # The first options may have some of the weights already.
        return new_options(), None, not_shared(str(error))
    found = "in GPU memory already" if shared.is_hit else "loaded by the broker"
    return options, shared.close, {"weights": f"shared: {shared.size_bytes} bytes, {found}"}


def not_shared(reason: str) -> dict[str, str]:
    """Return the fact that a model loads its own weights, and log why."""
    structlog.get_logger().warning("weights not shared", reason=reason)
    return {"weights": f"own: {reason}"}


def share_on_gpu(graph: GraphFile, options: Any, folder: Path) -> SharedInitializers:
    """Make a session with these options use weights that the GPU's broker holds.

    `folder` has the brokers' sockets. Raises WeightsNotSharedError.
    """
    file, tensors = external_tensors(graph)
    extents = [_extent(each) for each in tensors]
    with ExitStack() as stack:
        try:
            uuid, memory = stack.enter_context(open_gpu_memory())
        except (GpuUnavailableError, RuntimeError) as error:
            raise WeightsNotSharedError(f"The GPU cannot be opened: {error}.") from error
        weights = open_weights(folder / f"{uuid}.sock", file, extents, memory)
        stack.callback(weights.close)
        try:
            values = add_initializers(options, tensors, weights.addresses, CUDA_DEVICE)
        except Exception as error:  # its exceptions have no other class in common
            raise WeightsNotSharedError(f"ONNX Runtime does not take them: {error}") from error
        return SharedInitializers(values, weights.size_bytes, weights.is_hit, stack.pop_all())


def external_tensors(graph: GraphFile) -> tuple[Path, tuple[TensorProto, ...]]:
    """Return the file of a model's weights, and the tensors in it that can be shared.

    Raises WeightsNotSharedError if there is none, or more than one file.
    """
    files = tuple(graph.external_sha256)
    if len(files) != 1:
        raise WeightsNotSharedError(
            f"The model has {len(files)} files of external data, and one is needed: save its "
            "weights as external data in one file."
        )
    tensors = tuple(
        each
        for each in graph.model.graph.initializer
        if each.data_location == TensorProto.EXTERNAL
        and each.data_type in _TYPES
        and _extent(each).length > 0
    )
    if not tensors:
        raise WeightsNotSharedError("No tensor of the external data has a type that can be shared.")
    return graph.path.parent / files[0], tensors


def add_initializers(
    options: Any, tensors: Sequence[TensorProto], addresses: Sequence[int], device: int
) -> tuple[Any, ...]:
    """Make sessions with these options use tensors at these addresses of a device.

    ONNX Runtime copies none of them. It ignores those that its graph has no longer, because it
    folded them, and those that the device does not read. Return what has to outlive the sessions.
    """
    values = []
    for tensor, address in zip(tensors, addresses, strict=True):
        value = _value(tensor, address, device)
        options.add_initializer(tensor.name, value)
        values.append(value)
    return tuple(values)


def _extent(tensor: TensorProto) -> Extent:
    entries = {each.key: each.value for each in tensor.external_data}
    return Extent(int(entries.get("offset", 0)), int(entries.get("length", 0)))


def _value(tensor: TensorProto, address: int, device: int) -> Any:
    """Return a tensor at an address, by DLPack."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    shape = (ctypes.c_int64 * len(tensor.dims))(*tensor.dims)
    head = ctypes.sizeof(_ManagedTensor)
    memory = library.malloc(head + ctypes.sizeof(shape))
    if not memory:
        raise MemoryError
    code, bits = _TYPES[tensor.data_type]
    described = _ManagedTensor.from_address(memory)
    described.data = address
    described.device = _Device(device, 0)
    described.dimensions = len(tensor.dims)
    described.type = _DataType(code, bits, 1)
    described.shape = memory + head
    described.strides = None
    described.byte_offset = 0
    described.context = None
    # The C library's own function: ONNX Runtime may call it while Python ends.
    described.deleter = ctypes.cast(library.free, ctypes.c_void_p).value
    ctypes.memmove(memory + head, shape, ctypes.sizeof(shape))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(memory, _CAPSULE_NAME, None)
    is_bool = tensor.data_type == TensorProto.BOOL
    return onnxruntime.OrtValue(_pybind_state.OrtValue.from_dlpack(capsule, is_bool))
