"""`inferometer bricks run`: times bricks on this machine."""

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

_REPORT_SECONDS = 5.0


def run(
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
    from inferometer_cli.exits import RefusedError
    from inferometer_cli.local.layers import Setting, TimingFile, model_files, time_suite

    suite = _exported(models)
    setting = Setting(batch_size, threads)
    graphs: list[LayerGraph] = []
    files = [] if suite else model_files(models)
    if suite is None:
        from inferometer_analysis.bricks.split import compose_suite

        graphs = describe_models(files, setting)
        suite = compose_suite(graphs, granularity)
    elif reference:
        raise RefusedError("--reference needs the models: an exported file has bricks only.")
    kept = TimingFile(suite.engine_version, threads)
    known = kept.read()
    missing = suite
    if known is not None and not again:
        bricks = {key: each for key, each in suite.bricks.items() if key not in known.bricks}
        missing = suite.model_copy(update={"bricks": bricks})
    references = [file for file in files if file.stem in {each.model for each in graphs}]
    if not missing.bricks and not reference:
        print_output(f"All {len(suite.bricks):,} bricks are known already. --again times them.")
        return
    timings = time_suite(
        missing, references if reference else (), setting, rounds=rounds, report=_reporter()
    )
    everything = kept.add(timings)
    for key, reason in timings.failed.items():
        names = ", ".join(missing.layers[each].operator for each in missing.bricks[key].layers) \
            if key in missing.bricks else key
        print_message(f"not timed: {names}: {reason}")
    print_output(
        f"{len(timings.bricks):,} bricks timed in {timings.seconds:.0f} s, "
        f"{len(suite.bricks) - len(missing.bricks):,} were known. Kept in {kept.path}."
    )
    if reference:
        _print_errors(graphs, everything, granularity)


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


class _Reporter:
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


def _reporter() -> _Reporter:
    return _Reporter()


def _print_errors(
    graphs: list["LayerGraph"], timings: "BrickTimings", granularity: int
) -> None:
    from inferometer_analysis.bricks.predict import (
        geometric_mean_error,
        predict,
        speed_up,
        wall_time_speed_up,
    )

    width = max(len(each.model) for each in graphs)
    print_output(f"\n{'MODEL':{width}}  MEASURED ms  SPREAD  PREDICTED ms   ERROR")
    ratios = []
    for graph in graphs:
        measured = timings.models.get(graph.model)
        prediction = predict(graph, timings, granularity)
        if measured is None or not prediction.is_complete:
            print_output(f"{graph.model:{width}}  not compared: not every brick has a time")
            continue
        ratio = prediction.sequential_nanoseconds / measured.nanoseconds
        ratios.append(ratio)
        spread = (
            measured.highest_nanoseconds - measured.lowest_nanoseconds
        ) / measured.nanoseconds
        print_output(
            f"{graph.model:{width}}  {measured.nanoseconds / 1e6:11.2f}  {100 * spread:4.0f} %  "
            f"{prediction.sequential_nanoseconds / 1e6:12.2f}  {100 * (ratio - 1):+4.0f} %"
        )
    if ratios:
        print_output(
            f"\nGeometric-mean error {100 * geometric_mean_error(ratios):.1f} %. Speed-up by the "
            f"paper's definition {speed_up(timings):.1f}, by wall time with sessions at 23 runs a "
            f"model {wall_time_speed_up(timings, 23):.1f}."
        )
