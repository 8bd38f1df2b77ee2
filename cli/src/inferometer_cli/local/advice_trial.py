"""Trials of advice: servers with and without each change, measured in interleaved rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic

import typer
import yaml

from inferometer_analysis.advice import Advice, paired_gain
from inferometer_api.results.result import ResultDocument, nanoseconds_at
from inferometer_cli.exits import FailedError, StopSignal, exit_code_of
from inferometer_cli.quick_run import QuickOptions, compose_run
from inferometer_cli.run_file import check_run, parse_run_text
from inferometer_cli.terminal import print_error, print_message
from inferometer_results.layers.advice_report import AdviceTrial

_WINDOW_SECONDS = 2
_SETTINGS = ("spec.validity.warmUpSeconds=1", "spec.telemetry.power=Disabled")


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """What is measured, and how often."""

    uri: str
    batch_size: int
    shapes: Mapping[str, Sequence[int]]
    """Whole shapes of inputs with open axes, by name."""
    rounds: int
    present: tuple[str, ...]
    """The fields of a run of the model as it is, as PATH=VALUE."""


def try_advice(trial: TrialSettings, advice: Sequence[Advice], ending: StopSignal) -> AdviceTrial:
    """Measure each applicable piece of advice, and the model as it is, in rounds.

    Each round measures the model as it is and with every change; the order is reversed in every
    other round. A piece that fails once is left out of the later rounds.
    """
    order: list[int | None] = [None, *(at for at, each in enumerate(advice) if not each.why_not)]
    latency: dict[int | None, list[float]] = {place: [] for place in order}
    failures: dict[int, str] = {}
    began, done, total = monotonic(), 0, trial.rounds * len(order)
    for number in range(trial.rounds if len(order) > 1 else 0):
        for place in order if number % 2 == 0 else reversed(order):
            done += 1
            if place in failures:
                continue
            name = "as it is" if place is None else ", ".join(advice[place].settings)
            words = f"round {number + 1}/{trial.rounds}"
            if done > 1:
                left = (monotonic() - began) / (done - 1) * (total - done + 1)
                words += f", about {left:.0f} s left"
            print_message(f"{words}: {name}")
            settings = () if place is None else advice[place].settings
            try:
                latency[place].append(_median_latency(trial, settings, ending))
            except FailedError as error:
                if place is None:
                    raise
                failures[place] = str(error)
    achieved = {
        place: paired_gain(latency[None], latency[place])
        for place in order
        if place is not None and place not in failures
    }
    return AdviceTrial(achieved, failures, median(latency[None]) if latency[None] else None)


def _median_latency(trial: TrialSettings, settings: Sequence[str], ending: StopSignal) -> float:
    from inferometer_cli.local.measurement import measure

    given = [*_SETTINGS, *trial.present, *settings]
    run = parse_run_text(_run_text(trial), source=trial.uri, settings=given)
    document: ResultDocument = measure(
        check_run(run, source=trial.uri), Path.cwd(), ending, watch=lambda _: None
    )
    if ending.signal is not None:
        print_error(document.outcome.message)
        raise typer.Exit(exit_code_of(document))
    if document.outcome.state != "Complete":
        raise FailedError(document.outcome.message)
    found = nanoseconds_at(document.scenarios[0].steps[0].latency, 50.0)
    if found is None:
        raise FailedError("A measurement got no answers.")
    for reason in document.scenarios[0].verdict.reasons:
        if reason.rule == "EngineSetting":
            raise FailedError(reason.message)
    return float(found)


def _run_text(trial: TrialSettings) -> str:
    fields = yaml.safe_load(compose_run(trial.uri, QuickOptions(seconds=_WINDOW_SECONDS)))
    if trial.batch_size > 1:
        batch = {"batchSizes": [trial.batch_size]}
        fields["spec"]["scenarios"] = [{"name": "batch", "batch": batch}]
    if trial.shapes:
        shapes = {name: list(shape) for name, shape in trial.shapes.items()}
        fields["spec"].setdefault("load", {})["inputs"] = {"random": {"shapes": shapes}}
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
