"""Opens models on a GPU with weights of their own and with weights that a broker shares.

`python -m bench.gpu_weights turns MODEL FOLDER` opens the model both ways in turns, in one process.
`hold MODEL [FOLDER]` opens it once and keeps it until its input ends; `holdWarm` readies CUDA
before. FOLDER has the broker's socket. All print JSON.
"""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import structlog
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.gpu.device import call, open_gpu
from inferometer_serving.model.onnx_runtime import load
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.model_forms.measure import write_tiny
from inferometer_serving.options import Device

RUNS = 100
"""Inferences after the first, whose median is the steady latency."""
ROUNDS = 5
_WEIGHTS_FILE = "weights"
_CHECKED = dict.fromkeys(("model.onnx", "tiny.onnx", _WEIGHTS_FILE), "0" * 64)
"""Stands for checksums that a cache has verified: files are not read for theirs."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A model with real-size weights."""

    name: str
    path: Path
    weight_bytes: int


def write_models(folder: Path) -> tuple[GpuModel, ...]:
    """Write products, convolutions and feed-forward blocks, their weights as external data.

    Models that are in the folder already stay as they are.
    """
    made = (
        ("products", partial(_products, 4096, 5)),
        ("convolutions", partial(_convolutions, 512, 12)),
        ("feed-forward", partial(_blocks, 1024, 12)),
    )
    return tuple(
        GpuModel(name, path, (path.parent / _WEIGHTS_FILE).stat().st_size)
        for name, parts in made
        for path in (_write_model(folder / name, parts),)
    )


_Parts = tuple[list[onnx.NodeProto], list[onnx.TensorProto], list[int]]


def _products(width: int, layers: int) -> _Parts:
    nodes = [
        helper.make_node("MatMul", [f"x{each}", f"w{each}"], [f"x{each + 1}"])
        for each in range(layers)
    ]
    return nodes, [_weight(f"w{each}", (width, width)) for each in range(layers)], [1, width]


def _convolutions(channels: int, layers: int) -> _Parts:
    nodes = [
        helper.make_node("Conv", [f"x{each}", f"w{each}"], [f"x{each + 1}"], pads=[1, 1, 1, 1])
        for each in range(layers)
    ]
    weights = [_weight(f"w{each}", (channels, channels, 3, 3)) for each in range(layers)]
    return nodes, weights, [1, channels, 14, 14]


def _blocks(width: int, layers: int) -> _Parts:
    """Return the feed-forward parts of a transformer, with normalisation and GELU."""
    nodes, weights = [], []
    for at in range(layers):
        names = {
            f"scale{at}": (width,),
            f"shift{at}": (width,),
            f"up{at}": (width, 4 * width),
            f"b{at}": (4 * width,),
            f"down{at}": (4 * width, width),
            f"c{at}": (width,),
        }
        weights += [_weight(name, shape) for name, shape in names.items()]
        nodes += [
            helper.make_node(
                "LayerNormalization", [f"x{at}", f"scale{at}", f"shift{at}"], [f"n{at}"]
            ),
            helper.make_node("MatMul", [f"n{at}", f"up{at}"], [f"u{at}"]),
            helper.make_node("Add", [f"u{at}", f"b{at}"], [f"v{at}"]),
            helper.make_node("Gelu", [f"v{at}"], [f"g{at}"]),
            helper.make_node("MatMul", [f"g{at}", f"down{at}"], [f"d{at}"]),
            helper.make_node("Add", [f"d{at}", f"c{at}"], [f"e{at}"]),
            helper.make_node("Add", [f"e{at}", f"x{at}"], [f"x{at + 1}"]),
        ]
    return nodes, weights, [128, width]


def _weight(name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
    rng = np.random.default_rng(len(name) + sum(name.encode()))
    return numpy_helper.from_array(rng.standard_normal(shape, np.float32) * 0.02, name)


def _write_model(folder: Path, parts: Callable[[], _Parts]) -> Path:
    path = folder / "model.onnx"
    if path.exists():
        return path
    nodes, weights, shape = parts()
    folder.mkdir(parents=True)
    names = ("x0", nodes[-1].output[0])
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in names]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save_model(model, path, save_as_external_data=True, location=_WEIGHTS_FILE)
    return path


@contextmanager
def running_broker(folder: Path, *words: str) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """Run a broker with its socket in this folder; yield its process and what it printed."""
    command = [sys.executable, "-m", "inferometer_serving.gpu.broker", "--gpu", "0"]
    with subprocess.Popen(
        [*command, "--folder", str(folder), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, _line(process)
        finally:
            process.send_signal(signal.SIGTERM)


def in_turns(model: Path, folder: Path) -> Any:
    """Return the medians and outputs of both ways, in one process of their own."""
    with _program("turns", str(model), str(folder)) as process:
        return _line(process)


@dataclass(frozen=True, slots=True)
class Server:
    """A process that has a model open."""

    process: "subprocess.Popen[str]"
    report: Any

    def again(self) -> Any:
        """Let it compute once more; return its report."""
        if self.process.stdin is not None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        return _line(self.process)


@contextmanager
def hold(
    model: Path,
    folder: Path | None,
    count: int,
    *,
    is_warm: bool = False,
    user: int | None = None,
) -> Iterator[list[Server]]:
    """Keep the model open in several processes, which start at once.

    `user` is the number of the user that they run as; None: this process's own.
    """
    words = ["holdWarm" if is_warm else "hold", str(model)]
    words += [] if folder is None else [str(folder)]
    with ExitStack() as stack:
        processes = [stack.enter_context(_program(*words, user=user)) for _ in range(count)]
        yield [Server(each, _line(each)) for each in processes]


@contextmanager
def _program(*words: str, user: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.gpu_weights", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=user,
    ) as process:
        yield process


def _line(process: "subprocess.Popen[str]") -> Any:
    line = "" if process.stdout is None else process.stdout.readline()
    if not line:
        raise RuntimeError("A process that opened a model ended early; its message is above.")
    return json.loads(line)


def _open(graph: GraphFile, folder: Path | None) -> tuple[Session, float]:
    settings = EngineSettings(device=Device.GPU, weight_broker=folder)
    began = time.perf_counter()
    session = load(graph, settings, Interrupt())
    return session, (time.perf_counter() - began) * 1e3


def _run(session: Session, sample: Mapping[str, NDArray[Any]]) -> tuple[Any, float]:
    began = time.perf_counter()
    names = [each.name for each in session.signature.outputs]
    (found,) = session.runner.run(names, dict(sample))
    return found, (time.perf_counter() - began) * 1e3


def _graph(path: Path) -> GraphFile:
    return read_graph(path, max_bytes=8 << 30, known_sha256=_CHECKED)


def _sample(session: Session) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    return {
        each.name: rng.standard_normal(each.shape, np.float32) for each in session.signature.inputs
    }


def _turns(path: Path, folder: Path) -> dict[str, Any]:
    graph = _graph(path)
    _open(graph, None)  # CUDA and its libraries are ready from now on
    sides: dict[str, dict[str, list[float]]] = {
        name: {"load": [], "first": [], "steady": []} for name in ("own", "shared")
    }
    outputs, facts, device_bytes = {}, {}, {}
    for _ in range(ROUNDS + 1):
        for name, broker in (("own", None), ("shared", folder)):
            free = _free_bytes()
            session, load_ms = _open(graph, broker)
            sample = _sample(session)
            device_bytes[name] = free - _free_bytes()
            outputs[name], first_ms = _run(session, sample)
            steady = statistics.median(_run(session, sample)[1] for _ in range(RUNS))
            facts[name] = session.facts.get("weights", "own")
            for figure, value in (("load", load_ms), ("first", first_ms), ("steady", steady)):
                sides[name][figure].append(value)
            session.unload()
            del session
    return {
        **{
            f"{name}Milliseconds": {key: statistics.median(all_[1:]) for key, all_ in each.items()}
            for name, each in sides.items()
        },
        "firstLoadMilliseconds": {name: each["load"][0] for name, each in sides.items()},
        "largestDifference": float(np.abs(outputs["own"] - outputs["shared"]).max()),
        "largestOutput": float(np.abs(outputs["own"]).max()),
        "deviceBytes": device_bytes,
        "weights": facts,
    }


def _free_bytes() -> int:
    """Return the free memory of the GPU, whose context is this process's current one."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return int(call(driver.cuMemGetInfo)[0])


def main() -> int:
    """Open a model as the command line says; return the exit code."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    kind, path, *rest = sys.argv[1:]
    folder = Path(rest[0]) if rest else None
    with open_gpu():
        if kind == "turns" and folder is not None:
            _print(_turns(Path(path), folder))
        else:
            _hold(Path(path), folder, is_warm=kind == "holdWarm")
    return 0


def _hold(path: Path, folder: Path | None, *, is_warm: bool) -> None:
    graph = _graph(path)
    if is_warm:
        with TemporaryDirectory() as tiny:
            _open(_graph(write_tiny(Path(tiny)).model), None)
    session, load_ms = _open(graph, folder)
    sample = _sample(session)
    output, first_ms = _run(session, sample)
    report = {
        "loadMilliseconds": load_ms,
        "firstMilliseconds": first_ms,
        "steadyMilliseconds": statistics.median(_run(session, sample)[1] for _ in range(RUNS)),
        "weights": session.facts.get("weights", "own"),
    }
    while True:
        _print(
            {**report, "sum": float(output.astype(np.float64).sum()), "freeBytes": _free_bytes()}
        )
        if not sys.stdin.readline():
            return
        output, _ = _run(session, sample)


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
