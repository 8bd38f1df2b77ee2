"""Measures what advice on a GPU follows from: variants of a model, its layers and its bounds."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from inferometer_analysis.advice import Evidence
from inferometer_analysis.gpu_advice import GpuEvidence, GpuTimings, gpu_evidence
from inferometer_analysis.measured_variants import failed_variants, measured_variants
from inferometer_api.layers.timings import MachineState
from inferometer_api.layers.variants import ModelVariant
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
from inferometer_cli.local.layers import LayerSettings
from inferometer_cli.quick_run import model_uri
from inferometer_cli.result_store import open_store

_ROUNDS = 15
_PRESENT = "TF32"
_LOWER: Literal["FP16"] = "FP16"


@dataclass(frozen=True, slots=True)
class EvidenceOnGpu:
    """What advice on a GPU follows from, and what is missing."""

    evidence: Evidence
    more: GpuEvidence
    machine: MachineState
    not_measured: dict[str, str]
    """Ways to run the model that could not be measured, by name, with the reasons."""


def evidence_on_gpu(uri: str, settings: LayerSettings, database: str | None) -> EvidenceOnGpu:
    """Measure a model on the GPU by ONNX Runtime: by default, with other options, and in FP16.

    Raises RefusedError without a GPU, FailedError if ONNX Runtime does not take the model there.
    """
    layers.gpu_name()
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = fetched_model(uri, None, Path(folder)).path
        request = gpu_bound_request(file, settings, _PRESENT, _ROUNDS, fill=True)
        variants = request.variants
        reasons: dict[str, str] = {}
        in_half = ModelVariant(precision=_LOWER, rewriting=_LOWER)
        halved = _halve(file, settings)
        if isinstance(halved, Path):
            variants += (replace(in_half, model=halved),)
        else:
            reasons[in_half.name] = halved
        request = BoundRequest(settings, _PRESENT, variants, _ROUNDS, fill=True)
        lower = []
        with open_store(database) as store:
            found = measure_bound(store, file, request)
            if isinstance(halved, Path):
                in_fp16 = BoundRequest(settings, _LOWER, (), _ROUNDS, fill=True)
                lower.append(_timings(measure_bound(store, halved, in_fp16), _LOWER))
    addresses = {each.name: model_uri(str(each.model)) for each in variants if each.model != file}
    measured = measured_variants(found.measured, addresses)
    first = found.measured.variants.get(variants[0].name)
    if first is None or first.nanoseconds == []:
        raise FailedError("ONNX Runtime does not take this model on the GPU.")
    present = replace(
        _timings(found, _PRESENT),
        busy_ns=first.busy_nanoseconds,
        busy_spread_ns=first.busy_spread_nanoseconds,
    )
    ordered = [measured[each.name] for each in variants if each.name in measured]
    reasons |= failed_variants(found.measured)
    return EvidenceOnGpu(*gpu_evidence(ordered, present, lower), found.measured.machine, reasons)


def _halve(file: Path, settings: LayerSettings) -> Path | str:
    """Return the model in FP16, or why there is none."""
    try:
        return layers.rewritten_model(file, _LOWER, on_cpu(settings))
    except (RefusedError, FailedError) as error:
        return str(error)


def _timings(found: BoundMeasurement, precision: str) -> GpuTimings:
    known = () if found.known is None else found.known.kernels
    return GpuTimings(precision, found.graph, [*known, *found.measured.kernels])
