"""`inferometer bricks run`: times bricks on this machine."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    GranularityOption,
    JsonOption,
    ModelsArgument,
    ProgressPrinter,
    ShapeOption,
    ThreadsOption,
    describe_models,
    read_shapes,
)
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_message, print_output

if TYPE_CHECKING:
    from pydantic import ValidationError

    from inferometer_api.layers.bricks import BrickSuite
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_api.layers.timings import LayerTimings
    from inferometer_cli.local.layers import LayerSettings
    from inferometer_results.layers.brick_errors import ModelError

_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=100, metavar="N", help="The most rounds of a brick.")
]
_AgainOption = Annotated[
    bool, typer.Option("--again", help="Time also what this machine knows already.")
]
_ReferenceOption = Annotated[
    bool,
    typer.Option(
        "--reference", help="Time the whole models too, and show how far predictions are off."
    ),
]
_ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0,
        max=50,
        metavar="PERCENT",
        help="Time only the bricks that predictions need to be off by no more than this; the times "
        "of others are interpolated from bricks of their kind in other sizes. [default: time all]",
    ),
]


def run(  # noqa: PLR0913 - one argument for each option
    models: ModelsArgument,
    *,
    granularity: GranularityOption = None,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    warm_up_shape: ShapeOption = None,
    rounds: _RoundsOption = 8,
    again: _AgainOption = False,
    tolerance: _ToleranceOption = None,
    reference: _ReferenceOption = False,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Time the bricks of models, or of an exported file, that this machine does not know yet.

    Bricks take turns in rounds, so that a busy moment meets all of them. A brick needs no more
    rounds once its times agree, or differ by too little to change the time of any model. The times
    are kept in the database of results. A hundred bricks take about ten seconds.
    """
    from inferometer_api.layers.split import default_granularity
    from inferometer_cli.local.layers import (
        LayerSettings,
        TimingRequest,
        keep_here,
        known_here,
        time_layers,
    )
    from inferometer_results.store.layer_timings import joined

    if again and tolerance is not None:
        raise RefusedError("--again times every brick: leave --tolerance out.")
    granularity = granularity or default_granularity(threads)
    settings = LayerSettings(batch_size, threads, shapes=read_shapes(warm_up_shape))
    wanted = _wanted(models, settings, granularity, reference=reference)
    if tolerance is not None and not wanted.graphs:
        raise RefusedError("--tolerance needs the models: an exported file has bricks only.")
    is_interpolated = tolerance is not None
    timed: list[LayerTimings] = []
    with open_store(database) as store:
        known = known_here(store, threads, with_graphs=is_interpolated)
        tried: set[str] = set()
        uses = [_uses(each, granularity) for each in wanted.graphs]
        while not timed or is_interpolated:
            missing = _missing(wanted.suite, None if again else known)
            if tolerance is not None:
                missing = _select_next(missing, wanted.graphs, known, tolerance / 100, tried)
            graphs, references = ([], []) if timed else (wanted.graphs, wanted.references)
            if known is not None and not missing.bricks and not references:
                break
            request = TimingRequest(
                settings,
                missing,
                references,
                rounds=rounds,
                uses=uses,
            )
            timings = time_layers(request, ProgressPrinter())
            keep_here(store, timings, graphs)
            timed.append(timings)
            tried.update(missing.bricks)
            if known is None or timings.bricks or timings.failed:
                timings = timings.model_copy(update={"graphs": graphs})
                known = timings if known is None else joined(known, timings)
    everything = known or timed[-1]
    found = _BrickRun(wanted, _as_one(timed, everything), everything, granularity, is_interpolated)
    if json:
        from orjson import OPT_INDENT_2, dumps

        print_output(dumps(_document(found), option=OPT_INDENT_2).decode())
    else:
        _print(found, reference=reference)
    if found.is_useless:
        raise FailedError("No brick could be timed, and none was known.")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be timed."""

    suite: "BrickSuite"
    graphs: list["LayerGraph"] = field(default_factory=list)
    references: list[Path] = field(default_factory=list)
    """Whole models."""


@dataclass(frozen=True, slots=True)
class _BrickRun:
    """What was timed, and what is known now."""

    wanted: _Wanted
    timings: "LayerTimings"
    everything: "LayerTimings"
    granularity: int
    is_interpolated: bool

    @property
    def known_before(self) -> int:
        """How many of the bricks had a time before."""
        bricks = self.wanted.suite.bricks
        return sum(key in bricks for key in self.everything.bricks.keys() - self.timings.bricks)

    @property
    def is_useless(self) -> bool:
        """Whether there are bricks to time, and none of them has a time."""
        return bool(self.timeable) and self.timeable.isdisjoint(self.everything.bricks)

    @property
    def timeable(self) -> frozenset[str]:
        """The bricks that are timed; with a tolerance, views are taken for free."""
        suite = self.wanted.suite
        return frozenset((_without_views(suite) if self.is_interpolated else suite).bricks)

    @property
    def interpolated(self) -> int:
        """How many bricks were left out."""
        if not self.is_interpolated:
            return 0
        failed = {each.key for each in self.everything.failed}
        return len(self.timeable - self.everything.bricks.keys() - failed)

    @property
    def errors(self) -> "list[ModelError]":
        """The prediction of each model next to its measured latency."""
        from inferometer_analysis.bricks.interpolate import Interpolation
        from inferometer_results.layers.brick_errors import model_errors

        everything = self.everything
        interpolation = (
            Interpolation(everything.graphs, everything, self.granularity)
            if self.is_interpolated
            else None
        )
        return model_errors(
            self.wanted.graphs, everything, self.timings.models, self.granularity, interpolation
        )


def _wanted(
    models: list[str], settings: "LayerSettings", granularity: int, *, reference: bool
) -> _Wanted:
    from inferometer_api.layers.split import compose_suite
    from inferometer_cli.local.layers import model_files

    exported = _read_exported(models)
    if exported is not None:
        if reference:
            raise RefusedError("--reference needs the models: an exported file has bricks only.")
        return _Wanted(exported)
    files = model_files(models)
    graphs = describe_models(files, settings)
    described = {each.model for each in graphs}
    return _Wanted(
        compose_suite(graphs, granularity),
        graphs,
        [each for each in files if each.stem in described] if reference else [],
    )


def _missing(suite: "BrickSuite", known: "LayerTimings | None") -> "BrickSuite":
    timed = set() if known is None else set(known.bricks)
    bricks = {key: each for key, each in suite.bricks.items() if key not in timed}
    return suite.model_copy(update={"bricks": bricks})


def _without_views(suite: "BrickSuite") -> "BrickSuite":
    """Return the bricks that do more than look at a tensor in another shape, which is free."""
    from inferometer_analysis.layer_work import is_view

    bricks = {
        key: each
        for key, each in suite.bricks.items()
        if not all(is_view(suite.layers[layer]) for layer in each.layers)
    }
    return suite.model_copy(update={"bricks": bricks})


def _uses(graph: "LayerGraph", granularity: int) -> Counter[str]:
    """Return how often a model runs each of its bricks."""
    from inferometer_api.layers.split import split

    return Counter(use.key for use in split(graph, granularity))


def _select_next(
    missing: "BrickSuite",
    graphs: "Sequence[LayerGraph]",
    known: "LayerTimings | None",
    tolerance: float,
    tried: Collection[str],
) -> "BrickSuite":
    """Return the bricks to time next, so that predictions are off by no more than the tolerance."""
    from inferometer_analysis.bricks.select import next_bricks

    chosen = next_bricks(graphs, known, missing.granularity, tolerance, tried)
    bricks = {key: each for key, each in missing.bricks.items() if key in chosen}
    if bricks:
        unknown = _without_views(missing).bricks.keys() - tried
        print_message(f"{len(bricks):,} of {len(unknown):,} unknown bricks are timed")
    return missing.model_copy(update={"bricks": bricks})


def _as_one(timed: "Sequence[LayerTimings]", known: "LayerTimings") -> "LayerTimings":
    """Return what was timed one after the other as if it had been timed together."""
    return known.model_copy(
        update={
            "seconds": sum(each.seconds for each in timed),
            "other_cpu_share": max((each.other_cpu_share for each in timed), default=0.0),
            "reference_nanoseconds": max((each.reference_nanoseconds for each in timed), default=0),
            "bricks": {key: brick for each in timed for key, brick in each.bricks.items()},
            "failed": [failure for each in timed for failure in each.failed],
            "models": {name: model for each in timed for name, model in each.models.items()},
        }
    )


def _read_exported(models: list[str]) -> "BrickSuite | None":
    """Return the bricks of an exported file, if that is what was given."""
    from pydantic import ValidationError

    from inferometer_api.layers.bricks import BrickSuite
    from inferometer_api.results.reading import UnreadableDocumentError, read_versioned
    from inferometer_cli.result_file import show_notice

    if not models[0].endswith(".json"):
        return None
    if len(models) > 1:
        raise RefusedError("Give one exported file, or models.")
    try:
        read = read_versioned(BrickSuite, Path(models[0]).read_bytes(), source=models[0])
    except UnreadableDocumentError as error:
        raise RefusedError(str(error)) from error
    except OSError as error:
        raise RefusedError(f"Cannot read {models[0]}: {error.strerror or error}.") from error
    except ValidationError as error:
        raise RefusedError(
            f"{models[0]} is no whole file of `inferometer bricks export`{_place_of(error)}. Write "
            "it again, or copy all of it."
        ) from error
    return show_notice(read)


def _place_of(error: "ValidationError") -> str:
    """Return where a document is wrong; empty if it is no JSON."""
    place = ".".join(map(str, error.errors()[0]["loc"]))
    return f": {place} is missing or wrong" if place else ""


def _document(found: _BrickRun) -> dict[str, Any]:
    from inferometer_results.layers.brick_errors import error_document
    from inferometer_results.layers.slowness import slowdown

    suite, everything = found.wanted.suite, found.everything
    return {
        "granularity": found.granularity,
        "seconds": found.timings.seconds,
        "otherCpuShare": found.timings.other_cpu_share,
        "slowdown": slowdown(found.timings, found.everything),
        "bricks": {
            key: {
                "nanoseconds": each.nanoseconds,
                "sessionNanoseconds": each.session_nanoseconds,
                "runs": each.runs,
                "isNew": key in found.timings.bricks,
            }
            for key, each in everything.bricks.items()
            if key in suite.bricks
        },
        "failed": {each.key: each.reason for each in found.timings.failed},
        "models": [error_document(each) for each in found.errors],
    }


def _print(found: _BrickRun, *, reference: bool) -> None:
    from inferometer_results.layers.brick_errors import busy_sentence, error_sentences

    suite, timings = found.wanted.suite, found.timings
    if not found.timeable:
        print_output("The models have no layers that take time: there is nothing to time.")
        return
    if not timings.bricks and not timings.failed and not found.interpolated and not reference:
        print_output(f"All {len(suite.bricks):,} bricks are known already. --again times them.")
        return
    for each in timings.failed:
        brick = suite.bricks.get(each.key)
        name = each.key
        if brick is not None:
            name = ", ".join(suite.layers[layer].operator for layer in brick.layers)
        print_message(f"not timed: {name}: {each.reason}")
    interpolated = f", {found.interpolated:,} are interpolated" if found.is_interpolated else ""
    print_output(
        f"{len(timings.bricks):,} bricks timed in {timings.seconds:.0f} s, "
        f"{found.known_before:,} were known{interpolated}."
    )
    if (timings.bricks or timings.models) and (warning := busy_sentence(timings, found.everything)):
        print_message(warning)
    if reference:
        bricks = {key: each for key, each in found.everything.bricks.items() if key in suite.bricks}
        compared = timings.model_copy(update={"bricks": bricks})
        print_output("\n" + "\n".join(error_sentences(found.errors, compared)))
