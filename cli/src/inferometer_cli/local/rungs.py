"""Rungs of the overhead ladder: one model in this process, and behind servers."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from inferometer_analysis.overhead import Pair
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local.server import WAIT_ADVICE
from inferometer_cli.quick_run import QuickOptions, compose_run
from inferometer_cli.run_file import check_run, parse_run_text

Measure = Callable[[BenchmarkRun], ResultDocument]
_CHECKSUMS = ("model_sha256", "external_data_sha256")
"""Settings of a server that differ from model to model; not all servers report them."""


@dataclass(frozen=True, slots=True)
class LadderRung:
    """A way to the model, and what measures the median latency over it, in nanoseconds."""

    name: str
    median: Callable[[], float]


class LadderModel:
    """The model of a ladder: the checksums that the first rung with any has reported."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def check(self, rung: str, settings: Mapping[str, str]) -> None:
        """Raise RefusedError if the settings of a rung's server are those of another model."""
        for name in _CHECKSUMS:
            found = settings.get(name)
            if not found:
                continue
            first, known = self._known.setdefault(name, (rung, found))
            if found != known:
                raise RefusedError(
                    f"The rung {rung} serves another model than the rung {first}: its {name} is "
                    f"{found} instead of {known}. What a rung adds can be measured with one model "
                    "alone. Serve the same file on all rungs, or leave this rung out."
                )


def in_process(uri: str, folder: Path, seconds: float) -> LadderRung:
    """Return the rung without a server: the engine is called in this process, by one thread."""
    from inferometer_cli.commands.serve import fetched_model
    from inferometer_serving.model.loading import load, warm_shapes
    from inferometer_serving.model.session import Interrupt
    from inferometer_serving.model.warm_up import warm_up_inputs
    from inferometer_serving.options import ServeOptions
    from inferometer_serving.start_up import StartUp

    options = ServeOptions(model=fetched_model(uri, None, folder).path, model_name="model")
    session = load(options, Interrupt(), StartUp(0)).session
    random = np.random.default_rng(0)
    inputs = {
        # As in requests over a server: floats from 0 to 1.
        name: random.random(each.shape).astype(each.dtype) if each.dtype.kind == "f" else each
        for name, each in warm_up_inputs(
            session.signature, 1, warm_shapes(session.signature, options, 1)
        ).items()
    }
    names = [each.name for each in session.signature.outputs]

    def median() -> float:
        taken: list[int] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(taken) < 10:
            began = time.perf_counter_ns()
            session.runner.run(names, inputs)
            taken.append(time.perf_counter_ns() - began)
        return float(np.median(taken))

    return LadderRung("in process", median)


def behind(
    name: str,
    url: str,
    model: str,
    seconds: int,
    measure: Measure,
    of_ladder: LadderModel | None = None,
) -> LadderRung:
    """Return the rung of a server that already serves the model at an address.

    With `of_ladder`, each measurement checks that it is the model of the other rungs.
    """
    options = QuickOptions(url=url, model=model, seconds=seconds)
    fields = yaml.safe_load(compose_run(None, options))
    fields["spec"]["validity"] |= {"warmUpSeconds": 1}
    text = yaml.safe_dump(fields)
    run = check_run(parse_run_text(text, source=name), source=name)

    def median() -> float:
        document = measure(run)
        if document.outcome.state != "Complete":
            why = document.outcome.message.partition(f" {WAIT_ADVICE}")[0]  # rungs are up already
            raise FailedError(f"The rung {name} cannot be measured: {why}")
        if of_ladder is not None and document.environment is not None:
            of_ladder.check(name, document.environment.server.settings)
        latency = document.scenarios[0].steps[0].latency
        if latency is None:
            raise FailedError(f"The rung {name} at {url} answered no query.")
        # The histogram's 3 digits would be too coarse for a small difference.
        return next(p.nanoseconds for p in latency.percentiles if p.percentile == 50)

    return LadderRung(name, median)


def measure_in_turn(
    lower: LadderRung, upper: LadderRung, rounds: int, say: Callable[[str], None]
) -> list[Pair]:
    """Return the medians of two rungs, measured in turn: lower upper, upper lower, and so on."""
    say(f"{lower.name} and {upper.name}: {rounds} rounds")
    found = []
    for number in range(rounds):
        if number % 2:
            after = upper.median()
            found.append((lower.median(), after))
        else:
            before = lower.median()
            found.append((before, upper.median()))
    return found


@contextmanager
def own_server(uri: str) -> Iterator[tuple[str, str]]:
    """Serve a model by a child process; yield its URLs for HTTP and gRPC."""
    words = ("serve", uri, "--model-name", "model", "--http-port", "0", "--grpc-port", "0")
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "inferometer_cli", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        ports = _event(process, "listening")
        _event(process, "ready")
        yield f"http://127.0.0.1:{ports['httpPort']}", f"grpc://127.0.0.1:{ports['grpcPort']}"
    finally:
        process.terminate()
        process.wait()


def _event(process: "subprocess.Popen[str]", name: str) -> dict[str, Any]:
    line = "" if process.stdout is None else process.stdout.readline()
    found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    if found.get("event") != name:
        raise RefusedError("The server of the ladder did not start; its message is above.")
    return found
