"""`inferometer bricks predict` and `coverage`: what the times of bricks say about models."""

from collections import Counter
from json import dumps
from typing import TYPE_CHECKING

from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    GranularityOption,
    JsonOption,
    ModelsArgument,
    ShapeOption,
    ThreadsOption,
    describe_models,
    read_shapes,
)
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_output

if TYPE_CHECKING:
    from inferometer_analysis.bricks.predict import Prediction
    from inferometer_cli.local.layers import LayerSettings

_MOST_NAMED = 4
"""Operators of missing bricks."""


def predict_models(  # noqa: PLR0913 - one argument for each option
    models: ModelsArgument,
    *,
    granularity: GranularityOption = None,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the latency of models on this machine without running them.

    Sequential: one layer after the other, as engines run them on a CPU. Critical path: layers that
    do not need each other at the same time. A layer without a time has one interpolated from
    layers of its kind in other sizes, and ± says how far these are expected to put the prediction
    off. Without any it counts as nothing, and ± is unknown. Noise: how far apart the quartiles of
    the rounds are in which the layers were timed.
    """
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.layers.brick_errors import uncertainty_words
    from inferometer_results.quantity import spread_percent

    settings = LayerSettings(batch_size, threads, shapes=read_shapes(warm_up_shape))
    found = _predictions(models, settings, granularity, database, interpolated=True)
    if json:
        print_output(dumps([_as_json(each) for each in found], indent=2))
        return
    width = max(len(each.model) for each in found)
    print_output(
        f"{'MODEL':{width}}  SEQUENTIAL ms  CRITICAL PATH ms  LAYERS  KNOWN  INTERPOLATED   NOISE  "
        "      ±"
    )
    for each in found:
        bound = " " if each.is_complete else ">"
        noise = spread_percent(each.spread) if each.layers_known else "-"
        error = "-" if each.uncertainty is None else uncertainty_words(each)
        print_output(
            f"{each.model:{width}} {bound}{each.sequential_nanoseconds / 1e6:14.2f} "
            f"{bound}{each.critical_path_nanoseconds / 1e6:17.2f}  "
            f"{each.layers:6}  {each.layers_known:5}  {each.layers_interpolated:12}  "
            f"{noise:>6}  {error:>7}"
        )
    if not all(each.is_complete for each in found):
        print_output(
            "\n> at least: some layers have no time, and too few of their kind to interpolate one. "
            "`inferometer bricks run` times them, or says why they cannot be timed alone."
        )


def coverage(  # noqa: PLR0913 - one argument for each option
    models: ModelsArgument,
    *,
    granularity: GranularityOption = None,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    warm_up_shape: ShapeOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show how many layers of some models have a time on this machine."""
    from inferometer_cli.local.layers import LayerSettings

    settings = LayerSettings(batch_size, threads, shapes=read_shapes(warm_up_shape))
    found = _predictions(models, settings, granularity, database)
    if json:
        print_output(dumps([_as_json(each) for each in found], indent=2))
        return
    width = max(len(each.model) for each in found)
    print_output(f"{'MODEL':{width}}  LAYERS   KNOWN  MISSING BRICKS")
    for each in found:
        share = 100 * each.layers_known / max(each.layers, 1)
        print_output(
            f"{each.model:{width}}  {each.layers:6}  {share:4.0f} %  {_missing_bricks(each)}"
        )


def _predictions(
    models: list[str],
    settings: "LayerSettings",
    granularity: int | None,
    database: str | None,
    *,
    interpolated: bool = False,
) -> list["Prediction"]:
    from inferometer_analysis.bricks.interpolate import Interpolation
    from inferometer_analysis.bricks.predict import predict
    from inferometer_api.layers.split import default_granularity
    from inferometer_cli.local.layers import known_here, model_files

    granularity = granularity or default_granularity(settings.threads)
    graphs = describe_models(model_files(models), settings)
    with open_store(database) as store:
        known = known_here(store, settings.threads, with_graphs=interpolated)
    if known is None or not known.bricks:
        raise RefusedError(
            "The database has no brick that was timed on this machine with this engine and number "
            "of threads. Time those of some models first: inferometer bricks run "
            f"{' '.join(models)}"
        )
    interpolation = Interpolation(known.graphs, known, granularity) if interpolated else None
    return [predict(each, known, granularity, interpolation) for each in graphs]


def _missing_bricks(found: "Prediction") -> str:
    """Return how many bricks are missing, and the most frequent of their operators."""
    counts = Counter(found.missing.values()).most_common()
    named = [f"{count} {operators}" for operators, count in counts[:_MOST_NAMED]]
    if rest := sum(count for _, count in counts[_MOST_NAMED:]):
        named.append(f"{rest} others")
    return f"{len(found.missing)}: {', '.join(named)}" if named else "0"


def _as_json(found: "Prediction") -> dict[str, object]:
    return {
        "model": found.model,
        "sequentialNanoseconds": round(found.sequential_nanoseconds),
        "criticalPathNanoseconds": round(found.critical_path_nanoseconds),
        "layers": found.layers,
        "layersKnown": found.layers_known,
        "layersInterpolated": found.layers_interpolated,
        "uncertainty": found.uncertainty,
        "spread": found.spread,
        "missing": list(found.missing),
        "missingOperators": dict(Counter(found.missing.values()).most_common()),
    }
