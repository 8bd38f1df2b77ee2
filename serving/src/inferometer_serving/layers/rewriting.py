"""Rewritten models that advice tries: FP16, fixed shapes, fused operators, static quantisation."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx.external_data_helper import load_external_data_for_model

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.cpu import instruction_set
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.layer_tensors import graph_inputs, random_array
from inferometer_serving.layers.optimised_graph import (
    GraphSettings,
    session_options,
    with_fixed_shapes,
)

_MOST_BYTES = 1_800_000_000
"""A model is rewritten as one message, of at most 2 GB."""
_MODEL_TYPE = "bert"
"""Whose patterns are looked for: those of transformers that read their whole input at once."""
_SAMPLES = 4
_WITHOUT_SATURATION = ("vnni", "amx", "i8mm")
"""Instruction sets whose products of bytes do not saturate."""


def rewrite(graph: GraphFile, kind: str, output: Path, settings: GraphSettings) -> None:
    """Write a rewritten model; `kind` is FP16, FixedShapes, Fused or INT8.

    Raises ModelRefusedError with the reason if there is none.
    """
    if graph.size_bytes > _MOST_BYTES:
        raise ModelRefusedError(
            f"Models of more than {_MOST_BYTES:,} bytes are not rewritten: this has "
            f"{graph.size_bytes:,}."
        )
    partial = output.with_name(f".{output.name}.partial")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="inferometer-") as folder,
            contextlib.redirect_stdout(sys.stderr),  # its tools print
        ):
            _KINDS[kind](graph, partial, Path(folder), settings)
        partial.replace(output)
    except ModelRefusedError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelRefusedError(f"ONNX Runtime cannot rewrite it: {reason}") from error
    finally:
        partial.unlink(missing_ok=True)


def _fuse(graph: GraphFile, output: Path, folder: Path, settings: GraphSettings) -> None:
    from onnxruntime.transformers import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import, ships no types
        fusion_options,
        optimizer,
    )

    source = folder / "model.onnx"
    _save_optimised(graph, source, settings, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options = fusion_options.FusionOptions(_MODEL_TYPE)
    options.enable_shape_inference = False  # it needs sympy
    found = optimizer.optimize_model(
        str(source), model_type=_MODEL_TYPE, optimization_options=options, opt_level=0
    )
    fused = {name: count for name, count in found.get_fused_operator_statistics().items() if count}
    if not fused:
        raise ModelRefusedError(
            "No pattern of operators was found that ONNX Runtime can fuse further."
        )
    found.save_model_to_file(str(output))


def _quantise(graph: GraphFile, output: Path, folder: Path, settings: GraphSettings) -> None:
    from onnxruntime.quantization import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import, ships no types
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Samples(CalibrationDataReader):  # type: ignore[misc]  # a class without types
        """Seeded random inputs."""

        def __init__(self, samples: Iterator[Mapping[str, Array]]) -> None:
            self._samples = samples

        def get_next(self) -> Mapping[str, Array] | None:
            """Return the next inputs; None at the end."""
            return next(self._samples, None)

    source = folder / "model.onnx"
    # Normalisations join the convolutions before their weights are rounded.
    _save_optimised(graph, source, settings, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    saturates = not any(each in instruction_set() for each in _WITHOUT_SATURATION)
    quantize_static(
        str(source),
        str(output),
        Samples(_samples(source)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=saturates,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    if all(each.op_type != "QuantizeLinear" for each in onnx.load(output).graph.node):
        raise ModelRefusedError("It has no operator that ONNX Runtime computes in INT8.")


def _fix_shapes(graph: GraphFile, output: Path, _: Path, settings: GraphSettings) -> None:
    model = with_fixed_shapes(graph, settings)
    if model.graph.input == graph.model.graph.input:
        raise ModelRefusedError("Its inputs have fixed shapes already.")
    load_external_data_for_model(model, str(graph.path.parent.resolve()))
    onnx.save(model, output)


def _halve(graph: GraphFile, output: Path, folder: Path, settings: GraphSettings) -> None:
    from onnxruntime.transformers.float16 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import, ships no types
        convert_float_to_float16,
    )

    source = folder / "model.onnx"
    # Normalisations join the convolutions before their weights are rounded.
    _save_optimised(graph, source, settings, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    # Inputs and outputs stay in FP32, so that clients need not change.
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), output)


def _save_optimised(graph: GraphFile, path: Path, settings: GraphSettings, level: Any) -> None:
    """Save a model with fixed shapes and all weights in it, after ONNX Runtime's optimisation."""
    model = with_fixed_shapes(graph, settings)
    load_external_data_for_model(model, str(graph.path.parent.resolve()))
    options = session_options(settings.threads, level)
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _samples(path: Path) -> Iterator[dict[str, Array]]:
    inputs = graph_inputs(onnx.load(path))
    for seed in range(_SAMPLES):
        generator = np.random.default_rng(seed)
        yield {
            name: generator.random(tensor.shape, np.float32)
            if tensor.datatype == "FLOAT"
            else random_array(generator, tensor)
            for name, tensor in inputs.items()
        }


_KINDS: Mapping[str, Callable[[GraphFile, Path, Path, GraphSettings], None]] = {
    "FP16": _halve,
    "FixedShapes": _fix_shapes,
    "Fused": _fuse,
    "INT8": _quantise,
}
REWRITINGS = tuple(_KINDS)
