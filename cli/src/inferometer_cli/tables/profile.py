"""The tables of profiled steps in a terminal: types, layers and kernels."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from inferometer_analysis.layers import layer_information
from inferometer_api.results.result import ResultDocument
from inferometer_cli.text_table import Row, print_rows, print_sentences
from inferometer_results.gpu_kernels import (
    NO_LAYER,
    gpu_rows_by_layer,
    gpu_rows_by_name,
    gpu_sentences,
)
from inferometer_results.profile import (
    ProfiledStep,
    batch_sentence,
    kernel_rows,
    layers_of,
    profiled_steps,
    sentences_of,
    type_rows,
)
from inferometer_results.quantity import DASH, byte_unit, percent, time_unit


def print_profiles(document: ResultDocument, top: int, console: Console) -> None:
    """Print the types, the `top` longest layers and the kernels of each profiled step."""
    steps = list(profiled_steps(document))
    for each in steps:
        console.print()
        print_sentences([Text(f"{each.name}:", style="bold")], console)
        sentences = (*sentences_of(each), *gpu_sentences(each.profile))
        print_sentences([Text(line) for line in sentences], console)
        _print_types(each, console)
        _print_layers(each, top, console)
        _print_kernels(each, top, console)
        _print_gpu_layers(each, top, console)
    sentence = batch_sentence(steps)
    if sentence:
        print_sentences([Text(sentence)], console)


def _print_types(each: ProfiledStep, console: Console) -> None:
    rows = type_rows(each.profile)
    unit = time_unit(row.latency_ns for row in rows)
    _print(
        ("", "type", "layers", f"latency {unit.name}", "share", "memory"),
        [
            Row(
                "",
                row.operator,
                (
                    str(row.count),
                    unit.text(row.latency_ns),
                    percent(row.latency_share),
                    byte_unit([row.output_bytes]).named(row.output_bytes),
                ),
            )
            for row in rows
        ],
        console,
    )


def _print_layers(each: ProfiledStep, top: int, console: Console) -> None:
    rows = layer_information(layers_of(each.profile))[:top]
    unit = time_unit(row.latency_ns for row in rows)
    _print(
        ("", "layer", "type", "output", f"latency {unit.name}", "share"),
        [
            Row(
                "",
                row.layer.name,
                (
                    row.layer.operator,
                    "x".join(map(str, row.layer.shape)),
                    unit.text(row.latency_ns),
                    percent(row.share),
                ),
            )
            for row in rows
        ],
        console,
    )


def _print_gpu_layers(each: ProfiledStep, top: int, console: Console) -> None:
    rows = gpu_rows_by_layer(each.profile)[:top]
    unit = time_unit(row.row.latency_ns for row in rows)
    _print(
        ("", "layer on the GPU", "kernels", f"GPU {unit.name}", f"other {unit.name}", "bound by"),
        [
            Row(
                "",
                NO_LAYER if row.layer is None else row.layer.name,
                (
                    str(row.row.count),
                    unit.text(row.row.latency_ns),
                    unit.text(row.other_ns),
                    row.bound or DASH,
                ),
            )
            for row in rows
        ],
        console,
    )


def _print_gpu_kernels(each: ProfiledStep, top: int, console: Console) -> None:
    rows = list(gpu_rows_by_name(each.profile).items())[:top]
    unit = time_unit(row.latency_ns for _, row in rows)
    _print(
        ("", "kernel", "runs", f"GPU {unit.name}", "share", "occupancy at most", "tensor cores"),
        [
            Row(
                "",
                name,
                (
                    str(row.count),
                    unit.text(row.latency_ns),
                    percent(row.latency_share),
                    DASH if row.occupancy is None else percent(row.occupancy),
                    "yes" if row.has_tensor_cores else "no",
                ),
            )
            for name, row in rows
        ],
        console,
    )


def _print_kernels(each: ProfiledStep, top: int, console: Console) -> None:
    if each.profile.kernels:
        _print_gpu_kernels(each, top, console)
        return
    rows = kernel_rows(each.profile)[:top]
    unit = time_unit(latency for _, _, latency, _ in rows)
    _print(
        ("", "kernel", "layers", f"latency {unit.name}", "share"),
        [
            Row("", name, (str(count), unit.text(latency), percent(share)))
            for name, count, latency, share in rows
        ],
        console,
    )


def _print(header: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    if rows:
        console.print()
        print_rows(header, rows, console)
