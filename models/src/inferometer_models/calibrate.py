"""Chooses the weights of built-in models: `python -m inferometer_models.calibrate [NAME ...]`."""

import argparse
import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx

from inferometer_models import zoo
from inferometer_models.calibration import LEAST_DEVIATION, MOST_DEVIATION, calibrate
from inferometer_models.describe import compress, describe, random_samples
from inferometer_models.zoo import INDEX_COLUMNS

DONE, OUTLIERS = 0, 1
"""Exit codes: each tensor is between the limits; some are not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate models; rewrite each one's graph and row as soon as it is done."""
    options = _parser().parse_args(arguments)
    code = DONE
    for name in options.names or zoo.names():
        entry = zoo.entry(name)
        model = onnx.load_model_from_string(zoo.read_onnx(name))
        calibration = calibrate(model, random_samples(model))
        content, row = describe(model, calibration, entry.name, entry.origin)
        (options.graphs / f"{entry.name}.onnx.xz").write_bytes(compress(content))
        _replace_row(options.graphs / "index.csv", row)
        changed = "as before" if row["sha256"] == entry.sha256 else "changed"
        sys.stdout.write(f"{entry.name}: {len(calibration.deviations)} tensors, {changed}\n")
        for tensor, deviation in calibration.outliers.items():
            code = OUTLIERS
            sys.stdout.write(
                f"  {tensor} has the standard deviation {deviation:.3g}, which is not between "
                f"{LEAST_DEVIATION:g} and {MOST_DEVIATION:g}\n"
            )
        sys.stdout.flush()
    return code


def index_text(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the index with these rows, in the order of tasks and names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, INDEX_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: (row["task"], row["name"])))
    return text.getvalue()


def _replace_row(index: Path, row: Mapping[str, str]) -> None:
    rows = list(csv.DictReader(index.read_text(encoding="utf-8").splitlines()))
    same = (row["task"], row["name"])
    others = [each for each in rows if (each["task"], each["name"]) != same]
    written = index.with_suffix(".new")
    written.write_text(index_text([*others, row]), encoding="utf-8")
    written.replace(index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_models.calibrate",
        description="Choose the scales of the weights of built-in models anew, on random inputs, "
        "so that no layer overflows or fades, and write them into the index.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all models")
    parser.add_argument(
        "--graphs",
        type=Path,
        default=Path(__file__).with_name("graphs"),
        metavar="FOLDER",
        help="folder of the graphs and the index that are rewritten",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
