"""`inferometer bricks predict` and `coverage`: what the times of bricks say about models."""

from json import dumps
from typing import TYPE_CHECKING

from inferometer_cli.commands.bricks.options import (
    BatchSizeOption,
    GranularityOption,
    JsonOption,
    Models,
    ThreadsOption,
    describe_models,
)
from inferometer_cli.terminal import print_output

if TYPE_CHECKING:
    from inferometer_analysis.bricks.predict import Prediction


def predict_models(
    models: Models,
    *,
    granularity: GranularityOption = 1,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    json: JsonOption = False,
) -> None:
    """Predict the latency of models on this machine without running them.

    Sequential: one layer after the other, as engines run them on a CPU. Critical path: layers that
    do not need each other at the same time. A layer without a time counts as nothing and is named.
    """
    found = _predictions(models, granularity, batch_size, threads)
    if json:
        print_output(dumps([_as_json(each) for each in found], indent=2))
        return
    width = max(len(each.model) for each in found)
    print_output(f"{'MODEL':{width}}  SEQUENTIAL ms  CRITICAL PATH ms  KNOWN LAYERS")
    for each in found:
        bound = " " if each.is_complete else ">"
        print_output(
            f"{each.model:{width}} {bound}{each.sequential_nanoseconds / 1e6:14.2f} "
            f"{bound}{each.critical_path_nanoseconds / 1e6:17.2f}  "
            f"{each.layers_known} of {each.layers}"
        )
    if not all(each.is_complete for each in found):
        print_output(
            "\n> at least: some layers have no time yet. `inferometer bricks run` times them."
        )


def coverage(
    models: Models,
    *,
    granularity: GranularityOption = 1,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    json: JsonOption = False,
) -> None:
    """Show how many layers of some models have a time on this machine."""
    found = _predictions(models, granularity, batch_size, threads)
    if json:
        print_output(dumps([_as_json(each) for each in found], indent=2))
        return
    width = max(len(each.model) for each in found)
    print_output(f"{'MODEL':{width}}  LAYERS   KNOWN  MISSING BRICKS")
    for each in found:
        share = 100 * each.layers_known / max(each.layers, 1)
        print_output(f"{each.model:{width}}  {each.layers:6}  {share:4.0f} %  {len(each.missing)}")


def _predictions(
    models: list[str], granularity: int, batch_size: int, threads: int
) -> list["Prediction"]:
    from inferometer_analysis.bricks.predict import predict
    from inferometer_cli.exits import RefusedError
    from inferometer_cli.local.layers import Setting, TimingFile, model_files

    graphs = describe_models(model_files(models), Setting(batch_size, threads))
    timings = TimingFile(graphs[0].engine_version, threads).read()
    if timings is None:
        raise RefusedError(
            "No brick has been timed on this machine with this engine and number of threads. Time "
            f"those of some models first: inferometer bricks run {' '.join(models)}"
        )
    return [predict(each, timings, granularity) for each in graphs]


def _as_json(found: "Prediction") -> dict[str, object]:
    return {
        "model": found.model,
        "sequentialNanoseconds": round(found.sequential_nanoseconds),
        "criticalPathNanoseconds": round(found.critical_path_nanoseconds),
        "layers": found.layers,
        "layersKnown": found.layers_known,
        "missing": list(found.missing),
    }
