"""The alerting rules.

Each alert has a section of its own in docs/how-to/prometheus.md, which says what to do.
"""

from typing import Any, Literal

from grafana.rules.recordings import of_servers, rate

_PAGE = "docs/how-to/prometheus.md"
_RUN = "run_namespace, run"
_STEP = f"{_RUN}, scenario, step"


def _alert(
    name: str,
    severity: Literal["critical", "warning", "info"],
    expression: str,
    summary: str,
    description: str,
    **times: str,
) -> dict[str, Any]:
    """Return a rule; `times` are for_ and keep_firing_for."""
    held = {"for": times["for_"]} if "for_" in times else {}
    keep_firing = (
        {"keep_firing_for": times["keep_firing_for"]} if "keep_firing_for" in times else {}
    )
    return {
        "alert": name,
        "expr": f"{expression.strip()}\n",
        **held,
        **keep_firing,
        "labels": {"severity": severity},
        "annotations": {
            "summary": summary,
            "description": description,
            "runbook": f"{_PAGE}#{name.lower()}",
        },
    }


_WHICH = "{{ $labels.run_namespace }}/{{ $labels.run }}"
_PART = "scenario {{ $labels.scenario }}{{ with $labels.step }}, step {{ . }}{{ end }}"
_P99 = "run_step:inferometer_run_latency_seconds:p99_valid"
_NEWEST = "run_step:inferometer_run_finished_timestamp_seconds:newest"
_EARLIER = "spec_node_step:inferometer_run_latency_seconds:p99_earlier"
_SPEC_STEP = "run_namespace, spec_hash, node, scenario, step"

_MEASURING = 'inferometer_load_stage{stage="Measuring"}'
_THROTTLED = rate("inferometer_workload_cpu_throttled_seconds_total", "node, workload", "30s")
_CLUSTERS = 'component!="node agent"'
"""Not an agent of a local run: its targets file (--prometheus-targets) gives it this label."""
_RESTART = "5m"
"""Far more than an operator's figures are away when it is started anew."""
_OPERATORS = "max by (namespace, job)"

ALERTS: list[dict[str, Any]] = [
    _alert(
        "InferometerRunStuck",
        "warning",
        f"""
time() - max by ({_RUN}, phase) (inferometer_run_phase_since_timestamp_seconds)
and on ({_RUN})
(
  time() - max by ({_RUN}) (inferometer_run_deadline_timestamp_seconds) > 60
  or
  time() - max by ({_RUN}) (
    inferometer_run_phase_since_timestamp_seconds{{phase=~"Pending|Starting"}}
  ) > 900
)""",
        f"The run {_WHICH} does not go on.",
        "It has been {{ $labels.phase }} for {{ $value | humanizeDuration }}: that is longer than"
        " 15 minutes before its load began, or it is past its deadline by more than a minute.",
        keep_firing_for=_RESTART,
    ),
    _alert(
        "InferometerRunInvalid",
        "warning",
        f"""
min by ({_RUN}, scenario) (inferometer_run_valid) == 0
and on ({_RUN})
time() - max by ({_RUN}) (inferometer_run_finished_timestamp_seconds) < 3600""",
        f"The run {_WHICH} measured an INVALID figure.",
        "The verdict on scenario {{ $labels.scenario }} is INVALID: the figure is wrong, too"
        " uncertain, or misses the latency bound. The run's status gives the reason. The alert ends"
        " about an hour after the run.",
        keep_firing_for=_RESTART,
    ),
    _alert(
        "InferometerLatencyRegressed",
        "warning",
        f"""
(
  (
    {_P99}
    and on ({_STEP}, run_uid)
    {_NEWEST}
  )
  > on ({_SPEC_STEP}) group_left ()
  1.1 * {_EARLIER}_median
)
> on ({_SPEC_STEP}) group_left ()
{_EARLIER}_max""",
        f"The p99 latency of {_WHICH} is above that of all earlier runs of the same spec.",
        f"In {_PART} it is {{{{ $value | humanizeDuration }}}} on node {{{{ $labels.node }}}}:"
        " above all earlier ones there, and more than 10 % above their median.",
        keep_firing_for="10m",
    ),
    _alert(
        "InferometerServerThrottled",
        "warning",
        f"""
{of_servers(_THROTTLED).strip()} > 0.05
and on ({_RUN})
max by ({_RUN}) (
  min_over_time({_MEASURING}[30s]) == 1
  and
  {_MEASURING} offset 30s
)""",
        f"The server of the run {_WHICH} is held down by its own CPU limit.",
        "For 30 seconds of what is measured, it waited {{ $value | humanizeDuration }} in every"
        " second, all CPUs together, since its limit was used up: the latency is that of the"
        " limit.",
    ),
    _alert(
        "InferometerGpuThrottled",
        "info",
        f"""
max by (node, gpu, reason) (
  inferometer_gpu_throttled{{
    reason!~"SwPowerCap|ApplicationsClocksSetting|DisplayClockSetting|SyncBoost"
  }}
) == 1
and on (node)
(
  max by ({_RUN}, node) (inferometer_load_server_info)
  and on ({_RUN})
  max by ({_RUN}) ({_MEASURING}) == 1
)""",
        "A GPU of node {{ $labels.node }} is held down while a run measures there.",
        "The clock of GPU {{ $labels.gpu }} is held down ({{ $labels.reason }}): where the run's"
        " server uses it, the figures are those of this state.",
        for_="15s",
    ),
    _alert(
        "InferometerSuiteGateFailed",
        "warning",
        """
max by (suite_namespace, suite) (
  inferometer_suite_gate_status{outcome="FAIL", armed="true"}
) == 1""",
        "The suite {{ $labels.suite_namespace }}/{{ $labels.suite }} is slower than its baseline.",
        "The gate of its last execution failed: status.gate of the BenchmarkSuite names the cells.",
    ),
    _alert(
        "InferometerAgentDown",
        "warning",
        f"""
max by (node) (
  last_over_time(inferometer_agent_samples_total{{{_CLUSTERS}}}[1d])
  and on (job, instance)
  up
)
unless on (node)
(max by (node) (rate(inferometer_agent_samples_total[2m])) > 0)""",
        "The node agent on {{ $labels.node }} takes no samples.",
        "It took some within the last day, and Prometheus still looks for it: energy and"
        " utilisation of runs on this node are unavailable.",
        for_="5m",
    ),
    _alert(
        "InferometerAgentBlind",
        "info",
        f"""
max by (node) (
  inferometer_agent_source_available{{source=~"rapl|nvml", {_CLUSTERS}}}
) == 0""",
        "The node agent on {{ $labels.node }} finds no energy counter.",
        "Neither rapl nor nvml gives figures: energy of runs on this node is unavailable. Its log"
        " says why.",
        for_="5m",
    ),
    _alert(
        "InferometerOperatorDown",
        "critical",
        # The second half begins before the first has ended, so that nothing is silent between.
        f"""
{_OPERATORS} (last_over_time(inferometer_operator_leader[1h]))
unless on (namespace, job)
{_OPERATORS} (inferometer_operator_leader)
or
absent_over_time(inferometer_operator_leader[50m])""",
        "No operator of Inferometer is seen{{ with $labels.namespace }} in namespace {{ . }}"
        "{{ end }}.",
        "Runs are neither begun nor ended, or Prometheus no longer scrapes the operator.",
        for_="5m",
    ),
    _alert(
        "InferometerNoLeader",
        "critical",
        f"{_OPERATORS} (inferometer_operator_leader) == 0",
        "The operator in namespace {{ $labels.namespace }} has no leader.",
        "Its replicas run and none of them leads: runs are neither begun nor ended.",
        for_="2m",
    ),
    _alert(
        "InferometerApiErrors",
        "warning",
        """
sum by (namespace, job, code) (
  increase(inferometer_operator_api_errors_total{code!~"404|409"}[10m])
) > 10""",
        "The API server refuses the operator in namespace {{ $labels.namespace }}.",
        "{{ $value | humanize }} of its requests failed within ten minutes"
        " with {{ $labels.code }}.",
    ),
]
