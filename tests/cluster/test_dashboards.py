"""Every panel has data for a real run that Prometheus scraped every 5 s."""

import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, SERVER
from support.agent_chart import agents_installed, agents_namespace
from support.chart import Json
from support.cluster.cluster import Cluster
from support.dashboards import (
    DASHBOARDS,
    PanelQuery,
    choices,
    first_choice,
    interpolated,
    queries,
    selectors,
)
from support.monitored import documented
from support.node_runs import SLOW_SECONDS, holds, make_run, status
from support.operator_installed import operator_installed
from support.prometheus import Prometheus, prometheus_in
from support.quiet import INCONCLUSIVE, disturbance, read_counters
from support.recorded_agents import RecordedMachine, recorded_agents
from support.waiting import wait_until

RUNS = ("shown-1", "shown-2", "shown-3", "shown-4")
"""Measured in turn until one is VALID: only VALID runs have bars."""
VALID = "latency"
"""A scenario that stays VALID on a busy machine unless it stalls."""
SCENARIOS = [
    # A request takes 0.25 s to 1 s, by the machine: well above its other work, and well below
    # the timeout.
    {"name": VALID, "batch": {"batchSizes": [8]}},
    # More than a quarter of a CPU can answer: queries wait, and soon time out.
    {"name": "flood", "server": {"targetQps": 200, "latencyBoundMicroseconds": 2_000_000}},
]
LOAD = {"requestTimeoutMilliseconds": 5000}
VALIDITY = {"warmUpSeconds": 1, "minDurationSeconds": 26, "minQueries": 10}
"""Longer than the interval of rates: joules are shown only for whole intervals."""
ACCOUNT = {"serviceAccount": "inferometer-operator"}
POLL_SECONDS = 0.5
STEP_SECONDS = 5.0
OF_OTHER_RUNS = ("inferometer_run_stored_info", "inferometer_run_cold_start_seconds")
"""What runs have whose result is stored, and cold starts: contract tests answer these queries."""
SHOWN = [query for query in queries() if not any(each in query.expr for each in OF_OTHER_RUNS)]
QUERIES = [
    pytest.param(query, by, id=f"{query.where} {by}".strip())
    for query in SHOWN
    for by in (choices("compare", "by") if "$by" in query.expr else ("",))
]
FALLING_BACK = [
    pytest.param(query, id=query.where)
    for query in SHOWN
    # On the recorded machine no source is silent.
    if first_choice(query.expr) != query.expr and "Unavailable sources" not in query.where
]
SERIES = sorted({(query.dashboard, each) for query in SHOWN for each in selectors(query.expr)})
NOT_OVER = (
    "run: Stage",
    "operator: Nearest deadline",
    "operator: Phase of each run",
)
"""Panels that show the end of the time range of a running run."""
VARIABLES = [
    pytest.param(name, variable, id=f"{name}: {variable['name']}")
    for name, board in DASHBOARDS.items()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
]


@dataclass(frozen=True, slots=True)
class Shown:
    """A finished run, and the Prometheus that scraped it."""

    prometheus: Prometheus
    namespace: str
    run: str
    began: float
    measured: float
    """When Prometheus first had it as Measuring."""
    ended: float
    without_bars: list[str]
    """The reasons of its INVALID verdict, for which bars omit it."""
    disturbed: str | None
    """How much others disturbed the run, None if the machine was quiet."""

    def values(self, query: PanelQuery, by: str, expr: str = "") -> list[float]:
        """Return the values of a query, or of a part of it, as its panel requests them."""
        expr = interpolated(expr or query.expr, self.chosen(query.dashboard, by))
        if query.instant:
            at = self.measured if query.where.startswith(NOT_OVER) else self.ended
            return [sample.value for sample in self.prometheus.query(expr, at)]
        return self.ever(expr)

    def ever(self, expr: str) -> list[float]:
        """Return the values of an expression since the run's start."""
        until = self.ended + STEP_SECONDS
        found = self.prometheus.query_range(expr, self.began, until, STEP_SECONDS)
        return [value for series in found for _, value in series.points]

    def chosen(self, dashboard: str, by: str = "") -> dict[str, str]:
        """Return one value of each variable; Run shows all of the run's scenarios."""
        run = {"run_namespace": self.namespace, "run": self.run}
        if dashboard == "run":
            return run
        (info,) = self.prometheus.query(f'inferometer_run_info{{run="{self.run}"}}', self.ended)
        return info.labels | run | {"scenario": VALID, "namespace": self.namespace, "by": by}


@pytest.fixture(scope="module")
def shown(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Measure a run on a node whose agent has every source.

    On a busy machine a run may be INVALID and have no bars; it is then measured again, as a user
    would.
    """
    folder = tmp_path_factory.mktemp("dashboards")
    with (
        agents_namespace(cluster) as agents,
        operator_installed(
            cluster, "shown", {"agent": {"namespace": agents}, "readNodes": True}
        ) as namespace,
        agents_installed(cluster, agents, ACCOUNT | {"namespace": namespace}),
        recorded_agents(cluster, agents, folder / "machine") as machine,
        prometheus_in(cluster, folder / "prometheus", documented("By annotations")) as prometheus,
    ):
        _measure_node(cluster, namespace)
        _be_refused(cluster, namespace, prometheus)
        for run in RUNS:
            found = _measured(cluster, namespace, run, machine, prometheus)
            if not found.without_bars:
                break
        yield found


def _measured(
    cluster: Cluster, namespace: str, run: str, machine: RecordedMachine, prometheus: Prometheus
) -> Shown:
    """Measure a run until it ends and Prometheus has scraped its end."""
    began, before = time.time(), read_counters()
    make_run(
        cluster, namespace, run, scenarios=SCENARIOS, validity=VALIDITY, load=LOAD,
        telemetry={"idleSeconds": 1},
    )  # fmt: skip
    measured: list[float] = []
    measuring = f'inferometer_load_stage{{run="{run}", stage="Measuring"}} == 1'

    def seen_at_its_end() -> bool:
        _let_go_on(cluster, namespace, machine)
        if not measured and prometheus.has(measuring):
            measured.append(time.time())
        return (
            holds(cluster, namespace, run, "Finished")
            and bool(prometheus.query(f'inferometer_run_info{{run="{run}"}}'))
            # Prometheus gives up a target that is gone after two scrapes.
            and not prometheus.query(f'inferometer_load_stage{{run="{run}"}}')
        )

    wait_until(seen_at_its_end, f"the end of {run}", (), SLOW_SECONDS, POLL_SECONDS)
    assert measured, status(cluster, namespace, run)
    reasons = _why_without_bars(cluster, namespace, run)
    disturbed = disturbance(before, read_counters())
    return Shown(prometheus, namespace, run, began, measured[0], time.time(), reasons, disturbed)


def _why_without_bars(cluster: Cluster, namespace: str, run: str) -> list[str]:
    ended = status(cluster, namespace, run)
    (found,) = [each for each in ended.get("scenarios", []) if each["name"] == VALID] or [ended]
    return [] if found.get("verdict") == "VALID" else found.get("reasons", [str(ended)])


def _measure_node(cluster: Cluster, namespace: str) -> None:
    """Measure what the node gives, as far as the dashboard shows it."""
    only = ["stream", "latency", "gemm (onnxruntime, FP32", "disk", "timer"]
    benchmark = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": {"name": "shown"},
        "spec": {"only": only},
    }
    here = ("--namespace", namespace)
    cluster.kubectl("create", *here, "-f", "-", stdin=json.dumps(benchmark))
    wait_until(
        lambda: cluster.get("nbm", "shown", *here).get("status", {}).get("phase") == "Complete",
        "the measurement of the node",
        (),
        SLOW_SECONDS,
        POLL_SECONDS,
    )


def _be_refused(cluster: Cluster, namespace: str, prometheus: Prometheus) -> None:
    """Have the API server refuse a request of the operator, so that there are API errors."""
    here = ("--namespace", namespace)
    cluster.kubectl("create", "quota", "none", "--hard=count/jobs.batch=0", *here)
    cluster.kubectl("wait", "--for=jsonpath={.status.hard}", "quota/none", "--timeout=60s", *here)
    make_run(cluster, namespace, "refused")
    refused = 'inferometer_operator_api_errors_total{code="403"}'
    wait_until(lambda: prometheus.has(refused), refused, (), SLOW_SECONDS, POLL_SECONDS)
    cluster.kubectl("delete", "benchmarkrun/refused", "quota/none", *here)


def _let_go_on(cluster: Cluster, namespace: str, machine: RecordedMachine) -> None:
    """Let half a second pass on the recorded machine, with the run's pods."""
    server = f"{COMPONENT_LABEL}={SERVER}"
    pods = cluster.get("pods", "--namespace", namespace, "--selector", server)
    machine.go_on([pod["metadata"]["uid"] for pod in pods["items"]], POLL_SECONDS)


@pytest.mark.parametrize(("query", "by"), QUERIES)
def test_it_returns_data(shown: Shown, query: PanelQuery, by: str) -> None:
    """A range query has a figure during the run; an instant query has one at its end.

    Each variable has one value; bars are tested with every grouping.
    """
    has_data = any(map(math.isfinite, shown.values(query, by)))
    if not has_data and shown.without_bars and shown.disturbed:
        pytest.skip(f"{INCONCLUSIVE}: {shown.disturbed}: {shown.without_bars[0]}")
    assert has_data, "\n".join([*shown.without_bars, query.expr])


@pytest.mark.parametrize("query", FALLING_BACK)
def test_it_has_data_without_its_fallback(shown: Shown, query: PanelQuery) -> None:
    """A query with a fallback has data of the run without it."""
    part = first_choice(query.expr)
    assert any(map(math.isfinite, shown.values(query, "", part))), part


@pytest.mark.parametrize(("dashboard", "selector"), SERIES)
def test_every_queried_metric_exists(shown: Shown, dashboard: str, selector: str) -> None:
    """Each selector of each query matches a scraped series."""
    expr = interpolated(selector, shown.chosen(dashboard))
    assert shown.ever(expr), expr


@pytest.mark.parametrize(("name", "variable"), VARIABLES)
def test_a_variable_offers_values(shown: Shown, name: str, variable: Json) -> None:
    """Each variable but `step` offers values; the variable `run` offers this run."""
    chosen = {"run_namespace": shown.namespace, "run": shown.run}
    query = interpolated(variable["query"]["query"], chosen)
    if found := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
        path = f"label/{found[2]}/values"
        start, end = str(shown.began), str(shown.ended)
        offered = shown.prometheus.get(path, **{"match[]": found[1], "start": start, "end": end})
    else:
        found = re.fullmatch(r"query_result\((.*)\)", query)
        assert found, query
        offered = [each.labels[variable["name"]] for each in shown.prometheus.query(found[1])]
    assert offered or variable["name"] == "step"
    if variable["name"] == "run":
        assert shown.run in offered
