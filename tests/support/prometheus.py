"""Runs a real Prometheus, and queries it.

It listens on a free port, keeps its data in a folder of the test's and ends with its context.
"""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from support.cluster.binaries import binary
from support.cluster.cluster import Cluster
from support.cluster.processes import Group, Process
from support.waiting import wait_until

Json = dict[str, Any]
READY_SECONDS = 60.0
"""Far above what it takes: a start that reaches it has failed."""
_TIMEOUT_SECONDS = 60.0
_LISTENING = re.compile(rb'msg="Listening on" .*?address=(\S+)')


@dataclass(frozen=True, slots=True)
class Sample:
    """One time series at one moment."""

    labels: dict[str, str]
    value: float
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Series:
    """One time series over a range: pairs of seconds since 1970 and value."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


class Starter(Protocol):
    """Whatever starts a program whose log is kept."""

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """Return the process."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str, configuration: Path) -> None:
        self.url = url
        self.configuration = configuration

    def query(self, promql: str, at: float | None = None) -> list[Sample]:
        """Return what an expression gives now, or at `at` (seconds since 1970)."""
        result = self.get("query", query=promql, **({} if at is None else {"time": str(at)}))
        if result["resultType"] == "scalar":
            moment, value = result["result"]
            return [Sample({}, float(value), float(moment))]
        return [
            Sample(each["metric"], float(each["value"][1]), float(each["value"][0]))
            for each in result["result"]
        ]

    def query_range(
        self, promql: str, start: float, end: float, step_seconds: float = 1.0
    ) -> list[Series]:
        """Return what an expression gives from `start` to `end` (seconds since 1970)."""
        result = self.get(
            *("query_range",), query=promql, start=str(start), end=str(end), step=str(step_seconds)
        )
        return [
            Series(each["metric"], tuple((float(at), float(value)) for at, value in each["values"]))
            for each in result["result"]
        ]

    def has(self, promql: str) -> bool:
        """Return whether an expression gives anything now."""
        return bool(self.query(promql))

    def value(self, promql: str) -> float:
        """Return the value of an expression that gives exactly one."""
        found = self.query(promql)
        assert len(found) == 1, f"{promql} gives {len(found)} values: {found}"
        return found[0].value

    def targets(self) -> list[Json]:
        """Return the targets that are scraped, as the API reports them."""
        found: list[Json] = self.get("targets", state="active")["activeTargets"]
        return found

    def alerts(self) -> list[Json]:
        """Return the alerts that are pending or firing."""
        found: list[Json] = self.get("alerts")["alerts"]
        return found

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data that the HTTP API answers; ValueError with its complaint."""
        request_url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(request_url, timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - our own server's address
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters} was queried: {error.read().decode()}") from error

    def is_ready(self) -> bool:
        """Return whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_TIMEOUT_SECONDS):  # noqa: S310 - as above
                return True
        except OSError:
            return False

    def configure(
        self,
        scrape_configs: Sequence[Json],
        rules: Sequence[Path] = (),
        interval: str = "5s",
    ) -> None:
        """Take another configuration; ValueError where Prometheus refuses it."""
        self.configuration.write_text(configuration(scrape_configs, rules, interval))
        reload_request = urllib.request.Request(f"{self.url}/-/reload", method="POST")  # noqa: S310 - as above
        try:
            urllib.request.urlopen(reload_request, timeout=_TIMEOUT_SECONDS).close()  # noqa: S310 - as above
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from error


def on_the_path() -> Path | None:
    """Return the path of the machine's own Prometheus, if it has one."""
    found = shutil.which("prometheus")
    return Path(found) if found else None


def configuration(
    scrape_configs: Sequence[Json], rules: Sequence[Path] = (), interval: str = "5s"
) -> str:
    """Return the text of a configuration that scrapes and evaluates every `interval`."""
    return yaml.safe_dump(
        {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": [str(path.absolute()) for path in rules],
            "scrape_configs": list(scrape_configs),
        },
        sort_keys=False,
    )


def static(job: str, *addresses: str, **labels: str) -> Json:
    """Return a scrape config of fixed addresses (HOST:PORT)."""
    return {"job_name": job, "static_configs": [{"targets": list(addresses), "labels": labels}]}


def from_files(job: str, *files: Path) -> Json:
    """Return a scrape config of targets that files name, which are read again when they change."""
    names = [str(file.absolute()) for file in files]
    return {"job_name": job, "file_sd_configs": [{"files": names, "refresh_interval": "1s"}]}


@contextmanager
def prometheus(
    folder: Path,
    scrape_configs: Sequence[Json],
    *,
    rules: Sequence[Path] = (),
    interval: str = "5s",
    program: Path | None = None,
) -> Iterator[Prometheus]:
    """Run a Prometheus on loopback, with its data in `folder`, which it makes.

    Without a `program` it is the pinned one.
    """
    group = Group(folder / "logs")
    text = configuration(scrape_configs, rules, interval)
    try:
        yield _started(group, folder, "127.0.0.1", text, program)
    finally:
        group.stop()


@contextmanager
def prometheus_in(
    cluster: Cluster,
    folder: Path,
    scrape_configs: Sequence[Json],
    *,
    rules: Sequence[Path] = (),
    interval: str = "5s",
) -> Iterator[Prometheus]:
    """Run a Prometheus in a cluster's own network, from where it reaches pods and the API server.

    Where a scrape config discovers by Kubernetes, it is given the cluster's kubeconfig.
    """
    known = [_with_kubeconfig(each, cluster.kubeconfig) for each in scrape_configs]
    text = configuration(known, rules, interval)
    runner = _ClusterRunner(cluster)
    try:
        yield _started(runner, folder, cluster.wire.cluster, text)
    finally:
        runner.stop()


class _ClusterRunner:
    """Starts programs in a cluster's own network."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._processes: list[Process] = []

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """Return the process."""
        process = self._cluster.start_in_control_plane(name, command)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """End what was started."""
        for process in self._processes:
            process.kill()


def _with_kubeconfig(scrape_config: Json, kubeconfig: Path) -> Json:
    if "kubernetes_sd_configs" not in scrape_config:
        return scrape_config
    found = [
        each | {"kubeconfig_file": str(kubeconfig)}
        for each in scrape_config["kubernetes_sd_configs"]
    ]
    return scrape_config | {"kubernetes_sd_configs": found}


def _started(
    starter: Starter, folder: Path, address: str, text: str, program: Path | None = None
) -> Prometheus:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    file.write_text(text)
    process = starter.start("prometheus", [
        program or binary("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}:0",
        "--web.enable-lifecycle",
        # By default new targets wait for 5 s, so that many at once are taken together.
        "--scrape.discovery-reload-interval=1s",
    ])  # fmt: skip
    made: list[Prometheus] = []

    def answers() -> bool:
        # The last one logged: a log may begin with that of a Prometheus that has ended.
        matches = _LISTENING.findall(process.log.read_bytes())
        made[:] = [Prometheus(f"http://{each.decode()}", file) for each in matches[-1:]]
        return bool(made) and made[0].is_ready()

    wait_until(answers, "Prometheus's readiness", [process], READY_SECONDS)
    return made[0]


def check(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run this command of promtool, whether it succeeds or not."""
    return subprocess.run([binary("promtool"), *words], capture_output=True, text=True, check=False)
