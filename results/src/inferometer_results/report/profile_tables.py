"""The sections *Layers* and *Kernels* of the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_analysis.kernels import KernelRow
from inferometer_analysis.layers import layer_information
from inferometer_api.results.result import ScenarioResult, StepProfile
from inferometer_results.analyses import analysis_titles
from inferometer_results.gpu_kernels import (
    NO_LAYER,
    gpu_kernel_rows,
    gpu_row_of_model,
    gpu_rows_by_layer,
    gpu_rows_by_name,
    gpu_sentences,
    kernel_bound,
)
from inferometer_results.profile import (
    kernel_rows,
    layers_of,
    models_of,
    sentences_of,
    steps_of,
    type_rows,
)
from inferometer_results.quantity import DASH, byte_unit, duration, percent, significant
from inferometer_results.report.facts import Table
from inferometer_results.report.summary import FigureCell

_MOST_LAYERS = 30
"""Only so many layers are in the page; all are in result.json and in the CSV of the command."""


@dataclass(frozen=True, slots=True)
class ProfileTables:
    """What the report shows of one profiled step."""

    label: str
    sentences: tuple[str, ...]
    layers: Table
    types: Table
    kernels: Table
    gpu_kernels: Table
    """Each kernel of a GPU; empty without one."""
    gpu_model: Table
    """All kernels of a GPU together; empty without one."""
    gpu_layers: Table
    """The work of a GPU for each layer; empty without one."""
    left_out: int
    """Layers that are not listed."""

    @staticmethod
    def title(*numbers: int) -> str:
        """Return the numbers and names of the analyses that one table shows."""
        return analysis_titles(*numbers)


def model_table(result: ScenarioResult) -> Table:
    """Return A1: the model at each batch size, without a profiler; no rows without a profile."""
    return _table(
        ("Batch", "Latency", "Samples/s"),
        (
            (str(row.batch_size), duration(row.latency_ns), significant(row.samples_per_second))
            for row in models_of(steps_of(result))
        ),
    )


def profile_tables(result: ScenarioResult) -> Iterator[ProfileTables]:
    """Yield the tables of each profiled step."""
    for each in steps_of(result):
        step, profile = each.step, each.profile
        rows = layer_information(layers_of(profile))
        yield ProfileTables(
            label=step.label,
            sentences=(*sentences_of(each), *gpu_sentences(profile)),
            layers=_table(
                ("Layer", "Index", "Type", "Output", "Kernel", "Latency", "Share", "Memory"),
                (
                    (
                        row.layer.name,
                        str(row.layer.index),
                        row.layer.operator,
                        " x ".join(map(str, row.layer.shape)) or DASH,
                        row.layer.kernel or DASH,
                        duration(row.latency_ns),
                        percent(row.share),
                        _bytes(row.layer.output_bytes),
                    )
                    for row in rows[:_MOST_LAYERS]
                ),
            ),
            types=_table(
                ("Type", "Layers", "Latency", "Share", "Memory"),
                (
                    (
                        row.operator,
                        str(row.count),
                        duration(row.latency_ns),
                        percent(row.latency_share),
                        _bytes(row.output_bytes),
                    )
                    for row in type_rows(profile)
                ),
            ),
            kernels=_gpu_kernels(profile) if profile.kernels else _kernels(profile),
            gpu_kernels=_each_gpu_kernel(profile),
            gpu_model=_gpu_model(profile),
            gpu_layers=_gpu_layers(profile),
            left_out=max(0, len(rows) - _MOST_LAYERS),
        )


def _each_gpu_kernel(profile: StepProfile) -> Table:
    """Return A8 and A9."""
    layers = {each.index: each.name for each in profile.layers}
    return _table(
        ("Kernel", "Layer", "GPU time", "Share", "Work", "Intensity", "Rate", "Bound by"),
        (
            (
                kernel.name,
                DASH if kernel.layer is None else layers.get(kernel.layer) or str(kernel.layer),
                duration(row.latency_ns),
                percent(row.latency_share),
                *_work(row),
                kernel_bound(kernel, row, profile) or DASH,
            )
            for kernel, row in list(gpu_kernel_rows(profile))[:_MOST_LAYERS]
        ),
    )


def _gpu_model(profile: StepProfile) -> Table:
    """Return A15."""
    rows = [gpu_row_of_model(profile)] if profile.kernels else []
    return _table(
        ("Kernels", "GPU time", "Share", "Occupancy at most", "Work", "Intensity", "Rate"),
        (
            (
                str(row.count),
                duration(row.latency_ns),
                percent(row.latency_share),
                DASH if row.occupancy is None else percent(row.occupancy),
                *_work(row),
            )
            for row in rows
        ),
    )


def _kernels(profile: StepProfile) -> Table:
    return _table(
        ("Kernel", "Layers", "Latency", "Share"),
        (
            (name, str(count), duration(latency), percent(share))
            for name, count, latency, share in kernel_rows(profile)
        ),
    )


def _gpu_kernels(profile: StepProfile) -> Table:
    """Return A10, whose occupancy is the theoretical one."""
    return _table(
        ("Kernel", "Runs", "GPU time", "Share", "Occupancy at most", "Tensor cores"),
        (
            (
                name,
                str(row.count),
                duration(row.latency_ns),
                percent(row.latency_share),
                DASH if row.occupancy is None else percent(row.occupancy),
                "yes" if row.has_tensor_cores else "no",
            )
            for name, row in list(gpu_rows_by_name(profile).items())[:_MOST_LAYERS]
        ),
    )


def _gpu_layers(profile: StepProfile) -> Table:
    """Return A11 to A14, whose flops and bytes are computed from the layers' tensors."""
    return _table(
        ("Layer", "Kernels", "GPU time", "Other time", "Work", "Intensity", "Rate", "Bound by"),
        (
            (
                NO_LAYER if each.layer is None else each.layer.name,
                str(each.row.count),
                duration(each.row.latency_ns),
                duration(each.other_ns),
                *_work(each.row),
                each.bound or DASH,
            )
            for each in gpu_rows_by_layer(profile)[:_MOST_LAYERS]
        ),
    )


def _work(row: KernelRow) -> tuple[str, str, str]:
    return (
        DASH if row.flops is None else f"{significant(row.flops / 1e6)} Mflop",
        DASH if row.intensity is None else f"{significant(row.intensity)} flop/B",
        DASH
        if row.flops_per_second is None
        else f"{significant(row.flops_per_second / 1e9)} GFLOP/s",
    )


def _table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    return Table(headings, tuple(tuple(map(FigureCell, row)) for row in rows))


def _bytes(size: int | None) -> str:
    return byte_unit([size]).named(size)
