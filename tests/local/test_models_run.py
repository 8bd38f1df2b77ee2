"""The zoo's graphs, and those that its tool makes, run."""

import csv
import hashlib
import io
import lzma
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import onnx
import pytest

from inferometer_models import zoo
from inferometer_models.calibrate import index_text
from inferometer_models.calibrate import main as calibrate_main
from inferometer_models.calibration import Calibration
from inferometer_models.describe import compress, describe
from inferometer_models.errors import UnfitModelError
from inferometer_models.light import light
from inferometer_models.lighten import main
from inferometer_models.weights import read_draws
from support.full_graphs import convolutional, with_weights


def _row(name: str) -> dict[str, str]:
    """Read one row of the packaged index as it is written."""
    index = resources.files("inferometer_models").joinpath("graphs", "index.csv")
    rows = csv.DictReader(index.read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if f"{row['task']}/{row['name']}" == name)


@pytest.mark.parametrize(
    "name",
    [
        "classification/squeezenet1_1",
        "detection/ssdlite320_mobilenet_v3_large",
        "text/minilm_l6",
        "text/gpt2",
    ],
)
def test_calibrating_again_changes_nothing(name: str, tmp_path: Path) -> None:
    """The command finds the packaged weights anew, and writes the very graph and row.

    Another processor may round a deviation to another third digit, so scales are compared with
    1 % of tolerance.
    """
    entry = zoo.entry(name)
    (tmp_path / entry.task).mkdir()
    (tmp_path / "index.csv").write_text(index_text([_row(name)]), encoding="utf-8")
    assert calibrate_main([name, "--graphs", str(tmp_path)]) == 0
    (row,) = csv.DictReader((tmp_path / "index.csv").read_text(encoding="utf-8").splitlines())
    packed = (tmp_path / f"{name}.onnx.xz").read_bytes()
    content = lzma.decompress(packed)
    assert (len(packed), len(content)) == (int(row["xz_bytes"]), int(row["onnx_bytes"]))
    assert hashlib.sha256(content).hexdigest() == row["sha256"]
    varying = {"weights", "sha256", "weights_sha256", "xz_bytes"}
    assert {key: row[key] for key in row.keys() - varying} == {
        key: value for key, value in _row(name).items() if key not in varying
    }
    for found, packaged in zip(read_draws(row["weights"]), read_draws(entry.weights), strict=True):
        assert found.count == packaged.count
        assert found.centre == pytest.approx(packaged.centre, rel=0.01, abs=1e-3)
        assert found.spread == pytest.approx(packaged.spread, rel=0.01)


def test_a_full_graph_is_made_light_from_the_command_line(tmp_path: Path) -> None:
    """The command writes a graph that runs with the same shapes, and prints its row."""
    full = tmp_path / "full.onnx"
    onnx.save(convolutional(), full)
    made = tmp_path / "classification" / "tiny.onnx.xz"
    made.parent.mkdir()
    command = [sys.executable, "-m", "inferometer_models.lighten", str(full), str(made)]
    done = subprocess.run(
        [*command, "--origin", "the tests, Apache-2.0"], capture_output=True, text=True, check=True
    )
    (printed,) = csv.DictReader(io.StringIO(done.stdout), zoo.INDEX_COLUMNS)
    content = lzma.decompress(made.read_bytes())
    assert hashlib.sha256(content).hexdigest() == printed["sha256"]
    assert printed["name"] == "tiny"
    assert printed["task"] == "classification"
    assert printed["origin"] == "the tests, Apache-2.0"
    assert printed["output_shape"] == "batchx10"
    assert printed["operators"] == "4"
    assert int(printed["xz_bytes"]) == made.stat().st_size < full.stat().st_size / 10
    assert done.stderr == ""


def test_weights_in_an_external_file_are_read(tmp_path: Path) -> None:
    """An export of two files is made light as one of one file is."""
    full = tmp_path / "full.onnx"
    onnx.save(convolutional(), full, save_as_external_data=True, location="full.data")
    assert main([str(full), str(tmp_path / "tiny.onnx.xz")]) == 0
    assert main([str(full), str(tmp_path / "tiny.onnx.xz"), "--check"]) == 0


def test_check_reports_the_same_structure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Full and light compared end 0 with the operators counted."""
    full, made = tmp_path / "full.onnx", tmp_path / "tiny.onnx.xz"
    onnx.save(convolutional(), full)
    made.write_bytes(compress(light(convolutional(), "tiny.onnx.data").SerializeToString()))
    assert main([str(full), str(made), "--check"]) == 0
    stdout = capsys.readouterr().out
    assert stdout == "The same structure: 4 operators (1 Conv, 1 Relu, 1 Flatten, 1 Gemm).\n"


def test_check_reports_a_different_structure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two models compared end 1 with each difference listed."""
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    onnx.save(convolutional(), one)
    onnx.save(with_weights({}), other)
    assert main([str(one), str(other), "--check"]) == 1
    assert "operator Conv: 1 in the full graph, absent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("full", "made", "message"),
    [
        ("absent.onnx", "tiny.onnx.xz", "cannot be read as an ONNX model"),
        ("text.onnx", "tiny.onnx.xz", "cannot be read as an ONNX model"),
        ("full.onnx", "tiny.onnx", r"does not end in \.onnx\.xz"),
        ("full.onnx", "absent/tiny.onnx.xz", "cannot be written"),
        ("renamed.onnx", "tiny.onnx.xz", 'has one output, called "output"; this one has "scores"'),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(
    full: str, made: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends 2, says why, and leaves no file."""
    onnx.save(convolutional(), tmp_path / "full.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    renamed = convolutional()
    renamed.graph.node[-1].output[0] = renamed.graph.output[0].name = "scores"
    onnx.save(renamed, tmp_path / "renamed.onnx")
    before = sorted(tmp_path.rglob("*"))
    assert main([str(tmp_path / full), str(tmp_path / made)]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_graph_that_the_zoo_cannot_hold_is_named() -> None:
    """Open dimensions besides the batch, odd datatypes and faults at run time are reported."""
    open_width = with_weights({})
    open_width.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width"
    words = with_weights({})
    for value in (words.graph.input[0], words.graph.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.STRING
    broken = convolutional()
    broken.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    for model, message in (
        (open_width, "an open dimension besides the first"),
        (words, "is of the ONNX type STRING"),
        (broken, "cannot run the graph on zeros of the shape 1x4x8x8"),
    ):
        with pytest.raises(UnfitModelError, match=message):
            describe(model, Calibration((), 0, 0, {}), "classification/odd", "")
