"""Measures what advice on a GPU follows from: variants of a model, its layers and its bounds."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

from inferometer_analysis.advice import Evidence
from inferometer_analysis.gpu_advice import GpuEvidence, GpuTimings, gpu_evidence
from inferometer_cli.commands.advise import measured_variants
from inferometer_cli.commands.bound import (
    BoundMeasurement,
    BoundRequest,
    gpu_bound_request,
    measure_bound,
    on_cpu,
)
from inferometer_cli.commands.serve import fetched_model
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local import layers
from inferometer_cli.local.layers import LayerSettings, Variant
from inferometer_cli.result_store import open_store
from inferometer_cli.terminal import print_message

_ROUNDS = 15
_PRESENT = "TF32"
_LOWER: Literal["FP16"] = "FP16"


def evidence_on_gpu(
    uri: str, settings: LayerSettings, database: str | None
) -> tuple[Evidence, GpuEvidence]:
    """Measure a model on the GPU by ONNX Runtime: by default, with other options, and in FP16.

    Raises RefusedError without a GPU, FailedError if ONNX Runtime does not take the model there.
    """
    layers.gpu_name()
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        request = gpu_bound_request(file, settings, _PRESENT, _ROUNDS, fill=True)
        halved = _halve(file, settings)
        variants = request.variants
        if halved is not None:
            variants += (Variant(halved, precision=_LOWER, rewriting=_LOWER),)
        request = BoundRequest(settings, _PRESENT, variants, _ROUNDS, fill=True)
        lower = []
        with open_store(database) as store:
            found = measure_bound(store, file, request)
            if halved is not None:
                in_fp16 = BoundRequest(settings, _LOWER, (), _ROUNDS, fill=True)
                lower.append(_timings(measure_bound(store, halved, in_fp16), _LOWER))
    measured = measured_variants(found.measured, variants, file)
    if not measured or measured[0].provider_option or measured[0].model:
        raise FailedError("ONNX Runtime does not take this model on the GPU.")
    first = found.measured.variants[variants[0].name]
    present = replace(
        _timings(found, _PRESENT),
        busy_ns=first.busy_nanoseconds,
        busy_spread_ns=first.busy_spread_nanoseconds,
    )
    return gpu_evidence(measured, present, lower)


def _halve(file: Path, settings: LayerSettings) -> Path | None:
    """Return the model in FP16; print why there is none."""
    try:
        return layers.rewritten_model(file, _LOWER, on_cpu(settings))
    except (RefusedError, FailedError) as error:
        print_message(f"not rewritten as {_LOWER}: {error}")
        return None


def _timings(found: BoundMeasurement, precision: str) -> GpuTimings:
    known = () if found.known is None else found.known.kernels
    return GpuTimings(precision, found.graph, [*known, *found.measured.kernels])
