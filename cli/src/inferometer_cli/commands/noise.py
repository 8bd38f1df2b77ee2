"""`inferometer noise`: measures how far the figures of this machine differ from run to run."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import (
    STOPPED_STATES,
    ExitCode,
    RefusedError,
    StopSignal,
    deferred_signals,
    exit_code_of,
)
from inferometer_cli.quick_run import QuickOptions, compose_run, is_model
from inferometer_cli.run_file import SetOption, check_run, parse_run_text
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_error,
    print_message,
    print_output,
)

_MODEL = "zoo://classification/mobilenetv4_conv_small"
_WINDOW_SECONDS = 2
_SETTINGS = ("spec.validity.warmUpSeconds=1", "spec.telemetry.power=Disabled")
_Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="What to serve: model.onnx, zoo://TASK/NAME, https://..."),
]
_SecondsOption = Annotated[
    int,
    typer.Option("--seconds", min=20, max=86_400, metavar="N", help="How long to measure in all."),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")]


@dataclass(slots=True)
class _Runs:
    """The runs so far."""

    valid: list[ResultDocument] = field(default_factory=list)
    invalid: int = 0
    broken_rules: Counter[str] = field(default_factory=Counter)
    """How many runs each rule made INVALID."""

    @property
    def count(self) -> int:
        """The number of whole runs."""
        return len(self.valid) + self.invalid

    def add(self, document: ResultDocument) -> None:
        """Add a whole run."""
        if document.valid:
            self.valid.append(document)
            return
        self.invalid += 1
        verdicts = [each.verdict for each in document.scenarios]
        self.broken_rules.update({reason.rule for each in verdicts for reason in each.reasons})

    def invalid_sentence(self) -> str:
        """Return how many runs were INVALID, and by which rules; empty if none was."""
        if not self.invalid:
            return ""
        rules = ", ".join(rule for rule, _ in self.broken_rules.most_common())
        return f"{self.invalid} of {self.count} runs were INVALID ({rules}) and do not count."


def noise(
    model: _Model = _MODEL,
    *,
    seconds: _SecondsOption = 120,
    set_: SetOption = None,
    json: _JsonOption = False,
) -> None:
    """Measure how far figures differ from run to run here, and how many runs a comparison needs.

    Measures one model again and again: one client, two seconds each, and a new server every time.
    Nothing is written. Ctrl-C ends early and shows what was measured.
    """
    if not is_model(model):
        raise RefusedError(
            f"{model} is not a model. Give model.onnx or zoo://TASK/NAME. For a run file, set "
            "validity.repeats: the result then shows how far its figures differ."
        )
    text = compose_run(model, QuickOptions(seconds=_WINDOW_SECONDS))
    settings = [*_SETTINGS, *(set_ or [])]
    run = check_run(parse_run_text(text, source=model, settings=settings), source=model)
    with deferred_signals() as ending:
        runs = _measure(run, seconds, ending)
        _show(model, runs, ending.exit_code, json=json)
    if ending.exit_code is not None:
        raise typer.Exit(ending.exit_code)


def _measure(run: BenchmarkRun, seconds: int, ending: StopSignal) -> _Runs:
    """Measure until the time is over or a signal arrives; end the command if a run fails."""
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.progress import Warn, WebPage
    from inferometer_cli.tables.noise import progress_line

    runs, began = _Runs(), monotonic()

    def watch(event: ProgressReport | WebPage | Warn | str) -> None:
        # The same warning again with every run says nothing new.
        if isinstance(event, Warn) and not runs.count:
            print_message(event.sentence())

    while True:
        document = measure(run, Path.cwd(), ending, watch=watch)
        if document.outcome.state in STOPPED_STATES:
            break
        if document.outcome.state != "Complete":
            print_error(document.outcome.message)
            raise typer.Exit(exit_code_of(document))
        runs.add(document)
        spent = monotonic() - began
        print_message(progress_line(runs.count, document, seconds - spent))
        if seconds - spent < spent / runs.count or ending.signal is not None:
            break
    return runs


def _show(model: str, runs: _Runs, stopped: ExitCode | None, *, json: bool) -> None:
    from inferometer_api.judgement import FEWEST_RUNS
    from inferometer_cli.tables.noise import as_json, print_noise
    from inferometer_results.compare.run_to_run import noise_of

    if len(runs.valid) < FEWEST_RUNS:
        print_message(
            f"{len(runs.valid)} of {runs.count} runs are VALID, and {FEWEST_RUNS} are needed. "
            f"{runs.invalid_sentence()} Raise --seconds, or look for what disturbs this machine."
        )
        raise typer.Exit(ExitCode.INVALID if stopped is None else stopped)
    found = noise_of(runs.valid)
    if json:
        print_output(as_json(model, found, runs.invalid))
        return
    with flushed_output():
        print_noise(model, found, runs.invalid_sentence(), output_console())
