"""`inferometer advise`: what would make a model faster here, and whether it does."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferometer_api.results.result import ResultDocument, nanoseconds_at
from inferometer_cli.commands.bound import engine_versions, machine
from inferometer_cli.exits import FailedError, StopRequest, deferred_signals, exit_code_of
from inferometer_cli.quick_run import QuickOptions, compose_run, model_uri
from inferometer_cli.result_store import DatabaseOption, opened
from inferometer_cli.run_file import check_run, parse_run_text
from inferometer_cli.terminal import print_error, print_message, print_output

if TYPE_CHECKING:
    from inferometer_analysis.advice import Advice, Evidence, Variant
    from inferometer_cli.local.layer_benchmark import LayerBenchmark

_WINDOW_SECONDS = 2
_SETTINGS = ("spec.validity.warmUpSeconds=1", "spec.telemetry.power=Disabled")
_Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="model.onnx, zoo://TASK/NAME, https://...")
]
_TryOption = Annotated[
    bool,
    typer.Option(
        "--try", help="Apply each piece of advice that a setting applies, and measure it in turn."
    ),
]
_RoundsOption = Annotated[
    int, typer.Option("--rounds", min=3, max=100, metavar="N", help="With --try: rounds.")
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")]


def advise(
    model: _Model,
    *,
    try_: _TryOption = False,
    rounds: _RoundsOption = 6,
    database: DatabaseOption = None,
    json: _JsonOption = False,
) -> None:
    """Answer what would make a model faster on this machine, with a predicted gain for each.

    Questions Q1 to Q6 are Benanza's. Layers that the database lacks are benchmarked first, as by
    `inferometer bound --fill`. With --try, servers are started with and without each setting in
    interleaved rounds, and the achieved gain is printed next to the predicted one.
    """
    uri = model_uri(model)
    evidence, advice = _advice(uri, database)
    achieved: dict[int, Any] = {}
    if try_:
        with deferred_signals() as ending:
            achieved = _try_all(uri, advice, rounds, ending)
    if json:
        import orjson

        document = _document(uri, evidence, advice, achieved)
        print_output(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    print_output("\n".join(_sentences(evidence, advice, achieved, was_tried=try_)))


def _advice(uri: str, database: str | None) -> "tuple[Evidence, list[Advice]]":
    from inferometer_analysis.advice import Evidence, advise
    from inferometer_analysis.bound import best_timings, lower_bound
    from inferometer_cli.local.layer_benchmark import BenchmarkSettings, benchmark_layers

    variants = ["onnxruntime:Default:1", "openvino:FP32:1", "openvino:BF16:1"]
    if len(os.sched_getaffinity(0)) > 1:
        variants += ["onnxruntime:Default:2", "openvino:BF16:2"]
    settings = BenchmarkSettings(variants=tuple(variants))
    with opened(database) as store:
        from inferometer_results.store.layer_timings import TimingConditions, known_timings

        conditions = TimingConditions(machine(), 1, engine_versions())
        stored = known_timings(store, conditions)
        known: dict[str, list[str]] = {}
        for timing in stored:
            if timing.precision in ("", "FP32"):
                known.setdefault(timing.engine, []).append(timing.key)
        print_message("Benchmarking the layers that the database lacks, and the model...")
        found = benchmark_layers(uri, settings, known, fill=True)
        _keep(store, conditions, found)
    timings = [*stored, *found.timings]
    own = {each.key: each.nanoseconds for each in timings if each.engine == "onnxruntime"}
    timed = [each for each in found.layers if not each.is_view]
    is_whole = all(each.key in own for each in timed)
    by_operator: dict[str, list[float]] = {}
    for layer in timed:
        if layer.key in own:
            by_operator.setdefault(layer.operator, []).append(own[layer.key])
    measured = _variants(found)
    if measured[0].engine != "onnxruntime":
        raise FailedError("ONNX Runtime does not take this model, so there is nothing to compare.")
    evidence = Evidence(
        present=measured[0],
        others=tuple(measured[1:]),
        bound=lower_bound(found.layers, best_timings(timings, "FP32")),
        own_kernels_ns=sum(own[each.key] for each in timed) if is_whole else None,
        layer_ns=by_operator,
    )
    return evidence, advise(evidence)


def _keep(store: Any, conditions: Any, found: "LayerBenchmark") -> None:
    from datetime import UTC, datetime

    from inferometer_api.timestamps import format_time
    from inferometer_results.store.layer_timings import keep_timings

    if found.timings:
        keep_timings(store, conditions, found.timings, format_time(datetime.now(tz=UTC)))


def _variants(found: "LayerBenchmark") -> "list[Variant]":
    from inferometer_analysis.advice import Variant

    fewest = min(map(len, found.measured_ns.values()))
    return [
        Variant(
            engine=name.split(":")[0],
            precision=found.precisions[name],
            threads=int(name.split(":")[2]),
            nanoseconds=_spread(times, fewest),
            difference=found.differences[name],
        )
        for name, times in found.measured_ns.items()
    ]


def _spread(times: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `count` of the durations, evenly from all rounds, so that variants can be paired."""
    return tuple(times[at * len(times) // count] for at in range(count))


def _try_all(
    uri: str, advice: "Sequence[Advice]", rounds: int, ending: StopRequest
) -> dict[int, Any]:
    """Return the achieved gain of each applicable piece by its place, measured in rounds.

    Each round measures the model as it is and with every setting; the order is reversed in every
    other round.
    """
    from inferometer_analysis.advice import paired_gain

    places = [at for at, each in enumerate(advice) if not each.why_not]
    order: list[int | None] = [None, *places]
    latency: dict[int | None, list[float]] = {place: [] for place in order}
    for number in range(rounds):
        for place in order if number % 2 == 0 else reversed(order):
            print_message(f"round {number + 1}/{rounds}: {_name(advice, place)}")
            settings = () if place is None else advice[place].settings
            latency[place].append(_median_latency(uri, settings, ending))
    return {place: paired_gain(latency[None], latency[place]) for place in places}


def _name(advice: "Sequence[Advice]", place: int | None) -> str:
    return "as it is" if place is None else ", ".join(advice[place].settings)


def _median_latency(uri: str, settings: Sequence[str], ending: StopRequest) -> float:
    from inferometer_cli.local.measurement import measure

    text = compose_run(uri, QuickOptions(seconds=_WINDOW_SECONDS))
    run = parse_run_text(text, source=uri, settings=[*_SETTINGS, *settings])
    document: ResultDocument = measure(
        check_run(run, source=uri), Path.cwd(), ending, watch=lambda _: None
    )
    if document.outcome.state != "Complete":
        print_error(document.outcome.message)
        raise typer.Exit(exit_code_of(document))
    found = nanoseconds_at(document.scenarios[0].steps[0].latency, 50.0)
    if found is None:
        raise FailedError("A measurement got no answers.")
    for reason in document.scenarios[0].verdict.reasons:
        if reason.rule == "EngineSetting":
            raise FailedError(reason.message)
    return float(found)


def _document(
    uri: str, evidence: "Evidence", advice: "Sequence[Advice]", achieved: dict[int, Any]
) -> dict[str, Any]:
    def gain(found: Any) -> dict[str, float | None]:
        return {"value": found.value, "low": found.low, "high": found.high}

    return {
        "model": uri,
        "engine": evidence.present.engine,
        "precision": evidence.present.precision,
        "advice": [
            {
                "question": each.question,
                "title": each.title,
                "sentence": each.sentence,
                "predictedGain": gain(each.gain),
                "achievedGain": gain(achieved[at]) if at in achieved else None,
                "settings": list(each.settings),
                "whyNotApplied": each.why_not,
            }
            for at, each in enumerate(advice)
        ],
    }


def _sentences(
    evidence: "Evidence",
    advice: "Sequence[Advice]",
    achieved: dict[int, Any],
    *,
    was_tried: bool,
) -> list[str]:
    from statistics import median

    now = median(evidence.present.nanoseconds)
    lines = [
        (
            f"An inference takes {now / 1e6:.3f} ms on {evidence.present.engine} in "
            f"{evidence.present.precision or 'an unknown precision'}, with 1 thread."
        )
    ]
    if not advice:
        lines.append("No advice: nothing that was measured is faster.")
    for at, each in enumerate(advice):
        lines += ["", f"{each.question} {each.title}: {each.sentence}"]
        if not each.why_not:
            lines.append(f"  Apply: {'  '.join(f'--set {setting}' for setting in each.settings)}")
        lines.append(f"  Predicted gain: {_percent(each.gain)}")
        if at in achieved:
            lines.append(f"  Achieved gain:  {_percent(achieved[at])}, in served latency")
        elif each.why_not:
            lines.append(f"  Not applied: {each.why_not}")
    if not was_tried and any(not each.why_not for each in advice):
        lines += ["", "To measure what can be applied, add --try."]
    return lines


def _percent(found: Any) -> str:
    if found.low is None or found.high is None:
        return f"{100 * found.value:.1f} %"
    return f"{100 * found.value:.1f} % (95 %: {100 * found.low:.1f} to {100 * found.high:.1f})"
