"""A run on a real node that a real Prometheus scrapes.

Operator and agents are installed by their charts, and found by the annotations that these set, with
the scrape config of docs/how-to/prometheus.md.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from docgen.files import CHECKOUT

from support.agent_chart import agents_installed, agents_namespace
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import SLOW_SECONDS, holds, make_run, status
from support.operator_installed import operator_installed
from support.prometheus import Prometheus, prometheus_in
from support.waiting import wait_until

PAGE = CHECKOUT / "docs" / "how-to" / "prometheus.md"
RULES = sorted((CHECKOUT / "grafana" / "rules").glob("*.yaml"))
RUN = "watched"
_SCENARIOS = [
    {"name": "latency", "singleStream": {}},
    {"name": "traffic", "server": {"targetQps": 4, "latencyBoundMicroseconds": 2_000_000}},
]
_ACCOUNT = {"serviceAccount": "inferometer-operator"}
_VALIDITY = {"warmUpSeconds": 2, "minDurationSeconds": 10, "minQueries": 10}


@dataclass(frozen=True, slots=True)
class Monitored:
    """A run that has finished, and the Prometheus that watched it."""

    cluster: Cluster
    prometheus: Prometheus
    namespace: str
    run: str
    status: Json
    began: float
    ended: float
    """When it was made and when it was seen to be finished, seconds since 1970."""
    live: dict[str, float]
    """By expression: when it first gave something while the run went on, seconds since 1970."""


def documented(heading: str) -> list[Json]:
    """Return the scrape configs that a section of the how-to gives."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    found = re.search(r"^```yaml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found, f"{heading!r} of {PAGE} gives no scrape config"
    configs: list[Json] = yaml.safe_load(found[1])["scrape_configs"]
    return configs


@contextmanager
def monitored_run(
    cluster: Cluster, folder: Path, watched: tuple[str, ...] = ()
) -> Iterator[Monitored]:
    """Measure one run of two scenarios, scraped every 5 s; its Prometheus answers until the end.

    Each expression of `watched` is queried until it gives something, while the run goes on;
    %RUN% in it stands for the run's labels.
    """
    with (
        agents_namespace(cluster) as agents,
        operator_installed(cluster, "watched", {"agent": {"namespace": agents}}) as namespace,
        agents_installed(cluster, agents, _ACCOUNT | {"namespace": namespace}),
        prometheus_in(cluster, folder, documented("By annotations"), rules=RULES) as prometheus,
    ):
        for metric in ("inferometer_operator_leader == 1", "inferometer_agent_samples_total"):
            _wait(prometheus, metric)
        began = time.time()
        make_run(
            cluster, namespace, RUN, scenarios=_SCENARIOS, validity=_VALIDITY,
            telemetry={"idleSeconds": 1},
        )  # fmt: skip
        labels = f'run_namespace="{namespace}", run="{RUN}"'
        expressions = {each: each.replace("%RUN%", labels) for each in watched}
        live: dict[str, float] = {}

        def over() -> bool:
            finished = holds(cluster, namespace, RUN, "Finished")
            for name, promql in expressions.items():
                if name not in live and not finished and prometheus.has(promql):
                    live[name] = time.time()
            return finished

        wait_until(over, f"the end of {RUN}", (), SLOW_SECONDS, poll_seconds=0.5)
        ended = time.time()
        _wait(prometheus, f"inferometer_run_info{{{labels}}}")
        run_status = status(cluster, namespace, RUN)
        assert len(run_status.get("scenarios", [])) == len(_SCENARIOS), json.dumps(
            run_status, indent=1
        )
        yield Monitored(cluster, prometheus, namespace, RUN, run_status, began, ended, live)


def _wait(prometheus: Prometheus, promql: str) -> None:
    wait_until(lambda: bool(prometheus.query(promql)), promql, (), SLOW_SECONDS, poll_seconds=0.5)
