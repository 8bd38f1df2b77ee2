"""The sections *Layers* and *Kernels* of the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_analysis.layers import layer_information
from inferometer_api.results.result import ScenarioResult
from inferometer_results.profile import (
    ProfiledStep,
    kernel_rows,
    layers_of,
    sentences_of,
    type_rows,
)
from inferometer_results.quantity import DASH, byte_unit, duration, percent
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
            sentences=tuple(sentences_of(each)),
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
            kernels=_table(
                ("Kernel", "Layers", "Latency", "Share"),
                (
                    (name, str(count), duration(latency), percent(share))
                    for name, count, latency, share in kernel_rows(step.profile)
                ),
            ),
            left_out=max(0, len(rows) - _MOST_LAYERS),
        )


def _table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    return Table(headings, tuple(tuple(map(FigureCell, row)) for row in rows))


def _bytes(size: int | None) -> str:
    return byte_unit([size]).named(size)
