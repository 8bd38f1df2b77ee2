"""The dashboard Run: one run while it measures and after it ends."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable

from grafana.dashboards import run_load, run_machine, run_result, run_server
from grafana.dashboards.edges import edges
from grafana.dashboards.frame import any_of, filled, framed, newest, query_variable, several
from grafana.dashboards.promql import RUN, of
from inferometer_api.metrics import definitions as m

_RUNS = (m.LOAD_STAGE, m.RUN_PHASE_SINCE, m.RUN_INFO)
_STEPS = (m.LOAD_STAGE, m.RUN_VALID)
_SAYS = (
    "Everything about one run: target and achieved rate, latency, server, node and result. It "
    "updates while the run goes on. Open finished runs from Compare or Operator, at their own "
    "time."
)


def dashboard() -> Dashboard:
    """Return the dashboard Run."""
    frame = framed("Run", _SAYS, _variables()).time("now-30m", "now")
    for edge in edges():
        frame.annotation(edge)
    return filled(
        frame,
        [
            ("", run_load.at_a_glance()),
            ("Result", run_result.panels()),
            ("Load and latency", run_load.panels()),
            ("Server", run_server.panels()),
            ("The server's node", run_machine.panels()),
            ("GPUs of the server's node", run_machine.gpu_panels()),
        ],
    )


def _latest() -> str:
    """Return the time of each run's latest load in the time range, else when it began."""
    where = 'run_namespace="$run_namespace"'
    loaded = f"max_over_time(timestamp({of(m.LOAD_STAGE, where)})[$__range:30s])"
    others = f"{of(m.RUN_PHASE_SINCE, where)} or {of(m.RUN_STARTED, where)}"
    return f"max by (run) ({loaded} or {others})"


def _variables() -> list[QueryVariable]:
    of_scenario = any_of(*_STEPS, where=f'{RUN}, scenario=~"$scenario"')
    return [
        query_variable(
            "run_namespace",
            "Namespace",
            "The run's namespace; `local` for local runs.",
            of="run_namespace",
            where=any_of(*_RUNS),
        ),
        newest("run", "Run", "The BenchmarkRun; the latest one first.", by=_latest()),
        several(
            query_variable(
                "scenario",
                "Scenario",
                "Scenarios of the run.",
                of="scenario",
                where=any_of(*_STEPS, where=RUN),
            )
        ),
        several(
            query_variable(
                "step",
                "Step",
                "Steps of those scenarios: batch sizes, numbers of clients.",
                of="step",
                where=of_scenario,
            )
        ),
    ]
