"""A machine that `inferometer tune` measures at once."""

import json
import os
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.accuracy import AccuracyFigure, AccuracyResult, EvaluatedDataset
from inferometer_api.results.result import (
    Finding,
    Outcome,
    OutputSamples,
    ResultDocument,
    SampledOutput,
    ScenarioResult,
    Step,
    Verdict,
)
from inferometer_api.results.search import Peak
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Accuracy
from inferometer_cli.local import measurement
from support.command import Command
from support.results import a_result, an_environment
from support.steps import Load, a_step

_WORDS = ("tune", "zoo://classification/mnist", "--p99", "50ms", "--batches", "", "--output", "out")
_ENGINES = "OnnxRuntime:Default,OnnxRuntime:FP32"
"""Two engines as far as the search is concerned: OpenVINO may not be installed."""


@cache
def _step(service_milliseconds: float) -> Step:
    return a_step(Load(seconds=2.0, service_milliseconds=service_milliseconds))


class TunedMachine:
    """Takes the place of measurements: more threads are faster, and the second engine twice."""

    def __init__(self) -> None:
        self.runs: list[BenchmarkRun] = []
        self.outputs: dict[str, list[float]] = {}
        """What an engine computes, by precision; [1, 2] unless it is here."""
        self.verdict = Verdict(state="VALID")
        self.not_obtained: frozenset[str] = frozenset()
        """Precisions that the engine does not have."""
        self.disturbed: dict[int, Verdict] = {}
        """The verdict of the run with this number, from 0, in place of the usual one."""
        self.accuracies: dict[str, float] = {}
        """The measure of a data set, by precision; 0.9 unless it is here."""
        self.too_short: frozenset[str] = frozenset()
        """Precisions whose confirmations end before a queue grows."""
        self.slow = 1.0
        self.stops_at: int | None = None

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result of a run."""
        if len(self.runs) == self.stops_at:
            ended = Outcome(state="Interrupted", reason="Interrupted", message="Interrupted.")
            return a_result(run=run, scenarios=[], outcome=ended)
        self.runs.append(run)
        server, scenario = run.spec.server, run.spec.scenarios[0]
        milliseconds = self.slow * 20.0 / (server.threads or 1) / server.instances**0.5
        milliseconds /= 2 if server.precision == "FP32" else 1
        peak = Peak(
            percentile=99.0,
            latency_bound_nanoseconds=50_000_000,
            qps=900 / milliseconds,
            low_qps=800 / milliseconds,
            high_qps=1000 / milliseconds,
            stop_reason="Resolved",
        )
        if server.precision in self.too_short:
            ends = {"qps": None, "low_qps": None, "high_qps": None, "stop_reason": "ProbesTooShort"}
            peak = peak.model_copy(update=ends)
        found = ScenarioResult(
            name=scenario.name,
            kind=scenario.kind,
            seed=run.spec.load.seed,
            steps=[_step(round(milliseconds, 3))],
            verdict=self._verdict(server.precision),
            peak=peak if scenario.kind == "findPeak" else None,
            accuracy=self._accuracy(scenario.accuracy, server.precision),
        )
        environment = an_environment(output_samples=self._samples(server.precision))
        return a_result(run=run, scenarios=[found], environment=environment)

    def _accuracy(self, asked: Accuracy | None, precision: str) -> AccuracyResult | None:
        if asked is None:
            return None
        figure = AccuracyFigure(
            metric=asked.metrics[0], value=self.accuracies.get(precision, 0.9), samples=10
        )
        uri = asked.dataset.uri
        return AccuracyResult(
            dataset=EvaluatedDataset(name="d", version="1", license="CC", uri=uri, samples=10),
            requested=10,
            processed=10,
            failed=0,
            figures=[figure],
        )

    def _verdict(self, precision: str) -> Verdict:
        if precision in self.not_obtained:
            message = f"Requested was the precision {precision}; the engine has another one."
            lacks = Finding(rule="EngineSetting", message=message, figure="-", limit=precision)
            return Verdict(state="INVALID", reasons=[lacks])
        return self.disturbed.get(len(self.runs) - 1, self.verdict)

    def _samples(self, precision: str) -> OutputSamples:
        values = np.array(self.outputs.get(precision, [1.0, 2.0]), "<f4")
        output = SampledOutput(
            name="y",
            shape=[1, 2],
            values_per_sample=2,
            values=b64encode(values.tobytes()).decode(),
            largest=[int(values.argmax())],
        )
        return OutputSamples(inputs=["0"], outputs=[output])


def tuned_machine(patch: pytest.MonkeyPatch) -> TunedMachine:
    """Return a machine of 4 CPUs that measures at once, in place of this one."""
    made = TunedMachine()
    patch.setattr(measurement, "measure", made.measure)
    patch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    return made


def summary() -> dict[str, Any]:
    """Return what the command wrote about its trials."""
    found: dict[str, Any] = json.loads(Path("out/tune.json").read_text())
    return found


def peaks_of(machine: TunedMachine) -> list[BenchmarkRun]:
    """Return the confirmations."""
    return [run for run in machine.runs if run.spec.scenarios[0].find_peak is not None]


def trials_of(machine: TunedMachine) -> list[BenchmarkRun]:
    """Return the trials."""
    return [run for run in machine.runs if run.spec.scenarios[0].concurrency is not None]


def tune(inferometer: Command, tmp_path: Path, *words: str) -> Any:
    """Run the command with two engines and without batches; results go to `out`."""
    return inferometer(*_WORDS[:-1], str(tmp_path / "out"), "--engines", _ENGINES, *words)
