"""Records the history of five specs on this machine: equal runs, one round after the other.

    .venv/bin/python bench/history_series.py          # 200 rounds of 5 runs of 5 s: about 2 hours
    .venv/bin/python bench/history_series.py --rounds 40 --seconds 2

Each round measures every spec once, with a server of its own. Every run is a row of the CSV file,
written at once: the command can be interrupted at any time, and continues after what is recorded.
Called again, it also repeats the rounds of which no run was VALID, as on a machine in use.
It then writes the tables of docs/explanation/regressions.md. `--judge-only` measures nothing.
"""

import argparse
import csv
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

# bench/ is a folder of scripts, not an installed package; the noise models are those of tests/
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.history_record import COLUMNS, CSV, PERCENTILES, read_rows, write_page
from bench.processes import ROOT, BenchError

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument, nanoseconds_at

_COMMAND = (sys.executable, "-m", "inferometer_cli")
_MEASURED = (0, 3)
"""Exit codes after a whole measurement: VALID, INVALID."""
_RUN = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata: {{name: {name}}}
spec:
  model: {{uri: "zoo://{model}"}}
  load: {{protocol: {protocol}}}
  scenarios: [{{name: measured, {scenario}}}]
  telemetry: {{power: Disabled}}
  validity: {{warmUpSeconds: 1, minDurationSeconds: {seconds}, minQueries: 50}}
"""
_SPECS: Mapping[str, Mapping[str, str]] = {
    "mobilenet-http": {
        "model": "classification/mobilenetv4_conv_small",
        "protocol": "HTTP",
        "scenario": "singleStream: {}",
    },
    "mobilenet-grpc": {
        "model": "classification/mobilenetv4_conv_small",
        "protocol": "GRPC",
        "scenario": "singleStream: {}",
    },
    "squeezenet-traffic": {
        "model": "classification/squeezenet1_1",
        "protocol": "HTTP",
        "scenario": "server: {targetQps: 20, latencyBoundMicroseconds: 200000, percentile: P90}",
    },
    "squeezenet-batch": {
        "model": "classification/squeezenet1_1",
        "protocol": "HTTP",
        "scenario": "batch: {batchSizes: [4]}",
    },
    "resnet50-grpc": {
        "model": "classification/resnet50",
        "protocol": "GRPC",
        "scenario": "singleStream: {}",
    },
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not yet recorded, and write the page; return the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the children on the way out
    if not options.judge_only:
        try:
            _record(options.csv, options.rounds, options.seconds)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    if options.csv == CSV:
        write_page()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Record equal runs of five specs.")
    parser.add_argument("--csv", type=Path, default=CSV)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=5, help="length of each window")
    parser.add_argument("--judge-only", action="store_true", help="measure nothing")
    return parser


def _record(path: Path, rounds: int, seconds: int) -> None:
    """Append the rounds that the file lacks. Raises BenchError if a run fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = read_rows(path)
    recorded = {(row["spec"], int(row["round"])) for row in rows if row["verdict"] == "VALID"}
    missing = [
        (name, number)
        for number in range(1, rounds + 1)
        for name in _SPECS
        if (name, number) not in recorded
    ]
    began = time.monotonic()
    with TemporaryDirectory(prefix="inferometer-history-") as folder, path.open("a") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for done, (name, number) in enumerate(missing):
            document = _measure(name, seconds, Path(folder))
            writer.writerow(_row(name, number, document))
            file.flush()
            left = (time.monotonic() - began) / (done + 1) * (len(missing) - done - 1)
            verdict = "VALID" if document.valid else "INVALID"
            print(f"round {number}/{rounds}, {name}: {verdict}; {left / 60:.0f} min left")


def _measure(name: str, seconds: int, folder: Path) -> ResultDocument:
    run, output = folder / f"{name}.yaml", folder / f"{name}-{time.monotonic_ns()}"
    run.write_text(_RUN.format(name=name, seconds=seconds, **_SPECS[name]))
    command = [*_COMMAND, "run", str(run), "--output", str(output), "--no-save"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if found.returncode not in _MEASURED:
        words = (found.stdout + found.stderr)[-3000:]
        raise BenchError(f"{' '.join(command)} exited with {found.returncode}:\n{words}")
    text = (output / "result.json").read_text(encoding="utf-8")
    return read_result(text, source=name).document


def _row(name: str, number: int, document: ResultDocument) -> dict[str, object]:
    (scenario,) = document.scenarios
    (step,) = scenario.steps
    times = {key: nanoseconds_at(step.latency, at) for key, at in PERCENTILES.items()}
    return {
        "spec": name,
        "round": number,
        "started_at": document.started_at,
        "verdict": "VALID" if document.valid else "INVALID",
        "qps": step.achieved_qps,
        **times,
    }


if __name__ == "__main__":
    sys.exit(main())
