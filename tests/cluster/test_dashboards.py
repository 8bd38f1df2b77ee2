"""Does every panel show something of a real run that a real Prometheus has scraped every 5 s?"""

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from inferometer_api.children import COMPONENT_LABEL, SERVER
from support.agent_chart import agents_installed, agents_namespace
from support.chart import Json
from support.cluster.cluster import Cluster
from support.cluster.processes import wait_until
from support.dashboards import DASHBOARDS, Asked, interpolated, queries
from support.monitored import documented
from support.node_runs import SLOW_SECONDS, holds, make_run
from support.operator_installed import operator_installed
from support.prometheus import Prometheus, prometheus_in
from support.recorded_agents import RecordedMachine, recorded_agents

RUN = "shown"
SCENARIOS = [{"name": "traffic", "server": {"targetQps": 4, "latencyBoundMicroseconds": 2_000_000}}]
VALIDITY = {"warmUpSeconds": 1, "minDurationSeconds": 26, "minQueries": 10}
"""Longer than the interval over which rates are taken: joules are shown of whole ones alone."""
ACCOUNT = {"serviceAccount": "inferometer-operator"}
POLL_SECONDS = 0.5
STEP_SECONDS = 5.0
QUERIES = [pytest.param(query, id=query.where) for query in queries()]
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
    began: float
    ended: float


@pytest.fixture(scope="module")
def shown(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Measure one run on a node whose agent has every source."""
    folder = tmp_path_factory.mktemp("dashboards")
    with (
        agents_namespace(cluster) as agents,
        operator_installed(cluster, "shown", {"agent": {"namespace": agents}}) as namespace,
        agents_installed(cluster, agents, ACCOUNT | {"namespace": namespace}),
        recorded_agents(cluster, agents, folder / "machine") as machine,
        prometheus_in(cluster, folder / "prometheus", documented("By annotations")) as prometheus,
    ):
        began = time.time()
        make_run(
            cluster, namespace, RUN, scenarios=SCENARIOS, validity=VALIDITY,
            telemetry={"idleSeconds": 1},
        )  # fmt: skip

        def seen_at_its_end() -> bool:
            _let_go_on(cluster, namespace, machine)
            return (
                holds(cluster, namespace, RUN, "Finished")
                and bool(prometheus.query(f'inferometer_run_info{{run="{RUN}"}}'))
                # Prometheus gives up a target that is gone after two scrapes.
                and not prometheus.query(f'inferometer_load_stage{{run="{RUN}"}}')
            )

        wait_until(seen_at_its_end, f"the end of {RUN}", (), SLOW_SECONDS, POLL_SECONDS)
        yield Shown(prometheus, namespace, began, time.time())


def _let_go_on(cluster: Cluster, namespace: str, machine: RecordedMachine) -> None:
    """Let half a second pass on the recorded machine, with the run's pods."""
    server = f"{COMPONENT_LABEL}={SERVER}"
    pods = cluster.get("pods", "--namespace", namespace, "--selector", server)
    machine.go_on([pod["metadata"]["uid"] for pod in pods["items"]], POLL_SECONDS)


@pytest.mark.parametrize("query", QUERIES)
def test_it_returns_data(shown: Shown, query: Asked) -> None:
    """While the run went on, or when it was over, the query gives a figure."""
    values = {"run_namespace": shown.namespace, "run": RUN, "by": "run"}
    chosen = values if query.dashboard == "run" else {"by": "run"}
    found = shown.prometheus.query_range(
        interpolated(query.expr, chosen),
        shown.began,
        shown.ended + STEP_SECONDS,
        STEP_SECONDS,
    )
    assert any(math.isfinite(value) for series in found for _, value in series.points), query.expr


@pytest.mark.parametrize(("name", "variable"), VARIABLES)
def test_a_variable_offers_what_there_is(shown: Shown, name: str, variable: Json) -> None:
    """Each variable has values to choose from: among the runs, this one; a step has no name."""
    asked = interpolated(variable["query"]["query"], {"run_namespace": shown.namespace, "run": RUN})
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
        assert RUN in offered
