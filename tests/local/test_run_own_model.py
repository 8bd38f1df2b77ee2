"""A custom ONNX file is measured, wherever it lies and whatever its inputs are."""

import functools
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from typing_extensions import override

from support.local_runs import Done, done, together
from support.loopback_tls import certificate_file, server_context
from support.onnx_models import (
    add,
    fixed_batch,
    identity,
    open_axes,
    save,
    write_with_external_data,
)

CALM: dict[str, Any] = {"server": {"targetQps": 20}}
"""A scenario that leaves the cores to other runs."""


@contextmanager
def _https(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTPS and yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = server_context(folder).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    @override
    def log_message(self, *_: object) -> None:
        """Say nothing on the test's standard error."""


def _with_inputs(folder: Path, model: ModelProto, **arrays: np.ndarray[Any, Any]) -> Path:
    folder.mkdir()
    save(model, folder / "model.onnx")
    with zipfile.ZipFile(folder / "inputs.npz", "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, array)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """All runs, three at a time."""
    folder = tmp_path_factory.mktemp("own")
    external = folder / "external"
    (external / "models").mkdir(parents=True)
    write_with_external_data(external / "models")
    of_file = {"load": {"inputs": {"file": {"uri": "file:inputs.npz"}}}}
    images = np.random.default_rng(1).random((5, 3, 6, 7), dtype=np.float32)
    npz = _with_inputs(folder / "npz", open_axes(), image=images)
    pair = np.ones((4, 4), np.float32)
    two = _with_inputs(folder / "two", add(), left=pair, right=pair)
    served = folder / "served"
    served.mkdir()
    checksum = hashlib.sha256(save(identity(), served / "tiny.onnx").read_bytes()).hexdigest()
    trust = {"SSL_CERT_FILE": str(certificate_file(served))}
    with _https(served) as address:
        web = {"uri": f"{address}/tiny.onnx", "sha256": checksum}
        wrong = {"uri": f"{address}/tiny.onnx", "sha256": "1" * 64}
        with together(
            {
                "external data": lambda: done(
                    external, CALM, spec={"model": {"uri": "file:models/model.onnx"}}
                ),
                "fixed batch": lambda: done(
                    folder / "fixed", CALM, {"batch": {"batchSizes": [2]}}, model=fixed_batch()
                ),
                "open axes": lambda: done(
                    folder / "open",
                    {"batch": {"batchSizes": [1, 3]}},
                    model=open_axes(),
                    spec={"load": {"inputs": {"random": {"shapes": {"image": [1, 3, 5, 9]}}}}},
                ),
                "npz": lambda: done(npz, {"batch": {"batchSizes": [2]}}, spec=of_file),
                "two inputs": lambda: done(two, CALM, spec=of_file),
                "https": lambda: done(folder / "https", CALM, spec={"model": web}, env=trust),
                "https, wrong checksum": lambda: done(
                    folder / "wrong", CALM, spec={"model": wrong}, env=trust
                ),
            },
            at_once=3,
        ) as futures:
            yield futures


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("external data", [-1, 4]),
        ("fixed batch", [2, 3]),
        ("open axes", [-1, 3, -1, -1]),
        ("npz", [-1, 3, -1, -1]),
        ("two inputs", [-1, 4]),
        ("https", [-1, 4]),
    ],
)
def test_a_model_of_ones_own_is_measured(
    runs: dict[str, Future[Done]], name: str, shape: list[int]
) -> None:
    """Data next to the model, fixed and open axes, inputs from a file, and the web all work."""
    run = runs[name].result()
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured")
    for scenario in run.result.scenarios:
        for step in scenario.steps:
            assert step.counts.failed == 0, step.error_examples
            assert step.counts.succeeded > 0
    assert run.result.environment is not None
    assert run.result.environment.model.inputs[0].shape == shape
    assert run.left_behind == []
    assert run.temporary == []


def test_another_file_than_the_one_meant_is_refused(runs: dict[str, Future[Done]]) -> None:
    """A file from the web whose checksum is another ends the run with 2, before any server."""
    run = runs["https, wrong checksum"].result()
    assert run.ended.code == 2
    assert f"should have the sha256 {'1' * 64}, but has " in run.ended.sentence
    assert "starting the server" not in run.ended.stderr
    assert run.temporary == []
