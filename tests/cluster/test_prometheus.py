"""A Prometheus that scrapes every 5 s shows the same figures as a run's status."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chart import Json
from support.cluster.cluster import Cluster
from support.monitored import Monitored, monitored_run
from support.waiting import wait_until

LIVE = (
    "inferometer_load_achieved_queries_per_second{%RUN%} > 0",
    'inferometer_load_stage{%RUN%, stage="Measuring"} == 1',
    "inferometer_load_latency_seconds_count{%RUN%} > 0",
    "inferometer_load_server_info{%RUN%}",
    "inferometer_server_ready{%RUN%} == 1",
    "inferometer_server_inferences_total{%RUN%} > 0",
    'inferometer_run_phase_since_timestamp_seconds{%RUN%, phase="Measuring"}',
    "inferometer_run_deadline_timestamp_seconds{%RUN%}",
    "run_step:inferometer_load_latency_seconds:quantile_rate1m{%RUN%}",
    "run:inferometer_server_cpu_cores:rate1m{%RUN%} > 0",
)

PERCENTILES = {"p50": "50", "p90": "90", "p99": "99", "p999": "99.9"}
ALWAYS_THERE = {
    "operator": "inferometer_operator_leader",
    "node agent": "inferometer_agent_samples_total",
    "load generator": "inferometer_load_stage",
    "server": "inferometer_server_info",
}


@pytest.fixture(scope="module")
def monitored(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Measure one run that Prometheus watches, for all tests of this file."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    with monitored_run(cluster, folder, LIVE) as found:
        yield found


def scenarios(monitored: Monitored) -> list[Json]:
    """Return the scenarios of the status."""
    found: list[Json] = monitored.status["scenarios"]
    return found


def finished(monitored: Monitored, metric: str, scenario: str, **labels: str) -> float:
    """Return the value of one of the operator's gauges of a scenario."""
    named = {"run_namespace": monitored.namespace, "run": monitored.run, "scenario": scenario}
    chosen = ", ".join(f'{label}="{value}"' for label, value in (named | labels).items())
    return monitored.prometheus.value(f"{metric}{{{chosen}}}")


def test_what_a_run_does_is_seen_while_it_does_it(monitored: Monitored) -> None:
    """Rate, stage, latency and the server's CPU are available before the run ends."""
    assert set(LIVE) - set(monitored.live) == set()


def test_the_figures_of_a_finished_run_are_those_of_its_status(monitored: Monitored) -> None:
    """Rate, percentiles, counts and verdict of each scenario equal those of the status."""
    assert len(scenarios(monitored)) == 2
    for each in scenarios(monitored):
        name = each["name"]
        assert finished(monitored, "inferometer_run_valid", name) == (each["verdict"] == "VALID")
        rate = finished(monitored, "inferometer_run_queries_per_second", name)
        assert rate == pytest.approx(each["achievedMilliQps"] / 1e3)
        assert finished(monitored, "inferometer_run_queries", name) == each["queries"]
        for field, percentile in PERCENTILES.items():
            metric = "inferometer_run_latency_seconds"
            exported = finished(monitored, metric, name, percentile=percentile)
            assert exported == pytest.approx(each[f"{field}Microseconds"] / 1e6), percentile


def test_every_component_is_scraped_once(monitored: Monitored) -> None:
    """Operator, agent, load and server pods have one target each, and each target answers."""
    wait_until(
        lambda: all(each["health"] != "down" for each in monitored.prometheus.targets()),
        "the end of targets that are gone",
        poll_seconds=0.5,
    )
    seconds = round(monitored.ended - monitored.began) + 60
    for component, metric in ALWAYS_THERE.items():
        found = monitored.prometheus.query(f"last_over_time({metric}[{seconds}s])")
        assert len({each.labels["instance"] for each in found}) == 1, component


def test_no_alert_stays_for_a_good_run(monitored: Monitored) -> None:
    """Only an INVALID verdict and a node without energy counters fire alerts after a run."""
    expected = set()
    if any(each["verdict"] != "VALID" for each in scenarios(monitored)):
        expected.add("InferometerRunInvalid")
    counted = 'inferometer_agent_source_available{source=~"rapl|nvml"} == 1'
    if not monitored.prometheus.has(counted):
        expected.add("InferometerAgentBlind")

    def firing() -> set[str]:
        return {each["labels"]["alertname"] for each in monitored.prometheus.alerts()}

    wait_until(lambda: firing() == expected, f"the alerts {expected}", poll_seconds=0.5)
