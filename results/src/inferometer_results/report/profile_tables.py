"""The sections *Layers* and *Kernels* of the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_analysis.layers import layer_information
from inferometer_api.results.result import ScenarioResult, StepProfile
from inferometer_results.gpu_kernels import (
    NO_LAYER,
    LayerKernels,
    gpu_rows_by_layer,
    gpu_rows_by_name,
    gpu_sentences,
)
from inferometer_results.profile import (
    ProfiledStep,
    kernel_rows,
    layers_of,
    sentences_of,
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
    gpu_layers: Table
    """The work of a GPU for each layer; empty without one."""
    left_out: int
    """Layers that are not listed."""


def profile_tables(result: ScenarioResult) -> Iterator[ProfileTables]:
    """Yield the tables of each profiled step."""
    for step in result.steps:
        if step.profile is None:
            continue
        each = ProfiledStep(result, step, step.profile)
        rows = layer_information(layers_of(step.profile))
        yield ProfileTables(
            label=step.label,
            sentences=(*sentences_of(each), *gpu_sentences(step.profile)),
            layers=_table(
                ("Layer", "Type", "Output", "Kernel", "Latency", "Share", "Memory"),
                (
                    (
                        row.layer.name,
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
                    for row in type_rows(step.profile)
                ),
            ),
            kernels=_gpu_kernels(step.profile) if step.profile.kernels else _kernels(step.profile),
            gpu_layers=_gpu_layers(step.profile),
            left_out=max(0, len(rows) - _MOST_LAYERS),
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
                *_work(each),
            )
            for each in gpu_rows_by_layer(profile)[:_MOST_LAYERS]
        ),
    )


def _work(each: LayerKernels) -> tuple[str, str, str, str]:
    row = each.row
    return (
        DASH if row.flops is None else f"{significant(row.flops / 1e6)} Mflop",
        DASH if row.intensity is None else f"{significant(row.intensity)} flop/B",
        DASH
        if row.flops_per_second is None
        else f"{significant(row.flops_per_second / 1e9)} GFLOP/s",
        each.bound or DASH,
    )


def _table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    return Table(headings, tuple(tuple(map(FigureCell, row)) for row in rows))


def _bytes(size: int | None) -> str:
    return byte_unit([size]).named(size)
