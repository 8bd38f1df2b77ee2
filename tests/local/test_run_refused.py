"""A run that cannot be done is refused before it starts.

Exit code 2, one sentence with what failed, why and what to do, nothing left behind.
"""

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.inferometer_process import started
from support.local_runs import Done, done, together
from support.onnx_models import identity, open_axes, save, unsupported_operator

SINGLE: dict[str, Any] = {"singleStream": {}}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Every run that cannot be, three at a time."""
    folder = tmp_path_factory.mktemp("refused")
    text = folder / "text"
    text.mkdir()
    (text / "model.onnx").write_text("This is no model.")
    inputs = folder / "inputs"
    inputs.mkdir()
    np.savez(inputs / "inputs.npz", x=np.zeros((3, 5), np.float32))
    runs = {
        "missing": lambda: done(
            folder / "missing", SINGLE, spec={"model": {"uri": "file:nowhere.onnx"}}
        ),
        "text": lambda: done(text, SINGLE),
        "checksum": lambda: done(
            folder / "checksum",
            SINGLE,
            spec={"model": {"uri": "file:model.onnx", "sha256": "0" * 64}},
        ),
        "operator": lambda: done(folder / "operator", SINGLE, model=unsupported_operator()),
        "shape": lambda: done(
            folder / "shape",
            SINGLE,
            model=open_axes(),
            spec={"load": {"inputs": {"random": {"shapes": {"image": [1, 4, 8, 8]}}}}},
        ),
        "inputs": lambda: done(
            inputs, SINGLE, spec={"load": {"inputs": {"file": {"uri": "file:inputs.npz"}}}}
        ),
        "device": lambda: done(folder / "device", SINGLE, spec={"server": {"device": "GPU"}}),
    }
    with together(runs, at_once=3) as futures:
        yield futures


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("missing", ("Model file not found: ", "Relative paths start in ")),
        ("text", ("model.onnx is not an ONNX model: its content has another format.",)),
        ("checksum", (f"should have the sha256 {'0' * 64}, but has ", "Correct the checksum")),
        ("operator", ("uses the operator com.example:Frobnicate, which ONNX Runtime ",)),
        (
            "shape",
            ("load.inputs.random.shapes gives 'image' the shape [1, 4, 8, 8]", "axis 1 is 3"),
        ),
        (
            "inputs",
            ("inputs.npz gives 'x' an array of type float32 and shape [3, 5]", "FP32 [-1, 4]"),
        ),
        ("device", ("The device GPU was requested, but ONNX Runtime ",)),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_sentence(
    refused: dict[str, Future[Done]], name: str, sentences: tuple[str, ...]
) -> None:
    """Model, checksum, operator, shape and device each end 2, said once and in one line."""
    run = refused[name].result()
    assert run.ended.code == 2, run.ended.stderr
    for sentence in sentences:
        assert sentence in run.ended.sentence
    assert "\n" not in run.ended.sentence
    assert "refused:" not in run.ended.stderr
    assert run.ended.stderr.count("inferometer: ") == 1
    assert run.ended.stdout == ""
    assert run.left_behind == []
    assert run.temporary == []
    assert not run.directory.exists()


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    """`inferometer serve` on a port that someone has ends 2 and names the port."""
    save(identity(), tmp_path / "model.onnx")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("serve", "file:model.onnx", "--http-port", port, "--grpc-port", "0")
        with started(tmp_path, *words) as process:
            ended = process.ended()
    assert ended.code == 2
    assert f"port {port}" in ended.stderr.lower()
    assert "Traceback" not in ended.stderr


def test_serving_ends_gracefully_on_request(tmp_path: Path) -> None:
    """`inferometer serve` prints its ports, ends 0 on SIGTERM, and leaves no temporary folder."""
    words = ("serve", "zoo://classification/squeezenet1_1", "--http-port", "0", "--grpc-port", "0")
    with started(tmp_path, *words) as process:
        process.wait_for("event=ready")
        assert [path.name for path in process.temporary.iterdir()] != []
        ended = process.signal(signal.SIGTERM).ended()
        assert ended.code == 0
        assert list(process.temporary.iterdir()) == []
    assert '"event":"listening"' in ended.stdout
