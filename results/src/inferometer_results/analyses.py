"""XSP's analyses A1 to A15 of the profiles in a result, under their names, as rows of values."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from inferometer_analysis.layers import layer_information, layer_latency, layer_memory
from inferometer_analysis.models import batch_at_knee, batch_of_maximum
from inferometer_api.results.result import ResultDocument
from inferometer_results.gpu_kernels import (
    LayerKernels,
    gpu_row_of_model,
    gpu_rows_by_layer,
    gpu_rows_by_name,
    kernel_rooflines,
    kernel_values,
)
from inferometer_results.profile import (
    ProfiledStep,
    kernel_rows,
    layers_of,
    models_of,
    profiled_steps,
    type_rows,
)

_Rows = Iterator[dict[str, Any]]
_NO_LEVEL = {
    "Model": "The profile has no runs without a profiler.",
    "Layer": "The profile has no layers.",
    "Kernel": "The profile has no kernels of a GPU.",
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """One of the fifteen, with the deepest level that it needs."""

    number: int
    name: str
    level: str
    rows: Callable[[ProfiledStep], _Rows]
    """Of one step."""

    @property
    def key(self) -> str:
        """Its number in JSON."""
        return f"a{self.number}"

    @property
    def title(self) -> str:
        """Its number and name in headings."""
        return f"A{self.number} {self.name}"

    @property
    def file_name(self) -> str:
        """Its file in a folder of CSV files."""
        return f"{self.key}-{self.name.lower().replace(' ', '-')}.csv"


def analysis_documents(document: ResultDocument) -> dict[str, dict[str, Any]]:
    """Return all analyses by number; without rows those have the reason instead.

    With several batch sizes A1 has the one of the highest throughput, and the one at the knee,
    which is null if every measured doubling of the batch adds more than 5 %, or none was measured.
    """
    found: dict[str, dict[str, Any]] = {}
    for analysis in ANALYSES:
        rows = _rows(analysis, document)
        found[analysis.key] = {"name": analysis.name, "rows": rows or None}
        if not rows:
            found[analysis.key]["reason"] = _reason(analysis, document)
    models = models_of(list(profiled_steps(document)))
    if len(models) > 1:
        best = {"batchOfMaximum": batch_of_maximum(models), "batchAtKnee": batch_at_knee(models)}
        found[ANALYSES[0].key] |= best
    return found


def analysis_files(document: ResultDocument) -> dict[str, str]:
    """Return the name and text of a CSV file for each analysis that has rows."""
    return {
        analysis.file_name: _csv(rows)
        for analysis in ANALYSES
        if (rows := _rows(analysis, document))
    }


def analysis_titles(*numbers: int) -> str:
    """Return the numbers and names of analyses that one table shows."""
    return ", ".join(ANALYSES[number - 1].title for number in numbers)


def _rows(analysis: Analysis, document: ResultDocument) -> list[dict[str, Any]]:
    return [
        {
            "scenario": each.scenario.name,
            "repeat": each.scenario.repeat,
            "batchSize": each.step.batch_size,
            **row,
        }
        for each in profiled_steps(document)
        for row in analysis.rows(each)
    ]


def _reason(analysis: Analysis, document: ResultDocument) -> str:
    for each in profiled_steps(document):
        if analysis.level in each.profile.unavailable:
            return each.profile.unavailable[analysis.level]
    return _NO_LEVEL[analysis.level]


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _model(each: ProfiledStep) -> _Rows:
    for row in models_of([each]):
        yield {
            "nanoseconds": round(row.latency_ns),
            "samplesPerSecond": round(row.samples_per_second, 3),
        }


def _layers(each: ProfiledStep) -> _Rows:
    for row in layer_information(layers_of(each.profile)):
        yield {
            "index": row.layer.index,
            "name": row.layer.name,
            "operator": row.layer.operator,
            "shape": "x".join(map(str, row.layer.shape)),
            "datatype": row.layer.datatype,
            "kernel": row.layer.kernel,
            "nanoseconds": round(row.latency_ns),
            "share": round(row.share, 6),
            "outputBytes": row.layer.output_bytes,
            "outer": row.layer.outer,
        }


def _layer_latency(each: ProfiledStep) -> _Rows:
    for index, latency_ns in layer_latency(layers_of(each.profile)):
        yield {"index": index, "nanoseconds": round(latency_ns)}


def _layer_memory(each: ProfiledStep) -> _Rows:
    for index, size in layer_memory(layers_of(each.profile)):
        yield {"index": index, "outputBytes": size}


def _types(each: ProfiledStep) -> _Rows:
    for row in type_rows(each.profile):
        yield {"type": row.operator, "layers": row.count, "share": round(row.count_share, 6)}


def _type_latency(each: ProfiledStep) -> _Rows:
    for row in type_rows(each.profile):
        share = round(row.latency_share, 6)
        yield {"type": row.operator, "nanoseconds": round(row.latency_ns), "share": share}


def _type_memory(each: ProfiledStep) -> _Rows:
    for row in type_rows(each.profile):
        share = round(row.bytes_share, 6)
        yield {"type": row.operator, "outputBytes": row.output_bytes, "share": share}


def _kernels(each: ProfiledStep) -> _Rows:
    return kernel_values(each.profile)


def _kernel_rooflines(each: ProfiledStep) -> _Rows:
    return kernel_rooflines(each.profile)


def _kernels_by_name(each: ProfiledStep) -> _Rows:
    """Yield those of a GPU, else the engine's own kernels by the latency of their layers."""
    if not each.profile.kernels:
        for name, count, latency_ns, share in kernel_rows(each.profile):
            yield _by_name(name, count, latency_ns, share, None)
        return
    for name, row in gpu_rows_by_name(each.profile).items():
        yield _by_name(name, row.count, row.latency_ns, row.latency_share, row.occupancy)


def _by_name(
    name: str, count: int, latency_ns: float, share: float, occupancy: float | None
) -> dict[str, Any]:
    return {
        "name": name,
        "count": count,
        "nanoseconds": round(latency_ns),
        "share": round(share, 6),
        "theoreticalOccupancy": occupancy,
    }


def _kernels_by_layer(each: ProfiledStep) -> _Rows:
    for found in gpu_rows_by_layer(each.profile):
        yield {
            **_layer(found),
            "count": found.row.count,
            "nanoseconds": round(found.row.latency_ns),
            "share": round(found.row.latency_share, 6),
            "theoreticalOccupancy": found.row.occupancy,
        }


def _metrics_by_layer(each: ProfiledStep) -> _Rows:
    for found in gpu_rows_by_layer(each.profile):
        yield {
            **_layer(found),
            "computedFlops": found.row.flops,
            "computedReadBytes": found.row.read_bytes,
            "computedWrittenBytes": found.row.written_bytes,
        }


def _gpu_latency(each: ProfiledStep) -> _Rows:
    for found in gpu_rows_by_layer(each.profile):
        other = None if found.other_ns is None else round(found.other_ns)
        gpu = round(found.row.latency_ns)
        yield {**_layer(found), "gpuNanoseconds": gpu, "otherNanoseconds": other}


def _layer_rooflines(each: ProfiledStep) -> _Rows:
    for found in gpu_rows_by_layer(each.profile):
        yield {
            **_layer(found),
            "flopsPerByte": found.row.intensity,
            "flopsPerSecond": found.row.flops_per_second,
            "bound": found.bound,
        }


def _layer(found: LayerKernels) -> dict[str, Any]:
    if found.layer is None:
        return {"layer": None, "layerName": ""}
    return {"layer": found.layer.index, "layerName": found.layer.name}


def _kernels_of_model(each: ProfiledStep) -> _Rows:
    if not each.profile.kernels:
        return
    row = gpu_row_of_model(each.profile)
    yield {
        "count": row.count,
        "nanoseconds": round(row.latency_ns),
        "share": round(row.latency_share, 6),
        "theoreticalOccupancy": row.occupancy,
        "computedFlops": row.flops,
        "computedReadBytes": row.read_bytes,
        "computedWrittenBytes": row.written_bytes,
        "flopsPerByte": row.intensity,
        "flopsPerSecond": row.flops_per_second,
    }


ANALYSES = (
    Analysis(1, "Model information table", "Model", _model),
    Analysis(2, "Layer information table", "Layer", _layers),
    Analysis(3, "Layer latency", "Layer", _layer_latency),
    Analysis(4, "Layer memory allocation", "Layer", _layer_memory),
    Analysis(5, "Layer type distribution", "Layer", _types),
    Analysis(6, "Layer latency aggregated by type", "Layer", _type_latency),
    Analysis(7, "Layer memory allocation aggregated by type", "Layer", _type_memory),
    Analysis(8, "GPU kernel information table", "Kernel", _kernels),
    Analysis(9, "GPU kernel roofline", "Kernel", _kernel_rooflines),
    Analysis(10, "GPU kernel information aggregated by name table", "Kernel", _kernels_by_name),
    Analysis(11, "GPU kernel information aggregated by layer table", "Kernel", _kernels_by_layer),
    Analysis(12, "GPU metrics aggregated by layer", "Kernel", _metrics_by_layer),
    Analysis(13, "GPU vs Non-GPU latency", "Kernel", _gpu_latency),
    Analysis(14, "Layer roofline", "Kernel", _layer_rooflines),
    Analysis(15, "GPU kernel information aggregated by model table", "Kernel", _kernels_of_model),
)
