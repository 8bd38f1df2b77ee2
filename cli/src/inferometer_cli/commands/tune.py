"""`inferometer tune`: searches the server settings with the highest rate within a bound."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
import yaml

from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import MAXIMUM_BATCH_SIZE, Precision, Runtime
from inferometer_cli.exits import (
    ExitCode,
    FailedError,
    RefusedError,
    deferred_signals,
    exit_code_of,
)
from inferometer_cli.program import is_installed
from inferometer_cli.quick_run import QuickOptions, compose_run, in_flags, run_yaml
from inferometer_cli.run_file import SetOption, check_support, parse_run_text, print_warnings
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_analysis.tune.candidates import Candidate
    from inferometer_cli.local.tuning import Tuning

_MOST_CONNECTIONS = 512
"""A server needs a file for each, and most systems allow a process 1024."""
_RUNTIME_ADVICE = "change server.runtime"
_ENGINES: tuple[tuple[Runtime, Precision], ...] = (
    ("OnnxRuntime", "Default"),
    ("OpenVino", "FP32"),
    ("OpenVino", "BF16"),
)
"""Without --engines: those of them that are installed."""
_Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="model.onnx or zoo://TASK/NAME.", show_default=False),
]
_P99Option = Annotated[
    str, typer.Option("--p99", metavar="TIME", help="Bound of the P99 latency: 50ms, 800us.")
]
_EnginesOption = Annotated[
    str | None,
    typer.Option(
        "--engines",
        metavar="LIST",
        help="Engines with their precision, as in OnnxRuntime:Default,OpenVino:BF16. The outputs "
        "of the first one are the reference. [default: those installed here]",
    ),
]
_BatchesOption = Annotated[
    str,
    typer.Option(
        "--batches", metavar="LIST", help="Batch sizes to try besides none; empty: none only."
    ),
]
_MostOption = Annotated[
    int, typer.Option("--most", min=3, max=500, metavar="N", help="Most candidates.")
]
_CosineOption = Annotated[
    float,
    typer.Option(
        "--least-cosine",
        min=0.0,
        max=1.0,
        metavar="COSINE",
        help="Candidates whose outputs are less parallel to the reference's are not ranked.",
    ),
]
_AccuracyOption = Annotated[
    str | None,
    typer.Option(
        "--least-accuracy",
        metavar="MEASURE=LIMIT",
        help="Engines and precisions below it are left out, and outputs are not compared: "
        "Top1=97%, or of WER, CER and MSE the most: CER=2%. Needs --dataset.",
        show_default=False,
    ),
]
_DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="DATASET",
        help="Data set of --least-accuracy: a folder, a tar or zip, a CSV or JSONL file, or "
        "builtin://digits. The model's manifest (model.yaml next to it) has its steps.",
        show_default=False,
    ),
]
_SecondsOption = Annotated[
    int,
    typer.Option(
        "--seconds",
        min=5,
        metavar="N",
        help="What one full measurement may take on average: trials of all candidates together "
        "take a fifth of measuring each of them so long.",
    ),
]
_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Directory for the results, the trials and best.yaml. [default: "
        "results/tune-NAME-TIME]",
    ),
]


def tune(  # noqa: PLR0913 - one argument for each option
    model: _Model,
    *,
    p99: _P99Option,
    engines: _EnginesOption = None,
    batches: _BatchesOption = "4,8",
    most: _MostOption = 48,
    least_cosine: _CosineOption = 0.999,
    least_accuracy: _AccuracyOption = None,
    dataset: _DatasetOption = None,
    seconds: _SecondsOption = 60,
    output: _OutputOption = None,
    set_: SetOption = None,
) -> None:
    """Find engine, precision, threads, instances and batching for the highest rate on this machine.

    Short interleaved trials of all candidates, longer ones of the better third, and so on; then the
    best three are measured in full, on fresh seeds. Only these figures are reported. Ctrl-C keeps
    the finished trials and confirmations, marked as unfinished.
    """
    from inferometer_analysis.tune.candidates import candidates
    from inferometer_cli.local.accuracy_floor import AccuracyFloor
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.local.tuning import InterruptedTuningError, Tuning
    from inferometer_cli.result_file import check_directory

    floor = AccuracyFloor.parse(least_accuracy, dataset)
    wanted = _engines(engines)
    maker = _Maker(model, p99, list(set_ or []))
    try:
        grid = candidates(
            len(os.sched_getaffinity(0)),
            maker.select_engines(wanted),
            _batch_sizes(batches),
            delay_us=min(2000, maker.bound_microseconds // 10),
            most=most,
        )
    except ValueError as error:
        raise RefusedError(str(error)) from error
    maker.make_room(max(max(each.trial_clients) for each in grid))
    # A setting of the command line makes candidates equal: each is tried once, as it runs.
    found = list(dict.fromkeys(maker.effective(each) for each in grid))
    engines_of_all = dict.fromkeys((each.runtime, each.precision) for each in found)
    print_warnings([maker.checked(each) for each in engines_of_all])
    directory = output or Path("results") / f"tune-{maker.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    check_directory(directory)
    with deferred_signals() as ending:
        tuning = Tuning(
            candidates=found,
            make=maker.run,
            measure=lambda run: measure(run, Path.cwd(), ending, watch=lambda *_: None),
            bound_microseconds=maker.bound_microseconds,
            floor=least_cosine if floor is None else floor,
            seed=maker.seed,
            say=print_message,
            full_seconds=seconds,
        )
        try:
            tuning.leave_out_inaccurate()
            tuning.confirm(tuning.search(0))
        except InterruptedTuningError as interruption:
            print_message(f"inferometer: {interruption}")
            if tuning.trials:
                _keep(tuning, directory, ran_to_completion=False)
                print_message(_unfinished_sentence(tuning, directory))
            raise typer.Exit(exit_code_of(interruption.document)) from interruption
        _keep(tuning, directory, ran_to_completion=True)
        _report(tuning.ranked(), directory, maker, tuning.lowest_p99_ns)


def _keep(tuning: "Tuning", directory: Path, *, ran_to_completion: bool) -> None:
    """Write the trials, and the result of each confirmed peak."""
    from inferometer_cli.local.tuning import write_summary
    from inferometer_cli.result_file import save_result

    directory.mkdir(parents=True, exist_ok=True)
    write_summary(tuning, directory / "tune.json", ran_to_completion=ran_to_completion)
    for place, each in enumerate(tuning.ranked(), 1):
        save_result(each.document, directory / f"{place}")


def _unfinished_sentence(tuning: "Tuning", directory: Path) -> str:
    from inferometer_api.wording import counted

    confirmed = len(tuning.confirmed)
    results = f" and the results of {counted(confirmed, 'confirmation')}" if confirmed else ""
    return (
        f"The search is unfinished, so it wrote no best.yaml. {directory} has tune.json with "
        f"{counted(len(tuning.trials), 'trial')}{results}. Repeating the command starts anew."
    )


def _report(
    confirmed: Sequence[Any], directory: Path, maker: "_Maker", lowest_p99_ns: int | None
) -> None:
    """Print the confirmed peaks and write the best; raise FailedError if there is none."""
    from inferometer_results.quantity import duration

    if any(each.ended_too_soon for each in confirmed):
        raise FailedError(
            f"The confirmations ended before a queue could grow: {maker.p99} is long for so fast a "
            "model. Lower --p99, or measure longer with --set "
            "spec.scenarios[0].findPeak.probe.minQueries=16384."
        )
    if not confirmed or not confirmed[0].rate:
        lowest = (
            ""
            if lowest_p99_ns is None
            else f" The lowest P99 of a trial was {duration(lowest_p99_ns)}."
        )
        raise FailedError(
            f"No candidate was confirmed to keep a P99 of {maker.p99}.{lowest} Raise --p99, or see "
            f"{directory}/tune.json."
        )
    with flushed_output():
        console = output_console()
        for place, each in enumerate(confirmed, 1):
            peak = each.scenario.peak
            bracket = (
                "" if peak is None else f" ({peak.low_qps or 0:.1f} to {peak.high_qps or 0:.1f})"
            )
            verdict = each.scenario.verdict.state
            console.out(
                f"{place}. {each.rate:.1f} queries/s{bracket}, {verdict}: {each.candidate.label}",
                highlight=False,
            )
        best = directory / "best.yaml"
        best.write_text(run_yaml(confirmed[0].document.run), encoding="utf-8")
        console.out(f"\nSettings: {best}", highlight=False)
    if not confirmed[0].is_valid:
        raise typer.Exit(ExitCode.INVALID)


class _Maker:
    """Makes the runs of a search from the run that model and bound mean."""

    def __init__(self, model: str, p99: str, settings: list[str]) -> None:
        self._settings = settings
        self._source = model
        self._fields: dict[str, Any] = yaml.safe_load(compose_run(model, QuickOptions(p99=p99)))
        self.p99 = p99
        try:
            base = self.run({})
        except RefusedError as error:
            raise RefusedError(in_flags(str(error))) from error
        peak = base.spec.scenarios[0].find_peak
        if peak is None:
            raise RefusedError("tune searches for a peak: leave spec.scenarios as they are.")
        self.bound_microseconds = peak.latency_bound_microseconds
        self.name, self.seed = base.name, base.spec.load.seed

    def run(self, members: Mapping[str, Any]) -> BenchmarkRun:
        """Return the run with these members of its spec, and `seed` of its load.

        A setting of the command line overrides a candidate's server. It overrides neither the load
        and length of a trial nor a seed: these belong to the search.
        """
        owned = dict(members)
        server = owned.pop("server", None)
        spec = self._fields["spec"] | ({} if server is None else {"server": server})
        fields = yaml.safe_load(run_yaml(self._parse({**self._fields, "spec": spec}, fixed=True)))
        seed = owned.pop("seed", None)
        if seed is not None:
            owned["load"] = {**fields["spec"].get("load", {}), "seed": seed}
        return fill_defaults(self._parse({**fields, "spec": fields["spec"] | owned}))

    def make_room(self, clients: int) -> None:
        """Give the load so many connections that these closed-loop clients never wait for one.

        Over HTTP a connection carries one query at a time. With too few, a server of many instances
        or large batches waits for queries, and seems slower than it is.
        """
        load = self.run({}).spec.load
        streams = load.streams_per_connection if load.protocol == "GRPC" else 1
        wanted = min(-(-clients // streams), _MOST_CONNECTIONS)
        if wanted > load.connections:
            self._fields["spec"]["load"] = {"connections": wanted}

    def _parse(self, fields: Mapping[str, Any], *, fixed: bool = False) -> BenchmarkRun:
        """Return the run of these fields; `fixed`: with the settings of the command line."""
        text = yaml.safe_dump(fields, sort_keys=False)
        return parse_run_text(text, source=self._source, settings=self._settings if fixed else ())

    def effective(self, candidate: "Candidate") -> "Candidate":
        """Return a candidate with what the command line sets in its place."""
        server = self.run({"server": candidate.server()}).spec.server
        if server.threads is None:
            raise RefusedError("spec.server.threads must be a number to be compared with others.")
        batching = server.batching
        return replace(
            candidate,
            runtime=server.runtime,
            precision=server.precision,
            threads=server.threads,
            instances=server.instances,
            max_batch_size=batching.max_batch_size if batching else 0,
            max_delay_microseconds=batching.max_delay_microseconds if batching else 0,
        )

    def select_engines(self, engines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the engines that the manifest of the model takes, and print why others are out.

        Raises RefusedError if it takes none of them.
        """
        from inferometer_cli.local.files import manifest_file

        found, refusals = [], list[str]()
        for engine in engines:
            try:
                manifest_file(self.checked(engine), Path.cwd())
            except RefusedError as refusal:
                refusals.append(str(refusal).replace(_RUNTIME_ADVICE, "name it in --engines"))
                print_message(f"{':'.join(engine)} is left out: {refusals[-1]}")
            else:
                found.append(engine)
        if not found:
            raise RefusedError(refusals[0])
        return found

    def checked(self, engine: tuple[str, str]) -> BenchmarkRun:
        """Return the run of an engine in a precision; raises RefusedError if it cannot run here."""
        runtime, precision = engine
        run = self.run({"server": {"runtime": runtime, "precision": precision}})
        return check_support(run, source=self._source)


def _runs_here(runtime: Runtime) -> bool:
    launch = RUNTIMES[runtime].launch
    return launch is not None and launch.local is not None and is_installed(launch.local)


def _engines(text: str | None) -> list[tuple[str, str]]:
    if text is None:
        return [each for each in _ENGINES if _runs_here(each[0])]
    found = []
    for word in filter(None, map(str.strip, text.split(","))):
        runtime, _, precision = word.partition(":")
        found.append((runtime, precision or "Default"))
    names, precisions = get_args(Runtime), get_args(Precision)
    unknown = [each for each in found if each[0] not in names or each[1] not in precisions]
    if unknown or not found:
        raise RefusedError(
            "--engines expects engines with their precision, as in "
            f'OnnxRuntime:Default,OpenVino:BF16, but got "{text}". Engines are {", ".join(names)}, '
            f"precisions {', '.join(precisions)}."
        )
    return found


def _batch_sizes(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",") if each.strip()]
    except ValueError as error:
        raise RefusedError(f'--batches expects numbers such as 4,8, but got "{text}".') from error
    for size in found:
        if not 0 <= size <= MAXIMUM_BATCH_SIZE:
            raise RefusedError(
                f"--batches expects sizes of 1 to {MAXIMUM_BATCH_SIZE}, but got {size}."
            )
    return [size for size in dict.fromkeys(found) if size]
