"""The layers of models on this machine: found and timed by child processes, and kept."""

import asyncio
import contextlib
import glob
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from inferometer_api.document import Document
from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.graph import LayerGraph, Layout
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import ModelVariant
from inferometer_api.spec.zoo_address import UnknownModelError
from inferometer_api.timestamps import format_time
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local.child_process import output_document
from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_fetch.errors import FetchFailedError
from inferometer_models import zoo
from inferometer_serving.machine_name import engine_versions, machine_name
from inferometer_serving.node.machine import available_bytes

if TYPE_CHECKING:
    from inferometer_results.store.store import Store

_MODULE = "inferometer_serving.layers"
_NAME = "measurement of the layers"
_MOST_PROCESSES = 8
_MEMORY_BY_MODEL = 6
"""A process that describes a model holds its weights several times."""
_ZOO = "zoo://"
_NOTHING = BrickSuite(engine="", engine_version="", granularity=1, layers={}, bricks={})


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """What the layers of a model and their times depend on."""

    batch_size: int = 1
    threads: int = 1
    layout: Layout = "Blocked"
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Whole shapes of inputs with open axes other than the batch, by name."""
    device: Literal["CPU", "GPU"] = "CPU"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of a child process."""
        sizes = ("--batch-size", str(self.batch_size), "--threads", str(self.threads))
        device = () if self.device == "CPU" else ("--device", self.device)
        return *sizes, "--layout", self.layout, "--shapes", json.dumps(dict(self.shapes)), *device


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """What is to be timed, and how."""

    settings: LayerSettings
    suite: BrickSuite = _NOTHING
    models: Sequence[Path] = ()
    """Whole models, for reference."""
    variants: Sequence[ModelVariant] = ()
    engines: Sequence[str] = ()
    """Engines whose kernels are timed; none: the bricks are timed by calls of ONNX Runtime."""
    precision: str = "Default"
    rounds: int = 8
    uses: Sequence[Mapping[str, int]] = ()
    """How often each model runs each brick, by key: what is a small part of all needs few rounds.
    """


def model_files(names: Sequence[str]) -> list[Path]:
    """Return the ONNX file of each model; `zoo://` and `zoo://TASK/` mean all built-in ones there.

    Raises RefusedError if there is no such model, FailedError if the cache cannot be written.
    """
    found: list[Path] = []
    for name in names:
        if not name.startswith(_ZOO):
            path = Path(name)
            if not path.is_file():
                raise RefusedError(
                    f"Model file not found: {name}. Relative paths start in {Path.cwd()}."
                )
            found.append(path)
            continue
        wanted = name.removeprefix(_ZOO)
        full = [each for each in zoo.names() if each.startswith(wanted)]
        if wanted and not wanted.endswith("/"):
            full = [wanted]
        if not full:
            raise RefusedError(
                f"No built-in model begins with {name}. `inferometer models` lists them all."
            )
        try:
            entries = [zoo.entry(each) for each in full]
            # Hashing frees the interpreter.
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                found += pool.map(cached_model, entries, repeat(zoo_cache()))
        except UnknownModelError as error:
            raise RefusedError(str(error)) from error
        except FetchFailedError as error:
            raise FailedError(str(error)) from error
    return list(dict.fromkeys(found))


def describe_model(path: Path, settings: LayerSettings) -> LayerGraph:
    """Return the layers of a model. Raises RefusedError if they cannot be found."""
    found: list[LayerGraph | str] = []
    describe_models([path], settings, lambda _, layers: found.append(layers))
    (layers,) = found
    if isinstance(layers, str):
        raise RefusedError(layers)
    return layers


def describe_models(
    paths: Sequence[Path],
    settings: LayerSettings,
    report: Callable[[Path, LayerGraph | str], None],
) -> None:
    """Report the layers of each model once they are known, or the reason why they are not.

    Nothing is timed here, so several processes share the models. The models that a process leaves
    when it ends early, killed for its memory perhaps, are described one at a time. Raises
    FailedError if the process of an only model ends early.
    """
    with _child_environment() as env:
        asyncio.run(_describe_all(paths, settings, env, report))


async def _describe_all(
    paths: Sequence[Path],
    settings: LayerSettings,
    env: Mapping[str, str],
    report: Callable[[Path, LayerGraph | str], None],
) -> None:
    found = _DescribedModels(report)

    async def describe(share: Sequence[Path]) -> FailedError | None:
        command = _command(("describe", *map(str, share), *settings.arguments))
        try:
            await output_document(_NAME, command, found.reader(), env=env)
        except FailedError as error:
            return error
        return None

    failures = await asyncio.gather(*map(describe, _shares(paths)))
    if len(paths) == 1 and failures[0] is not None:
        raise failures[0]
    for path in [each for each in paths if str(each) not in found.reported]:
        if failure := await describe([path]):
            report(path, f"The layers of the model {path} cannot be found. {failure}")


class _DescribedModels:
    """The models in the output of processes that describe them, each reported once."""

    def __init__(self, report: Callable[[Path, LayerGraph | str], None]) -> None:
        self._report = report
        self.reported: set[str] = set()

    def reader(self) -> Callable[[bytes], None]:
        """Return what takes the lines of one process."""
        described = ""

        def take(line: bytes) -> None:
            nonlocal described
            if described:
                self._keep(described, LayerGraph.read_json(line))
                described = ""
                return
            event = json.loads(line)
            if event["event"] == "described":
                described = event["model"]
            else:
                self._keep(event["model"], event["reason"])

        return take

    def _keep(self, model: str, found: LayerGraph | str) -> None:
        # After a crash the process begins anew, without the model that caused it.
        if model not in self.reported:
            self.reported.add(model)
            self._report(Path(model), found)


def _shares(paths: Sequence[Path]) -> list[Sequence[Path]]:
    """Return the models of each process: as many as there are CPUs, and memory for them."""
    largest = max(map(_model_bytes, paths))
    affordable = available_bytes() // (_MEMORY_BY_MODEL * largest + 1)
    count = max(1, min(len(paths), len(os.sched_getaffinity(0)), affordable, _MOST_PROCESSES))
    return [paths[at::count] for at in range(count)]


def _model_bytes(path: Path) -> int:
    """Return the size of a model with the weights in files next to it; 0 if it cannot be read."""
    with contextlib.suppress(OSError):
        return sum(each.stat().st_size for each in path.parent.glob(f"{glob.escape(path.name)}*"))
    return 0


def rewritten_model(path: Path, kind: str, settings: LayerSettings) -> Path:
    """Return a rewritten model, which is kept; raises RefusedError if there is none."""
    from inferometer_models.graph_file import read_graph
    from inferometer_results.store.database import data_folder

    sha256 = read_graph(path, max_bytes=1 << 40).sha256
    facts = json.dumps([sha256, *settings.arguments, engine_versions()], sort_keys=True)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    output = data_folder() / "rewritten" / f"{path.stem}-{kind.lower()}-{digest}.onnx"
    if not output.is_file():
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FailedError(f"Cannot write {output}: {error.strerror or error}.") from error
        _child_document(("rewrite", str(path), kind, str(output), *settings.arguments))
    return output


def time_layers(request: TimingRequest, report: Callable[[int, int], None]) -> LayerTimings:
    """Return timings of bricks or kernels, and of whole models.

    `report` gets how many of them are done, and of how many. Raises RefusedError if no variant of
    the model can run.
    """

    def watch(line: bytes) -> None:
        event = json.loads(line)
        if event.get("event") == "progress":
            report(event["done"], event["total"])

    with tempfile.TemporaryDirectory(prefix="inferometer-") as name:
        folder = Path(name)
        suite, variants, uses = (folder / f"{each}.json" for each in ("suite", "variants", "uses"))
        suite.write_text(request.suite.model_dump_json(exclude_none=True))
        variants.write_text(json.dumps([each.fields for each in request.variants]))
        uses.write_text(json.dumps([dict(each) for each in request.uses]))
        arguments = ["time", str(suite), "--variants", str(variants), "--uses", str(uses)]
        arguments += [*request.settings.arguments, "--rounds", str(request.rounds)]
        arguments += ["--precision", request.precision]
        for engine in request.engines:
            arguments += ["--engine", engine]
        for each in request.models:
            arguments += ["--model", str(each)]
        return LayerTimings.read_json(_child_document(arguments, watch))


def known_here(
    store: "Store", threads: int, device: str = "CPU", *, with_graphs: bool = False
) -> LayerTimings | None:
    """Return what the database knows of this machine, its engines and a number of threads.

    `with_graphs`: also the models that the layers are from, with which times are interpolated.
    With the device GPU the machine is the GPU, and one thread launches its kernels. Raises
    RefusedError if there is none.
    """
    from inferometer_results.store.layer_timings import known_timings

    if device == "CPU":
        return known_timings(
            store, machine_name(), threads, engine_versions(), with_graphs=with_graphs
        )
    return known_timings(store, gpu_name(), 1, engines_here(device), with_graphs=with_graphs)


def engines_here(device: str) -> dict[str, str]:
    """Return the versions of the engines of a device that are installed."""
    if device == "CPU":
        return engine_versions()
    from inferometer_serving.gpu.identity import gpu_engine_versions

    return gpu_engine_versions()


def gpu_name() -> str:
    """Return the model of the GPU and its driver. Raises RefusedError if there is none."""
    from inferometer_serving.gpu.device import GpuUnavailableError
    from inferometer_serving.gpu.identity import gpu_machine_name

    try:
        return gpu_machine_name()
    except GpuUnavailableError as error:
        raise RefusedError(
            f"There is no GPU to measure on: {error}. Install the extra 'gpu' on a machine with an "
            "NVIDIA GPU, or use --device CPU."
        ) from error


def keep_here(store: "Store", timings: LayerTimings, graphs: Sequence[LayerGraph]) -> None:
    """Keep timings in the database, with the models that their layers are from."""
    from inferometer_results.store.layer_timings import keep_timings

    now = format_time(datetime.now(tz=UTC))
    keep_timings(store, timings.model_copy(update={"graphs": list(graphs)}), now, "layers")


def write_document(path: Path, document: Document) -> None:
    """Write a document at once or not at all. Raises FailedError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(document.model_dump_json(exclude_none=True))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FailedError(f"Cannot write {path}: {error.strerror or error}.") from error


def _child_document(
    arguments: Sequence[str], watch: Callable[[bytes], None] = lambda _: None
) -> bytes:
    """Return the document of a child process; `watch` gets every line of its output."""
    with _child_environment() as env:
        return asyncio.run(output_document(_NAME, _command(arguments), watch, env=env))


@contextlib.contextmanager
def _child_environment() -> Iterator[dict[str, str]]:
    """Yield what children have in addition: a folder for their files, which killed ones leave."""
    with tempfile.TemporaryDirectory(prefix="inferometer-", ignore_cleanup_errors=True) as folder:
        yield {"OMP_NUM_THREADS": "1", "TMPDIR": folder}


def _command(arguments: Sequence[str]) -> tuple[str, ...]:
    return sys.executable, "-m", _MODULE, *arguments
