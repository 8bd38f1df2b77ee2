"""Of what does Prometheus tell somebody?

Each alert has a section of its own in docs/how-to/prometheus.md, which says what to do.
"""

from typing import Any, Literal

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
    kept = {"keep_firing_for": times["keep_firing_for"]} if "keep_firing_for" in times else {}
    return {
        "alert": name,
        "expr": f"{expression.strip()}\n",
        **held,
        **kept,
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
_EARLIER = "spec_step:inferometer_run_latency_seconds:p99_earlier"
_SPEC_STEP = "run_namespace, spec_hash, scenario, step"

_MEASURING = f'max by ({_RUN}) (inferometer_load_stage{{stage="Measuring"}}) == 1'

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
    ),
    _alert(
        "InferometerRunInvalid",
        "warning",
        f"""
min by ({_RUN}, scenario) (inferometer_run_valid) == 0
and on ({_RUN})
time() - max by ({_RUN}) (inferometer_run_finished_timestamp_seconds) < 3600""",
        f"The run {_WHICH} measured an INVALID figure.",
        "The verdict on scenario {{ $labels.scenario }} is INVALID: the figure is wrong, not yet"
        " known, or misses the latency bound that was asked. Its status says which; the alert ends"
        " an hour after the run.",
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
{_EARLIER}_p90""",
        f"The p99 latency of {_WHICH} is above that of earlier runs of the same spec.",
        f"In {_PART} it is {{{{ $value | humanizeDuration }}}} on node {{{{ $labels.node }}}}:"
        " more than 10 % above the median of the earlier runs, and above nine in ten of them.",
        keep_firing_for="10m",
    ),
    _alert(
        "InferometerServerThrottled",
        "warning",
        f"""
run:inferometer_server_cpu_throttled_seconds:rate1m > 0.05
and on ({_RUN})
{_MEASURING}""",
        f"The server of the run {_WHICH} is held down by its own CPU limit.",
        "While it is measured, its threads wait {{ $value | humanizeDuration }} in every second"
        " since their limit is used up: the latency is that of the limit.",
    ),
    _alert(
        "InferometerGpuThrottled",
        "warning",
        f"""
max by (node, gpu, reason) (
  inferometer_gpu_throttled{{reason!~"ApplicationsClocksSetting|DisplayClockSetting|SyncBoost"}}
) == 1
and on (node)
(
  max by ({_RUN}, node) (inferometer_load_target_info)
  and on ({_RUN})
  {_MEASURING}
)""",
        "A GPU of node {{ $labels.node }} is held down while a run measures there.",
        "The clock of GPU {{ $labels.gpu }} is held down ({{ $labels.reason }}): the figures are"
        " those of this state.",
    ),
    _alert(
        "InferometerAgentDown",
        "warning",
        """
count by (node) (last_over_time(inferometer_agent_samples_total[1h]))
unless on (node)
(max by (node) (rate(inferometer_agent_samples_total[5m])) > 0)""",
        "The node agent on {{ $labels.node }} is gone.",
        "It took samples within the last hour and takes none now: energy and utilisation of runs on"
        " this node are unavailable. Where the node itself was removed, this ends by itself.",
        for_="5m",
    ),
    _alert(
        "InferometerAgentBlind",
        "warning",
        "max by (node) (inferometer_agent_source_available) == 0",
        "The node agent on {{ $labels.node }} has nothing to tell.",
        "None of its sources gives figures: energy and utilisation of runs on this node are"
        " unavailable. Its log says why.",
        for_="5m",
    ),
    _alert(
        "InferometerOperatorDown",
        "critical",
        "absent(inferometer_operator_leader)",
        "No operator of Inferometer is seen.",
        "Runs are neither begun nor ended, or Prometheus no longer scrapes the operator.",
        for_="5m",
    ),
    _alert(
        "InferometerNoLeader",
        "critical",
        "max by (namespace, job) (inferometer_operator_leader) == 0",
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
