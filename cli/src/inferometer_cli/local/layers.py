"""The layers of models on this machine: found and timed by child processes, and kept in files."""

import asyncio
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from inferometer_api.document import Document
from inferometer_api.layers.bricks import BrickSuite, BrickTimings
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.spec.zoo_address import UnknownModelError
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local.child_process import ChildProcess, describe_exit
from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_fetch.errors import FetchFailedError
from inferometer_models import zoo

_MODULE = "inferometer_serving.layers"
_REFUSED = "refused: "
_GRACE_SECONDS = 1.0
_ZOO = "zoo://"


@dataclass(frozen=True, slots=True)
class Setting:
    """What the layers of a model and their times depend on."""

    batch_size: int
    threads: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of a child process."""
        return "--batch-size", str(self.batch_size), "--threads", str(self.threads)


def model_files(names: Sequence[str]) -> list[Path]:
    """Return the ONNX file of each model; `zoo://` and `zoo://TASK/` mean all built-in ones there.

    Raises RefusedError if there is no such model, FailedError if the cache cannot be written.
    """
    found: list[Path] = []
    for name in names:
        if not name.startswith(_ZOO):
            path = Path(name)
            if not path.is_file():
                raise RefusedError(f"The model {name} is not there. Check the path.")
            found.append(path)
            continue
        wanted = name.removeprefix(_ZOO)
        full = [each for each in zoo.names() if each.startswith(wanted)]
        if wanted and not wanted.endswith("/"):
            full = [wanted]
        try:
            found += [cached_model(zoo.entry(each), zoo_cache()) for each in full]
        except UnknownModelError as error:
            raise RefusedError(str(error)) from error
        except FetchFailedError as error:
            raise FailedError(str(error)) from error
    return list(dict.fromkeys(found))


def describe_model(path: Path, setting: Setting) -> LayerGraph:
    """Return the layers of a model. Raises RefusedError if they cannot be found."""
    last = asyncio.run(_child(("describe", str(path), *setting.arguments), lambda _: None))
    return LayerGraph.read_json(last)


def time_suite(
    suite: BrickSuite,
    models: Sequence[Path],
    setting: Setting,
    *,
    rounds: int,
    report: Callable[[int, int], None],
) -> BrickTimings:
    """Return the times of the bricks of a suite and of whole models in the same rounds.

    `report` gets how many of them are done, and of how many.
    """

    def watch(line: bytes) -> None:
        event = json.loads(line)
        report(event["done"], event["total"])

    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        file = Path(folder) / "suite.json"
        file.write_text(suite.model_dump_json(exclude_none=True))
        arguments = ["time", str(file), *setting.arguments, "--rounds", str(rounds)]
        arguments += ["--cpu", cpu_name()]
        for each in models:
            arguments += ["--model", str(each)]
        return BrickTimings.read_json(asyncio.run(_child(arguments, watch)))


class TimingFile:
    """The times that this machine knows, for one engine and number of threads."""

    def __init__(self, engine_version: str, threads: int) -> None:
        """Find the file; it need not exist."""
        from inferometer_results.store.database import data_folder

        key = hashlib.sha256(f"{cpu_name()} {engine_version} {threads}".encode()).hexdigest()[:12]
        self.path = data_folder() / "bricks" / f"{key}.json"

    def read(self) -> BrickTimings | None:
        """Return what it holds; None if nothing was timed yet. Raises FailedError if damaged."""
        try:
            return BrickTimings.read_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise FailedError(
                f"The times of bricks in {self.path} cannot be read "
                f"({' '.join(str(error).split())[:160]}). Move the file away; "
                "`inferometer bricks run` makes a new one."
            ) from error

    def add(self, timings: BrickTimings) -> BrickTimings:
        """Add times, which replace those of the same bricks; return all."""
        known = self.read()
        if known is not None:
            bricks = known.bricks | timings.bricks
            timings = timings.model_copy(
                update={
                    "bricks": bricks,
                    "failed": {
                        key: reason
                        for key, reason in (known.failed | timings.failed).items()
                        if key not in bricks
                    },
                    "models": known.models | timings.models,
                    "seconds": known.seconds + timings.seconds,
                }
            )
        write_document(self.path, timings)
        return timings


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


def cpu_name() -> str:
    """Return the name of the CPU as Linux knows it; empty if it does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return ""


async def _child(arguments: Sequence[str], watch: Callable[[bytes], None]) -> bytes:
    """Return the last line of a child's output, which is its document; `watch` gets the others."""
    child = await ChildProcess.start(
        "layers", (sys.executable, "-m", _MODULE, *arguments), env={"OMP_NUM_THREADS": "1"}
    )
    try:
        last = b""
        async for line in child.lines():
            if last:
                watch(last)
            last = line
        code = await child.wait()
    finally:
        await child.stop(grace_seconds=_GRACE_SECONDS)
    if code:
        sentence = child.last_line()
        if sentence.startswith(_REFUSED):
            raise RefusedError(sentence.removeprefix(_REFUSED))
        raise FailedError(
            f"The layers could not be measured: {describe_exit(code)}. {child.last_lines()}"
        )
    return last
