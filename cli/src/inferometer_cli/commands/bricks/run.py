"""`inferometer bricks run`: times bricks on this machine."""

from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.commands.bricks.options import (
    BatchSizeOption,
    GranularityOption,
    Models,
    ThreadsOption,
    describe_models,
)
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from inferometer_api.layers.bricks import BrickSuite, BrickTimings
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_cli.local.layers import Setting

_REPORT_SECONDS = 5.0
_STEADY = 0.03
"""The largest spread of a model with which its error counts."""


def run(  # noqa: PLR0913 - one argument for each option
    models: Models,
    *,
    granularity: GranularityOption = 1,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, max=100, metavar="N", help="The most rounds.")
    ] = 8,
    again: Annotated[
        bool, typer.Option("--again", help="Time also what this machine knows already.")
    ] = False,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference", help="Time the whole models too, and show how far predictions are off."
        ),
    ] = False,
) -> None:
    """Time the bricks of models, or of an exported file, that this machine does not know yet.

    Bricks take turns in rounds, so that a busy moment meets all of them. A brick needs no more
    rounds once its times agree. The times are kept in $XDG_DATA_HOME/inferometer/bricks.
    """
    from inferometer_cli.local.layers import Setting, TimingFile, time_suite

    setting = Setting(batch_size, threads)
    wanted = _wanted(models, setting, granularity, reference=reference)
    kept = TimingFile(wanted.suite.engine_version, threads)
    known = None if again else kept.read()
    missing = wanted.suite.model_copy(
        update={
            "bricks": {
                key: each
                for key, each in wanted.suite.bricks.items()
                if known is None or key not in known.bricks
            }
        }
    )
    if not missing.bricks and not reference:
        print_output(
            f"All {len(wanted.suite.bricks):,} bricks are known already. --again times them."
        )
        return
    timings = time_suite(
        missing, wanted.references, setting, rounds=rounds, report=_ProgressPrinter()
    )
    everything = kept.add(timings)
    _print_failed(missing, timings)
    print_output(
        f"{len(timings.bricks):,} bricks timed in {timings.seconds:.0f} s, "
        f"{len(wanted.suite.bricks) - len(missing.bricks):,} were known. Kept in {kept.path}."
    )
    if reference:
        _print_errors(wanted.graphs, everything, granularity)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be timed."""

    suite: "BrickSuite"
    graphs: list["LayerGraph"] = field(default_factory=list)
    references: list[Path] = field(default_factory=list)
    """Whole models."""


def _wanted(models: list[str], setting: "Setting", granularity: int, *, reference: bool) -> _Wanted:
    from inferometer_analysis.bricks.split import compose_suite
    from inferometer_cli.exits import RefusedError
    from inferometer_cli.local.layers import model_files

    exported = _exported(models)
    if exported is not None:
        if reference:
            raise RefusedError("--reference needs the models: an exported file has bricks only.")
        return _Wanted(exported)
    files = model_files(models)
    graphs = describe_models(files, setting)
    described = {each.model for each in graphs}
    return _Wanted(
        compose_suite(graphs, granularity),
        graphs,
        [each for each in files if each.stem in described] if reference else [],
    )


def _print_failed(suite: "BrickSuite", timings: "BrickTimings") -> None:
    for key, reason in timings.failed.items():
        brick = suite.bricks.get(key)
        name = key
        if brick is not None:
            name = ", ".join(suite.layers[each].operator for each in brick.layers)
        print_message(f"not timed: {name}: {reason}")


def _exported(models: list[str]) -> "BrickSuite | None":
    """Return the bricks of an exported file, if that is what was given."""
    from pydantic import ValidationError

    from inferometer_api.layers.bricks import BrickSuite
    from inferometer_cli.exits import RefusedError

    if not models[0].endswith(".json"):
        return None
    if len(models) > 1:
        raise RefusedError("Give one exported file, or models.")
    try:
        return BrickSuite.read_json(Path(models[0]).read_bytes())
    except (OSError, ValidationError) as error:
        raise RefusedError(
            f"{models[0]} is no file of `inferometer bricks export`: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error


class _ProgressPrinter:
    """Prints how far the timing is, and the time left, every few seconds."""

    def __init__(self) -> None:
        self._began = self._printed = monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = monotonic()
        if now - self._printed < _REPORT_SECONDS or not done:
            return
        self._printed = now
        left = (now - self._began) / done * (total - done)
        print_message(f"{done}/{total} timed, about {left:.0f} s left")


def _print_errors(graphs: list["LayerGraph"], timings: "BrickTimings", granularity: int) -> None:
    from inferometer_analysis.bricks.predict import (
        geometric_mean_error,
        predict,
        speed_up,
        wall_time_speed_up,
    )

    width = max(len(each.model) for each in graphs)
    print_output(f"\n{'MODEL':{width}}  MEASURED ms  SPREAD  PREDICTED ms   ERROR")
    ratios, unsteady = [], []
    for graph in graphs:
        measured = timings.models.get(graph.model)
        prediction = predict(graph, timings, granularity)
        if measured is None or not prediction.is_complete:
            print_output(f"{graph.model:{width}}  not compared: not every brick has a time")
            continue
        ratios.append(prediction.sequential_nanoseconds / measured.nanoseconds)
        if measured.spread > _STEADY:
            unsteady.append(graph.model)
        print_output(
            f"{graph.model:{width}}  {measured.nanoseconds / 1e6:11.2f}  "
            f"{100 * measured.spread:4.0f} %  {prediction.sequential_nanoseconds / 1e6:12.2f}  "
            f"{100 * (ratios[-1] - 1):+4.0f} %"
        )
    if ratios:
        print_output(
            f"\nGeometric-mean error {100 * geometric_mean_error(ratios):.1f} %. Speed-up by the "
            f"paper's definition {speed_up(timings):.1f}, by wall time with sessions at 23 runs a "
            f"model {wall_time_speed_up(timings, 23):.1f}."
        )
    if unsteady:
        print_output(
            f"The machine was not quiet: the middle half of the rounds of {', '.join(unsteady)} "
            f"differs by more than {100 * _STEADY:.0f} %. The errors show nothing; repeat it."
        )
