"""Adds a model to the zoo: `python -m inferometer_models.lighten FULL.onnx OUT.onnx.xz`."""

import argparse
import csv
import io
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto

from inferometer_models.calibration import calibrate
from inferometer_models.describe import compress, describe, random_samples
from inferometer_models.errors import UnfitModelError
from inferometer_models.light import light
from inferometer_models.structure import differences, operator_counts
from inferometer_models.zoo import DATA_SUFFIX, INDEX_COLUMNS

SAME, DIFFERENT, REFUSED = 0, 1, 2
"""Exit codes: done (or the same structure), another structure, refused."""

SUFFIX = ".onnx.xz"


class LightenError(ValueError):
    """The command cannot be run; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Lighten a model and print its index row, or with --check compare two; return the exit code.

    Nothing is written unless the light graph has the structure of the full one and runs.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.check:
            return _check(options.full, options.light)
        return _lighten(options.full, options.light, options.origin)
    except (LightenError, UnfitModelError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_models.lighten",
        description="Take the weights out of an ONNX graph, choose random ones, and print "
        "its row of the index.",
    )
    parser.add_argument("full", type=Path, metavar="FULL.onnx", help="the graph as exported")
    parser.add_argument("light", type=Path, metavar=f"TASK/NAME{SUFFIX}", help="the light graph")
    parser.add_argument("--origin", default="", help='library and licence: "timm 1.0 (Apache-2.0)"')
    parser.add_argument(
        "--check", action="store_true", help="write nothing; compare the two files' structure"
    )
    return parser


def _lighten(full_path: Path, light_path: Path, origin: str) -> int:
    if not light_path.name.endswith(SUFFIX):
        raise LightenError(f"{light_path} does not end in {SUFFIX}; name the light file so.")
    full = _load(full_path)
    name = light_path.name.removesuffix(SUFFIX)
    made = light(full, f"{name}{DATA_SUFFIX}")
    if differing := differences(full, made):
        raise LightenError(f"{full_path} cannot be made light: {' '.join(differing)}")
    calibration = calibrate(made, random_samples(made))
    for tensor, deviation in calibration.outliers.items():
        sys.stderr.write(f"Warning: {tensor} has the standard deviation {deviation:.3g}.\n")
    task = light_path.absolute().parent.name
    content, row = describe(made, calibration, f"{task}/{name}", origin)
    try:
        light_path.write_bytes(compress(content))
    except OSError as error:
        raise LightenError(f"{light_path} cannot be written ({error}); name another.") from error
    sys.stdout.write(_csv_line(row))
    return SAME


def _check(full_path: Path, light_path: Path) -> int:
    full = _load(full_path)
    differing = differences(full, _load(light_path))
    for sentence in differing:
        sys.stdout.write(f"{sentence}\n")
    if differing:
        return DIFFERENT
    counts = operator_counts(full)
    listed = ", ".join(f"{count} {operator}" for operator, count in counts.most_common())
    sys.stdout.write(f"The same structure: {counts.total()} operators ({listed}).\n")
    return SAME


def _load(path: Path) -> ModelProto:
    """Read an ONNX file, compressed where it is called so, with its external weights."""
    try:
        if path.name.endswith(SUFFIX):
            content = lzma.decompress(path.read_bytes())
            return onnx.load_model_from_string(content)
        onnx.checker.check_model(path)  # by path: more than 2 GiB cannot be checked in memory
        return onnx.load_model(path)
    except (OSError, lzma.LZMAError, DecodeError, onnx.checker.ValidationError) as error:
        raise LightenError(
            f"{path} cannot be read as an ONNX model ({error}); give a file that an exporter wrote."
        ) from error


def _csv_line(row: dict[str, str]) -> str:
    line = io.StringIO()
    csv.DictWriter(line, INDEX_COLUMNS, lineterminator="\n").writerow(row)
    return line.getvalue()


if __name__ == "__main__":
    sys.exit(main())
