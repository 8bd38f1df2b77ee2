"""Layers by cuDNN, a convolution in each of its algorithms and layouts."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.device import device_memory
from inferometer_serving.gpu.libraries import Library, LibraryError
from inferometer_serving.layers.gpu.algorithms import Algorithm
from inferometer_serving.layers.gpu.device_tensors import DeviceTensors
from inferometer_serving.layers.gpu.problems import (
    Activation,
    Convolution,
    Elementwise,
    Normalization,
    Pooling,
    Problem,
    RowSoftmax,
)

CONVOLUTION_ALGORITHMS = (
    "IMPLICIT_GEMM",
    "IMPLICIT_PRECOMP_GEMM",
    "GEMM",
    "DIRECT",
    "FFT",
    "FFT_TILING",
    "WINOGRAD",
    "WINOGRAD_NONFUSED",
)
_PRECOMPUTED = 1
_NCHW, _NHWC = 0, 1
_FP32, _FP16 = 0, 2
_CROSS_CORRELATION = 1
_ANY_MATH, _TENSOR_MATH, _FMA_MATH = 0, 1, 3
_SIGMOID, _RELU, _TANH, _, _ELU, _IDENTITY = range(6)
_ACTIVATIONS = {"Sigmoid": _SIGMOID, "Relu": _RELU, "Tanh": _TANH, "Elu": _ELU}
_POOLINGS = {"Max": 0, "Mean": 1, "MeanOfInner": 2}
_OPERATIONS = {"Add": 0, "Mul": 1}
_ACCURATE, _INSTANCE, _SPATIAL = 1, 0, 1
_MOST_WORKSPACE_BYTES = 1 << 30
_ONE, _ZERO = ctypes.c_float(1.0), ctypes.c_float(0.0)


class _Performance(ctypes.Structure):
    """What cuDNN's search says about one algorithm."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("milliseconds", ctypes.c_float),
        ("workspace_bytes", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


@dataclass(frozen=True, slots=True)
class CudnnSettings:
    """How cuDNN is to compute."""

    is_half: bool
    allows_tf32: bool
    channels_last: bool = False

    @property
    def datatype(self) -> int:
        """The tensors' type by its number in cuDNN."""
        return _FP16 if self.is_half else _FP32

    @property
    def layout(self) -> int:
        """The tensors' layout by its number in cuDNN."""
        return _NHWC if self.channels_last else _NCHW

    @property
    def math(self) -> int:
        """The kind of arithmetic that is allowed, by its number in cuDNN."""
        if self.is_half:
            return _TENSOR_MATH
        return _ANY_MATH if self.allows_tf32 else _FMA_MATH


class Cudnn:
    """A handle of cuDNN and descriptors, all destroyed with the resources."""

    def __init__(self, library: Library, settings: CudnnSettings, resources: ExitStack) -> None:
        self._library = library
        self._settings = settings
        self._resources = resources
        self._handle = library.create("cudnnCreate")
        resources.callback(library.call, "cudnnDestroy", self._handle)

    def algorithms(self, problem: Problem, operands: DeviceTensors) -> list[Algorithm]:
        """Return cuDNN's algorithms for a problem; none if cuDNN has no function for it."""
        if isinstance(problem, Convolution):
            return list(self._convolution(problem, operands))
        launch: Any
        match problem:
            case Pooling():
                name, launch = f"pooling{self._suffix}", self._pooling(problem, operands)
            case RowSoftmax():
                name, launch = "ACCURATE", self._softmax(problem, operands)
            case Activation():
                name, launch = problem.function, self._activation(problem, operands)
            case Normalization():
                name, launch = f"SPATIAL{self._suffix}", self._normalization(problem, operands)
            case Elementwise():
                name, launch = problem.function, self._elementwise(problem, operands)
            case _:
                return []
        return [Algorithm(name, launch)]

    @property
    def _suffix(self) -> str:
        return " NHWC" if self._settings.channels_last else ""

    def _call(self, function: str, *arguments: Any) -> None:
        self._library.call(function, self._handle, *arguments)

    def _create_descriptor(self, kind: str, setter: str, *arguments: Any) -> ctypes.c_void_p:
        """Create a descriptor and set it."""
        found = self._library.create(f"cudnnCreate{kind}Descriptor")
        self._resources.callback(self._library.call, f"cudnnDestroy{kind}Descriptor", found)
        self._library.call(setter, found, *map(_argument, arguments))
        return found

    def _tensor(self, shape: Sequence[int]) -> ctypes.c_void_p:
        own = self._settings
        return self._create_descriptor(
            "Tensor", "cudnnSetTensor4dDescriptor", own.layout, own.datatype, *shape
        )

    def _activation_function(self, number: int, coefficient: float = 0.0) -> ctypes.c_void_p:
        return self._create_descriptor(
            "Activation", "cudnnSetActivationDescriptor", number, 0, float(coefficient)
        )

    def _convolution(self, problem: Convolution, operands: DeviceTensors) -> Iterator[Algorithm]:
        own = self._settings
        tensors = (
            self._tensor(problem.input),
            self._create_descriptor(
                "Filter", "cudnnSetFilter4dDescriptor", own.datatype, own.layout, *problem.filters
            ),
            self._create_descriptor(
                "Convolution",
                "cudnnSetConvolution2dDescriptor",
                *problem.pads,
                *problem.strides,
                *problem.dilations,
                _CROSS_CORRELATION,
                _FP32,
            ),
            self._tensor(problem.output),
        )
        self._library.call("cudnnSetConvolutionGroupCount", tensors[2], problem.groups)
        self._library.call("cudnnSetConvolutionMathType", tensors[2], own.math)
        for number in self._algorithm_numbers(tensors):
            if problem.has_bias and not problem.is_rectified and number != _PRECOMPUTED:
                continue  # cuDNN adds a bias alone in no other
            try:
                launch = self._one_convolution(problem, operands, tensors, number)
                launch()
            except LibraryError:
                continue
            yield Algorithm(f"{CONVOLUTION_ALGORITHMS[number]}{self._suffix}", launch)

    def _algorithm_numbers(self, tensors: Sequence[ctypes.c_void_p]) -> list[int]:
        """Return the algorithms that cuDNN accepts by their numbers, the likely fastest first."""
        count = len(CONVOLUTION_ALGORITHMS)
        found, written = (_Performance * count)(), ctypes.c_int()
        source, filters, convolution, output = tensors
        self._call(
            "cudnnGetConvolutionForwardAlgorithm_v7",
            *(source, filters, convolution, output),
            count,
            ctypes.byref(written),
            found,
        )
        usable = [each.algorithm for each in found[: written.value] if not each.status]
        return list(dict.fromkeys(usable))

    def _one_convolution(
        self,
        problem: Convolution,
        operands: DeviceTensors,
        tensors: Sequence[ctypes.c_void_p],
        number: int,
    ) -> Any:
        source, filters, convolution, output = tensors
        size = ctypes.c_size_t()
        self._call(
            "cudnnGetConvolutionForwardWorkspaceSize",
            *tensors,
            number,
            ctypes.byref(size),
        )
        if size.value > _MOST_WORKSPACE_BYTES:
            raise LibraryError("an algorithm needs too much memory")
        workspace = self._resources.enter_context(device_memory(max(size.value, 1)))
        addresses = [ctypes.c_void_p(each) for each in (*operands.inputs, 0, 0)]
        result = ctypes.c_void_p(operands.output)
        common = (source, addresses[0], filters, addresses[1], convolution, number)
        work = (ctypes.c_void_p(workspace), size)
        if not problem.has_bias:
            plain = (*common, *work, ctypes.byref(_ZERO), output, result)
            return lambda: self._call("cudnnConvolutionForward", ctypes.byref(_ONE), *plain)
        kind = _RELU if problem.is_rectified else _IDENTITY
        bias = self._tensor((1, problem.output[1], 1, 1))
        summand = addresses[3] if problem.has_summand else result
        factor = _ONE if problem.has_summand else _ZERO
        activation = self._activation_function(kind)
        fused = (*common, *work, ctypes.byref(factor), output, summand, bias, addresses[2])
        return lambda: self._call(
            "cudnnConvolutionBiasActivationForward",
            ctypes.byref(_ONE),
            *fused,
            activation,
            output,
            result,
        )

    def _pooling(self, problem: Pooling, operands: DeviceTensors) -> Any:
        pooling = self._create_descriptor(
            "Pooling",
            "cudnnSetPooling2dDescriptor",
            _POOLINGS[problem.kind],
            0,
            *problem.window,
            *problem.pads,
            *problem.strides,
        )
        tensors = self._tensor(problem.input), self._tensor(problem.output)
        return lambda: self._call("cudnnPoolingForward", pooling, *self._from_to(tensors, operands))

    def _softmax(self, problem: RowSoftmax, operands: DeviceTensors) -> Any:
        tensor = self._tensor((problem.rows, problem.columns, 1, 1))
        return lambda: self._call(
            "cudnnSoftmaxForward", _ACCURATE, _INSTANCE, *self._from_to((tensor, tensor), operands)
        )

    def _activation(self, problem: Activation, operands: DeviceTensors) -> Any:
        tensor = self._tensor((1, 1, 1, problem.elements))
        function = self._activation_function(_ACTIVATIONS[problem.function], problem.coefficient)
        return lambda: self._call(
            "cudnnActivationForward", function, *self._from_to((tensor, tensor), operands)
        )

    def _normalization(self, problem: Normalization, operands: DeviceTensors) -> Any:
        tensor = self._tensor(problem.input)
        # The statistics are in FP32 also for tensors in FP16.
        each = self._create_descriptor(
            "Tensor",
            "cudnnSetTensor4dDescriptor",
            *(_NCHW, _FP32, 1, problem.input[1], 1, 1),
        )
        if self._settings.is_half:
            raise LibraryError("the layer's statistics are in FP16")
        source, scale, bias, mean, variance = map(ctypes.c_void_p, operands.inputs)
        return lambda: self._call(
            "cudnnBatchNormalizationForwardInference",
            _SPATIAL,
            ctypes.byref(_ONE),
            ctypes.byref(_ZERO),
            *(tensor, source, tensor, ctypes.c_void_p(operands.output), each),
            *(scale, bias, mean, variance),
            ctypes.c_double(problem.epsilon),
        )

    def _elementwise(self, problem: Elementwise, operands: DeviceTensors) -> Any:
        operation = self._create_descriptor(
            "OpTensor", "cudnnSetOpTensorDescriptor", _OPERATIONS[problem.function], _FP32, 0
        )
        first, second = self._tensor(problem.first), self._tensor(problem.second)
        addresses = operands.inputs[::-1] if problem.is_swapped else operands.inputs
        return lambda: self._call(
            "cudnnOpTensor",
            operation,
            *(ctypes.byref(_ONE), first, ctypes.c_void_p(addresses[0])),
            *(ctypes.byref(_ONE), second, ctypes.c_void_p(addresses[1])),
            *(ctypes.byref(_ZERO), first, ctypes.c_void_p(operands.output)),
        )

    def _from_to(
        self, tensors: tuple[ctypes.c_void_p, ctypes.c_void_p], operands: DeviceTensors
    ) -> tuple[Any, ...]:
        return (
            *(ctypes.byref(_ONE), tensors[0], ctypes.c_void_p(operands.inputs[0])),
            *(ctypes.byref(_ZERO), tensors[1], ctypes.c_void_p(operands.output)),
        )


def _argument(value: Any) -> Any:
    """Return a number as C takes it."""
    return ctypes.c_double(value) if isinstance(value, float) else value
