"""Benchmarks of a model's layers on this machine, in a process of their own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer_analysis.bound import GraphLayer, Timing
from inferometer_cli.commands.serve import fetched_model
from inferometer_cli.exits import FailedError, RefusedError

_REFUSED = 2


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """How the layers are run."""

    threads: int = 1
    batch_size: int = 1
    precision: str = "FP32"
    rounds: int = 7
    shapes: tuple[str, ...] = ()
    """Whole shapes of inputs with open axes other than the batch, as NAME=1,3,224,224."""
    variants: tuple[str, ...] = ()
    """Ways to run the whole model, as ENGINE:PRECISION:THREADS; by default one for each engine."""


@dataclass(frozen=True, slots=True)
class LayerBenchmark:
    """The layers of a model, what was timed, and the whole model in the same rounds."""

    layers: tuple[GraphLayer, ...]
    timings: tuple[Timing, ...]
    failures: tuple[str, ...]
    """Layers that an engine could not run alone, one sentence each."""
    measured_ns: Mapping[str, tuple[int, ...]]
    """Durations of the whole model by engine."""
    precisions: Mapping[str, str]
    """The effective precision of the whole model by engine."""
    differences: Mapping[str, float]
    """The largest difference of an output from the first variant's, in its deviations."""
    flops_per_second: float
    bytes_per_second: float


def benchmark_layers(
    uri: str, settings: BenchmarkSettings, known: Mapping[str, Sequence[str]], *, fill: bool
) -> LayerBenchmark:
    """Return the layers of a model, and timings of those that are not `known` if `fill`.

    Raises RefusedError if the model cannot be taken apart.
    """
    with tempfile.TemporaryDirectory(prefix="inferometer-") as name:
        folder = Path(name)
        model = fetched_model(uri, None, folder)
        (folder / "known.json").write_text(json.dumps(dict(known)), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "inferometer_serving.bounds"),
            *("--model", str(model.path), "--known", str(folder / "known.json")),
            *("--threads", str(settings.threads), "--precision", settings.precision),
            *("--batch-size", str(settings.batch_size), "--rounds", str(settings.rounds)),
            *(("--fill",) if fill else ()),
            *(f"--warm-up-shape={each}" for each in settings.shapes),
            *(word for each in settings.variants for word in ("--variant", each)),
        ]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - our own program
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()
        last = text.splitlines()[-1] if text else f"exit code {done.returncode}"
        error = RefusedError if done.returncode == _REFUSED else FailedError
        raise error(f"The layers of {uri} cannot be benchmarked: {last}")
    return read_benchmark(json.loads(done.stdout))


def read_benchmark(document: Mapping[str, Any]) -> LayerBenchmark:
    """Return the document of the benchmark's process."""
    names = {each["key"]: each["name"] for each in document["layers"]}
    measured = document["measured"]
    return LayerBenchmark(
        layers=tuple(
            GraphLayer(
                index=each["index"],
                name=each["name"],
                operator=each["operator"],
                key=each["key"],
                predecessors=tuple(each["predecessors"]),
                macs=each["macs"],
                moved_bytes=each["bytes"],
                is_view=each["isView"],
                why_not=each["whyNot"],
            )
            for each in document["layers"]
        ),
        timings=tuple(
            Timing(each["key"], each["engine"], each["precision"], each["nanoseconds"])
            for each in document["entries"]
        ),
        failures=tuple(
            f"{names.get(each['key'], each['key'])} cannot run alone on {each['engine']}: "
            f"{each['reason']}"
            for each in document["failures"]
        ),
        measured_ns={name: tuple(each["nanoseconds"]) for name, each in measured.items()},
        precisions={name: each["precision"] for name, each in measured.items()},
        differences={name: each["difference"] for name, each in measured.items()},
        flops_per_second=document["peaks"]["flopsPerSecond"],
        bytes_per_second=document["peaks"]["bytesPerSecond"],
    )
