"""Prometheus finds the processes of a local run, and loses them when it is over."""

from functools import partial
from pathlib import Path

from support.inferometer_process import Inferometer
from support.local_runs import done
from support.monitored import RULES, documented
from support.prometheus import Prometheus, prometheus
from support.waiting import wait_until

RUN = 'run_namespace="local", run="test"'
CPU = "inferometer_workload_cpu_seconds_total"
LIVE = (
    f"inferometer_load_achieved_queries_per_second{{{RUN}}} > 0",
    f'inferometer_load_stage{{{RUN}, stage="Measuring"}} == 1',
    f"inferometer_server_ready{{{RUN}}} == 1",
    "inferometer_agent_samples_total > 0",
    f"inferometer_load_server_info{{{RUN}}} * on (node, workload) {CPU}",
)


def test_what_a_local_run_does_is_seen_while_it_does_it(tmp_path: Path) -> None:
    """With the documented option and scrape config, its processes are scraped until its end."""
    with prometheus(tmp_path, documented("Local runs"), rules=RULES, interval="1s") as watching:

        def watch(_: Inferometer) -> None:
            for promql in LIVE:
                wait_until(partial(watching.has, promql), promql)

        found = done(
            tmp_path,
            {"singleStream": {}},
            act=watch,
            validity={"minDurationSeconds": 8},
            words=("--prometheus-targets", "targets.json"),
        )
        assert found.result is not None
        ((step,),) = (each.steps for each in found.result.scenarios)
        assert 0 < seen(watching) <= step.counts.succeeded
        wait_until(lambda: not watching.targets(), "targets of a run that is over, gone")


def seen(watching: Prometheus) -> float:
    """Return how many queries Prometheus has seen answered."""
    return watching.value(
        f'max_over_time(inferometer_load_queries_total{{{RUN}, result="ok"}}[2m])'
    )
