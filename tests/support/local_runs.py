"""Runs many short runs at once, and keeps what each left.

Sequential tests over processes that mostly wait would take minutes: a module's runs are started
together, a few at a time, and each test waits for its own.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from inferometer_api.results.result import ResultDocument
from support.inferometer_process import (
    Ended,
    Inferometer,
    result_in,
    run_file,
    started,
)
from support.onnx_models import identity, save
from support.waiting import DEADLINE_SECONDS

Act = Callable[[Inferometer], object]
"""Something done to a run while it works."""


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has ended, and all that it left."""

    ended: Ended
    left_behind: list[int]
    """Processes that outlived it."""
    temporary: list[str]
    """What stands in its temporary folder."""
    files: list[str]
    """Names of the files in its output directory."""
    result: ResultDocument | None
    directory: Path

    @property
    def outcome(self) -> tuple[str, str]:
        """State and reason of the kept result's outcome."""
        if self.result is None:
            raise AssertionError(f"no result was kept:\n{self.ended.stderr}")
        return self.result.outcome.state, self.result.outcome.reason


def nothing(_: Inferometer) -> None:
    """Leave the run alone."""


def done(
    folder: Path,
    *scenarios: Mapping[str, Any],
    act: Act = nothing,
    model: ModelProto | None = None,
    spec: Mapping[str, Any] | None = None,
    validity: Mapping[str, Any] | None = None,
    words: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    within_seconds: float = DEADLINE_SECONDS,
    output: str = "out",
    file: Path | None = None,
) -> Done:
    """Run scenarios against a tiny model of one's own, do something to it, and wait for the end.

    `within_seconds` is how long the end may take after `act`; `file` a run file to take instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if file is None:
        if not (folder / "model.onnx").exists():
            save(model or identity(), folder / "model.onnx")
        file = run_file(folder, *scenarios, spec=spec, validity=validity)
    directory = folder / output
    with started(folder, "run", str(file), "--output", output, *words, env=env) as process:
        act(process)
        ended = process.ended(within_seconds)
        left_behind = process.left_behind()
        files = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
        return Done(
            ended=ended,
            left_behind=left_behind,
            temporary=sorted(path.name for path in process.temporary.iterdir()),
            files=files,
            result=result_in(directory) if "result.json" in files else None,
            directory=directory,
        )


@contextmanager
def together(
    runs: Mapping[str, Callable[[], Done]], at_once: int
) -> Iterator[dict[str, Future[Done]]]:
    """Start all runs, so many at once, and yield each one's future by its name."""
    with ThreadPoolExecutor(at_once) as pool:
        yield {name: pool.submit(run) for name, run in runs.items()}
        pool.shutdown(cancel_futures=True)
