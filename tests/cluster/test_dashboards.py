"""Every panel shows data of a real run that a real Prometheus scraped every 5 s."""

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
    Asked,
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
from support.recorded_agents import RecordedMachine, recorded_agents
from support.waiting import wait_until

RUNS = ("shown-1", "shown-2", "shown-3", "shown-4")
"""Measured in turn until the first whose bars are there to be looked at."""
VALID = "latency"
"""A scenario that a busy machine makes INVALID only by standing still: bars are of VALID ones."""
SCENARIOS = [
    # A quarter to a whole second a request, by the machine: its other work is little next to
    # that, and none is too slow for the timeout.
    {"name": VALID, "batch": {"batchSizes": [8]}},
    # More than a quarter of a CPU can do: queries wait, and soon time out.
    {"name": "flood", "server": {"targetQps": 200, "latencyBoundMicroseconds": 2_000_000}},
]
LOAD = {"requestTimeoutMilliseconds": 5000}
VALIDITY = {"warmUpSeconds": 1, "minDurationSeconds": 26, "minQueries": 10}
"""Longer than the interval over which rates are taken: joules are shown of whole ones alone."""
ACCOUNT = {"serviceAccount": "inferometer-operator"}
POLL_SECONDS = 0.5
STEP_SECONDS = 5.0
QUERIES = [
    pytest.param(query, by, id=f"{query.where} {by}".strip())
    for query in queries()
    for by in (choices("compare", "by") if "$by" in query.expr else ("",))
]
FALLING_BACK = [
    pytest.param(query, id=query.where)
    for query in queries()
    # On the recorded machine no source is silent.
    if first_choice(query.expr) != query.expr and "Unavailable sources" not in query.where
]
SERIES = sorted({(query.dashboard, each) for query in queries() for each in selectors(query.expr)})
NOT_OVER = (
    "run: Stage",
    "operator: Nearest deadline",
    "operator: Phase of each run",
)
"""Panels that show the end of the time range, of a run that goes on."""
VARIABLES = [
    pytest.param(name, variable, id=f"{name}: {variable['name']}")
    for name, board in DASHBOARDS.items()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
]


@dataclass(frozen=True, slots=True)
class Shown:
    """A run that is over, and the Prometheus that saw it."""

    prometheus: Prometheus
    namespace: str
    run: str
    began: float
    measured: float
    """When it was seen to be measuring."""
    ended: float
    without_bars: list[str]
    """Why bars leave it out: the reasons for which it is INVALID."""

    def asked(self, query: Asked, by: str, expr: str = "") -> list[float]:
        """Return the values of a query, or of a part of it, as its panel requests them."""
        expr = interpolated(expr or query.expr, self.chosen(query.dashboard, by))
        if query.instant:
            at = self.measured if query.where.startswith(NOT_OVER) else self.ended
            return [sample.value for sample in self.prometheus.query(expr, at)]
        return self.ever(expr)

    def ever(self, expr: str) -> list[float]:
        """Return the values of an expression from the run's beginning on."""
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

    While others keep this machine busy, a run is INVALID and has no bars: measure again then, as
    its user would.
    """
    folder = tmp_path_factory.mktemp("dashboards")
    with (
        agents_namespace(cluster) as agents,
        operator_installed(cluster, "shown", {"agent": {"namespace": agents}}) as namespace,
        agents_installed(cluster, agents, ACCOUNT | {"namespace": namespace}),
        recorded_agents(cluster, agents, folder / "machine") as machine,
        prometheus_in(cluster, folder / "prometheus", documented("By annotations")) as prometheus,
    ):
        _be_refused(cluster, namespace, prometheus)
        for run in RUNS:
            found = _measured(cluster, namespace, run, machine, prometheus)
            if not found.without_bars:
                break
        yield found


def _measured(
    cluster: Cluster, namespace: str, run: str, machine: RecordedMachine, prometheus: Prometheus
) -> Shown:
    """Measure a run to its end, and until Prometheus has seen that."""
    began = time.time()
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
    return Shown(prometheus, namespace, run, began, measured[0], time.time(), reasons)


def _why_without_bars(cluster: Cluster, namespace: str, run: str) -> list[str]:
    told = status(cluster, namespace, run)
    (found,) = [each for each in told.get("scenarios", []) if each["name"] == VALID] or [told]
    return [] if found.get("verdict") == "VALID" else found.get("reasons", [str(told)])


def _be_refused(cluster: Cluster, namespace: str, prometheus: Prometheus) -> None:
    """Let the operator try what it may not, so that there are errors of the API to be shown."""
    here = ("--namespace", namespace)
    cluster.kubectl("create", "quota", "none", "--hard=count/deployments.apps=0", *here)
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
def test_it_returns_data(shown: Shown, query: Asked, by: str) -> None:
    """A range query gave a figure while the run went on; an instant query gave one at its end.

    Of each variable one value is chosen; bars are grouped by everything that they can be.
    """
    told = "\n".join([*shown.without_bars, query.expr])
    assert any(map(math.isfinite, shown.asked(query, by))), told


@pytest.mark.parametrize("query", FALLING_BACK)
def test_it_has_data_without_its_fallback(shown: Shown, query: Asked) -> None:
    """A query that has an answer for everything has one of the run, too."""
    part = first_choice(query.expr)
    assert any(map(math.isfinite, shown.asked(query, "", part))), part


@pytest.mark.parametrize(("dashboard", "selector"), SERIES)
def test_every_metric_asked_for_is_there(shown: Shown, dashboard: str, selector: str) -> None:
    """Each metric in a query, with what it must match, was scraped, whatever else the query has."""
    asked = interpolated(selector, shown.chosen(dashboard))
    assert shown.ever(asked), asked


@pytest.mark.parametrize(("name", "variable"), VARIABLES)
def test_a_variable_offers_what_there_is(shown: Shown, name: str, variable: Json) -> None:
    """Each variable has values to choose from: among the runs, this one; a step has no name."""
    chosen = {"run_namespace": shown.namespace, "run": shown.run}
    asked = interpolated(variable["query"]["query"], chosen)
    if found := re.fullmatch(r"label_values\((.*), (\w+)\)", asked):
        path = f"label/{found[2]}/values"
        start, end = str(shown.began), str(shown.ended)
        offered = shown.prometheus.get(path, **{"match[]": found[1], "start": start, "end": end})
    else:
        told = re.fullmatch(r"query_result\((.*)\)", asked)
        assert told, asked
        offered = [each.labels[variable["name"]] for each in shown.prometheus.query(told[1])]
    assert offered or variable["name"] == "step"
    if variable["name"] == "run":
        assert shown.run in offered
