"""Real series of `inferometer ab`: pairs of equal variants, and pairs with a planted slowdown.

    python -m bench.ab_series --output results/ab-series

measures a 2 ms model on this machine. One *pair* is one whole `inferometer ab`. In an equal pair B
is A; in a planted pair B's server waits after each inference, for 10 % of A's median latency. The
command continues after what it has measured before: pairs that are inconclusive after the planned
rounds get their second look, as `ab` gives it. It writes every run to a CSV file, and the
tables of docs/explanation/differences.md.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.ab_record import COLUMNS, CSV, MOST_ROUNDS, PERCENTILES, PLANNED_ROUNDS
from bench.alarm_rules import write_page
from bench.processes import ROOT, BenchError

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument, nanoseconds_at
from inferometer_models import zoo
from inferometer_results.compare.comparison import Comparison, compare_rounds

MOST_ALARMS = 0
LEAST_FOUND = 0.9
"""The share of the planted pairs that must be found."""
_PLANTED = 0.10
_MODEL = "classification/mobilenetv4_conv_small"
_CALIBRATIONS = 5
_FEWEST_CALIBRATIONS = 3
_COMMAND = (sys.executable, "-m", "inferometer_cli")
_MEASURED = (0, 3, 4, 5)
"""Exit codes after a whole measurement: VALID or passed, INVALID, slower, inconclusive."""
_RUN = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata: {{name: ab-series}}
spec:
  model: {{uri: "file:{model}"}}
  scenarios: [{{name: latency, singleStream: {{}}}}]
  telemetry: {{power: Disabled}}
  validity: {{warmUpSeconds: 0, minDurationSeconds: {seconds}, minQueries: 100}}
"""


@dataclass(frozen=True, slots=True)
class Series:
    """Where the pairs are measured, and how many."""

    folder: Path
    equal: int
    planted: int
    rounds: int
    most_rounds: int

    def pairs(self) -> list[str]:
        """Return the names of the pairs, planted ones evenly among the equal ones."""
        slots = [((at + 0.5) / self.equal, f"equal-{at + 1:02}") for at in range(self.equal)]
        slots += [((at + 0.5) / self.planted, f"planted-{at + 1:02}") for at in range(self.planted)]
        return [name for _, name in sorted(slots)]


@dataclass(frozen=True, slots=True)
class Judged:
    """What `ab` makes of one pair."""

    name: str
    figures: tuple[str, ...]
    """The figures that differ, in words; empty if none does."""
    is_slower: bool
    """Whether any of them is worse in B."""
    is_judged: bool
    """Whether enough of its rounds are VALID."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not yet measured; return 0 if the promises hold, else 1."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the children on the way out
    series = Series(
        options.output.resolve(),
        options.equal,
        options.planted,
        options.rounds,
        options.most_rounds,
    )
    if not options.judge_only:
        try:
            _measure(series, options.seconds)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    measured = {name: _documents(series, name) for name in series.pairs()}
    _write_csv(measured, options.csv)
    if options.csv == CSV:
        write_page()
    return _report(
        [_judged(name, *pair, look=len(_looks(series, name))) for name, pair in measured.items()]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure equal and planted pairs of variants.")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "ab-series")
    parser.add_argument("--csv", type=Path, default=CSV)
    parser.add_argument("--equal", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=PLANNED_ROUNDS)
    parser.add_argument("--most-rounds", type=int, default=MOST_ROUNDS)
    parser.add_argument("--seconds", type=int, default=1, help="length of each window")
    parser.add_argument("--judge-only", action="store_true", help="measure nothing")
    return parser


def _measure(series: Series, seconds: int) -> None:
    a = _prepare(series, seconds)
    wait_us = _calibrated_wait_us(series, a)
    b = series.folder / "B.yaml"
    planted = series.folder / f"planted-{wait_us}us.onnx"
    if not planted.exists():
        planted.hardlink_to(series.folder / "model.onnx")
    b.write_text(_RUN.format(model=planted.name, seconds=seconds))
    names = series.pairs()
    began, done = time.monotonic(), 0
    for number, name in enumerate(names, 1):
        before = _run_count(series.folder / name)
        code = _ab(series, name, a, b if name.startswith("planted") else a)
        done += _run_count(series.folder / name) > before
        spent = time.monotonic() - began
        left = f"about {spent / done * (len(names) - number) / 60:.0f} min left" if done else ""
        print(f"{number}/{len(names)} {name}: exit code {code}. {left}", flush=True)


def _run_count(folder: Path) -> int:
    return len(list(folder.glob("*/result.json")))


def _prepare(series: Series, seconds: int) -> Path:
    """Write the model, its weights and A's run file; return the last."""
    series.folder.mkdir(parents=True, exist_ok=True)
    if not (series.folder / "model.onnx").exists():
        weights = series.folder / zoo.entry(_MODEL).weights_file
        weights.write_bytes(b"".join(zoo.weight_chunks(_MODEL)))
        (series.folder / "model.onnx").write_bytes(zoo.read_onnx(_MODEL))
    a = series.folder / "A.yaml"
    a.write_text(_RUN.format(model="model.onnx", seconds=seconds))
    return a


def _calibrated_wait_us(series: Series, a: Path) -> int:
    """Return 10 % of the median of a few runs of A, in microseconds."""
    medians = []
    for number in range(_CALIBRATIONS):
        folder = series.folder / f"calibration-{number + 1}"
        if not (folder / "result.json").exists():
            _run([*_COMMAND, "run", str(a), "--output", str(folder)])
        document = _read(folder / "result.json")
        if document.valid:
            medians.append(_nanoseconds(document, 50.0))
    if len(medians) < _FEWEST_CALIBRATIONS:
        raise BenchError("This machine is too busy: the first runs are INVALID.")
    wait_us = round(median(medians) * _PLANTED / 1000)
    print(f"median of A: {median(medians) / 1e6:.3f} ms; planted: {wait_us} us", flush=True)
    return wait_us


def _ab(series: Series, name: str, a: Path, b: Path) -> int:
    command = [*_COMMAND, "ab", str(a), str(b), "--rounds", str(series.rounds)]
    command += ["--most-rounds", str(series.most_rounds), "--no-save"]
    return _run([*command, "--output", str(series.folder / name)])


def _run(command: Sequence[str]) -> int:
    """Run a command with the planted wait in reach; return its exit code if it measured."""
    found = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bench" / "planted")},
    )
    if found.returncode not in _MEASURED:
        words = (found.stdout + found.stderr)[-3000:]
        raise BenchError(f"{' '.join(command)} exited with {found.returncode}:\n{words}")
    return found.returncode


def _looks(series: Series, name: str) -> list[int]:
    """Return the numbers of rounds at which `ab` judged a pair."""
    file = series.folder / name / "looks.json"
    if not file.exists():
        return [series.rounds]
    found: list[int] = json.loads(file.read_text(encoding="utf-8"))["rounds"]
    return found


def _documents(series: Series, name: str) -> tuple[list[ResultDocument], list[ResultDocument]]:
    """Return the results of A and of B up to the last look, in the order of the rounds."""
    count = _looks(series, name)[-1]
    found = {
        variant: [
            _read(path)
            for path in sorted((series.folder / name).glob(f"*-{variant}/result.json"))[:count]
        ]
        for variant in "AB"
    }
    return found["A"], found["B"]


def _read(path: Path) -> ResultDocument:
    return read_result(path.read_text(encoding="utf-8"), source=str(path)).document


def _judged(
    name: str, before: list[ResultDocument], after: list[ResultDocument], *, look: int
) -> Judged:
    comparison = compare_rounds(before, after, is_gate=True, look=look)
    differing = list(_differing(comparison))
    words = tuple(f"{figure} {word} {ratio - 1:+.1%}" for figure, word, ratio in differing)
    is_slower = any(word == "worse" for _, word, _ in differing)
    return Judged(name, words, is_slower, all(pair.is_valid for pair in comparison.pairs))


def _differing(comparison: Comparison) -> Iterator[tuple[str, str, float]]:
    for pair in comparison.pairs:
        for figure in pair.figures:
            if figure.judgement is not None and figure.word in {"better", "worse"}:
                yield figure.name, figure.word, figure.judgement.ratio


def _report(judged: Sequence[Judged]) -> int:
    """Print what came out; return the exit code."""
    equal = [each for each in judged if each.name.startswith("equal")]
    planted = [each for each in judged if each.name.startswith("planted")]
    alarms = [each for each in equal if each.figures]
    found = [each for each in planted if each.is_slower]
    unjudged = [each.name for each in judged if not each.is_judged]
    for each in judged:
        print(f"{each.name}: {', '.join(each.figures) or 'no difference shown'}")
    print(f"{len(unjudged)} pairs have too few VALID rounds (none may): {', '.join(unjudged)}")
    print(f"{len(alarms)} of {len(equal)} equal pairs differ (at most {MOST_ALARMS})")
    print(f"{len(found)} of {len(planted)} planted pairs are found (at least {LEAST_FOUND:.0%})")
    is_calm = len(alarms) <= MOST_ALARMS and not unjudged
    return 0 if is_calm and len(found) >= LEAST_FOUND * len(planted) else 1


def _write_csv(
    measured: dict[str, tuple[list[ResultDocument], list[ResultDocument]]], path: Path
) -> None:
    """Write one row for each run, in the order in which they were measured."""
    rows = [
        (name, number, variant, document)
        for name, pair in measured.items()
        for variant, documents in zip("AB", pair, strict=True)
        for number, document in enumerate(documents, 1)
    ]
    rows.sort(key=lambda row: row[3].started_at)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, number, variant, document in rows:
            scenario = document.scenarios[0]
            qps = f"{scenario.steps[0].achieved_qps:.3f}"
            latencies = [_nanoseconds(document, each) for each in PERCENTILES.values()]
            known = (name, number, variant, document.started_at, scenario.verdict.state)
            writer.writerow([*known, qps, *latencies])


def _nanoseconds(document: ResultDocument, percentile: float) -> int:
    found = nanoseconds_at(document.scenarios[0].steps[0].latency, percentile)
    if found is None:
        raise BenchError("A run has no latency: no query was answered.")
    return found


if __name__ == "__main__":
    sys.exit(main())
