"""The command behind `make demo-dashboards`.

It measures runs on this machine, lets a Prometheus scrape them every 5 s, exposes the results of
finished runs as the operator would, and starts Grafana with the dashboards if it is installed.
Ctrl-C stops everything; only the results remain.
"""

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grafana.dashboards.frame import UIDS
from grafana.demo_finished import finished_runs, run_from_result
from grafana.demo_grafana import find_grafana, grafana
from inferometer_api.metrics.definitions import RUN_INFO
from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_api.timestamps import parse_time
from support.prometheus import from_files, on_the_path, prometheus, static
from support.waiting import wait_until

CHECKOUT = Path(__file__).resolve().parents[1]
_RUNS = ("examples/01-resnet50-cpu.yaml", "examples/02-minilm-grpc.yaml")
_RESULTS = CHECKOUT / "results" / "demo-dashboards"
_SCRAPE_SECONDS = 5
_MEASURED = {0, 3}
_INTERRUPTED = 130
_SEEN_SECONDS = 60.0
_AFTERWARDS_MILLISECONDS = 10_000
"""Two scrapes: the result of a run is exposed after its end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the dashboards until Ctrl-C; return the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory(prefix="inferometer-") as folder, ExitStack() as everything:
            return _show(options, Path(folder), everything)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m grafana.demo", description=__doc__)
    parser.add_argument(
        "--run", action="append", metavar="FILE", help=f"a run file; default: {', '.join(_RUNS)}"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=30,
        help="how long each scenario is measured (default: 30; rates are taken over 20)",
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, metavar="DIR")
    parser.add_argument("--once", action="store_true", help="end when the runs are over and seen")
    return parser


def _show(options: argparse.Namespace, folder: Path, everything: ExitStack) -> int:
    targets = folder / "targets"
    targets.mkdir()
    exported, finished_at = everything.enter_context(finished_runs())
    # The file names each process's run, as the metrics do.
    runs = from_files("local", targets / "*.json") | {"honor_labels": True}
    scraped = [runs, static("operator", finished_at)]
    database = everything.enter_context(
        prometheus(
            folder / "prometheus", scraped, interval=f"{_SCRAPE_SECONDS}s", program=on_the_path()
        )
    )
    _say(f"Prometheus  {database.url}")
    pages = _pages(folder / "grafana", database.url, everything)
    seen = set()
    for file in options.run or [str(CHECKOUT / name) for name in _RUNS]:
        done, document = _measure(Path(file), options, targets)
        if document is None:
            return done
        exposed_run = run_from_result(document)
        exported.update_run(exposed_run)
        seen.add(exposed_run["metadata"]["uid"])
        if pages:
            _say(f"{exposed_run['metadata']['name']}  {pages}{_at_its_time(exposed_run)}")
    wait_until(
        lambda: seen <= {each.labels["run_uid"] for each in database.query(RUN_INFO.name)},
        "the finished runs in Prometheus",
        deadline_seconds=_SEEN_SECONDS,
        poll_seconds=0.5,
    )
    if not options.once:
        _say("All is measured. Ctrl-C ends the demo.")
        signal.pause()
    return 0


def _at_its_time(exposed_run: dict[str, Any]) -> str:
    """Return where the dashboards show a finished run, at its own time and a little after it."""
    named, status = exposed_run["metadata"], exposed_run["status"]
    times = [parse_time(status[each]) for each in ("startTime", "completionTime")]
    since, until = (round(1000 * time.timestamp()) for time in times if time is not None)
    return (
        f"/d/{UIDS['Run']}?var-run_namespace={named['namespace']}&var-run={named['name']}"
        f"&var-scrape={_SCRAPE_SECONDS}s&from={since}&to={until + _AFTERWARDS_MILLISECONDS}"
    )


def _pages(folder: Path, prometheus_url: str, everything: ExitStack) -> str:
    """Start Grafana where there is one; return its URL, or empty."""
    found = find_grafana()
    if found is None:
        _say(
            "Grafana     is not installed: neither `grafana` on the PATH nor GRAFANA_HOME was "
            "found. Import grafana/dashboards/*.json into one of yours, or ask Prometheus."
        )
        return ""
    url = everything.enter_context(grafana(found, folder, prometheus_url, _SCRAPE_SECONDS))
    for name, uid in UIDS.items():
        _say(f"{name:11} {url}/d/{uid}")
    return url


def _measure(
    file: Path, options: argparse.Namespace, targets: Path
) -> tuple[int, ResultDocument | None]:
    """Measure a run; return its exit code, and what it found where it was measured."""
    validity = {"warmUpSeconds": 1, "minDurationSeconds": options.seconds}
    validity["maxDurationSeconds"] = 3 * options.seconds
    settings = [f"spec.validity.{name}={value}" for name, value in validity.items()]
    output = options.results / file.stem
    words = [str(Path(sys.executable).with_name("inferometer")), "run", str(file)]
    words += ["--output", str(output), "--prometheus-targets", str(targets / f"{file.stem}.json")]
    words += [word for setting in settings for word in ("--set", setting)]
    # In a group of its own it hears of our end from us alone, once: a second time it would not
    # take the time to end well.
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0) as process:  # noqa: S603 - our own command
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if code not in _MEASURED:
        return code, None
    text = (output / "result.json").read_text(encoding="utf-8")
    return code, read_result(text, source="the result").document


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what the demo is for


if __name__ == "__main__":
    sys.exit(main())
