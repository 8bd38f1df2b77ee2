"""The recording rules, for the dashboards and the alerts.

Names say what is left of the labels, the metric, and what was done to it. Everywhere `max by` comes
before `sum by`: a component that is scraped by two jobs counts once.
"""

from typing import Any

_RUN = "run_namespace, run"
_SCENARIO = f"{_RUN}, scenario"
_STEP = f"{_SCENARIO}, step"
_SPEC_STEP = "run_namespace, spec_hash, node, scenario, step"
_EARLIER = "14d"
_RUNS_ENOUGH = 5


def _recording(name: str, expression: str, **labels: str) -> dict[str, Any]:
    lines = expression.strip()
    rule: dict[str, Any] = {"record": name, "expr": f"{lines}\n" if "\n" in lines else lines}
    return rule | ({"labels": labels} if labels else {})


def rate(metric: str, labels: str, window: str = "1m") -> str:
    """Return the rate of a component's counter by these labels, however many jobs scrape it."""
    return f"max by ({labels}) (rate({metric}[{window}]))"


def of_servers(per_target: str) -> str:
    """Return the sum over a run's servers of what an agent reports for each target."""
    return f"""
sum by ({_RUN}) (
  max by ({_RUN}, node, workload) (inferometer_load_server_info)
  * on (node, workload) group_left ()
  {per_target}
)"""


_QUANTILES = ("0.5", "0.9", "0.99")
_CPU_WATTS = 'max by (node, domain, kind) (inferometer_node_power_watts{kind=~"Package|Dram"})'
_TARGET_CPU = rate("inferometer_workload_cpu_seconds_total", "node, workload")
_NODE_BUSY = rate("inferometer_node_cpu_busy_seconds_total", "node")

LIVE: list[dict[str, Any]] = [
    *(
        _recording(
            "run_step:inferometer_load_latency_seconds:quantile_rate1m",
            f"""
histogram_quantile(
  {quantile},
  {rate("inferometer_load_latency_seconds_bucket", f"le, {_STEP}")}
)""",
            quantile=quantile,
        )
        for quantile in _QUANTILES
    ),
    _recording(
        "run_step:inferometer_load_queries:rate1m",
        rate('inferometer_load_queries_total{result="ok"}', _STEP),
    ),
    _recording(
        "run_step:inferometer_load_samples:rate1m",
        rate("inferometer_load_samples_total", _STEP),
    ),
    _recording(
        "run_step:inferometer_load_errors:ratio_rate1m",
        f"""
sum by ({_STEP}) (
  {rate('inferometer_load_queries_total{result!="ok"}', f"{_STEP}, result")}
)
/ (
  sum by ({_STEP}) (
    {rate("inferometer_load_queries_total", f"{_STEP}, result")}
  ) > 0
)""",
    ),
    _recording(
        "node_kind:inferometer_node_power_watts:sum",
        "sum by (node, kind) (max by (node, domain, kind) (inferometer_node_power_watts))",
    ),
    _recording(
        "run:inferometer_server_cpu_cores:rate1m",
        of_servers(_TARGET_CPU),
    ),
    _recording(
        "run:inferometer_server_cpu_throttled_seconds:rate1m",
        of_servers(rate("inferometer_workload_cpu_throttled_seconds_total", "node, workload")),
    ),
    _recording(
        "run:inferometer_server_memory_bytes:sum",
        of_servers("max by (node, workload) (inferometer_workload_memory_bytes)"),
    ),
    # As the result does it: a node's power, by the part of its busy CPU time that the servers took.
    _recording(
        "run:inferometer_server_cpu_watts:rate1m",
        of_servers(f"""(
    clamp_max(
      {_TARGET_CPU}
      / on (node) group_left ()
      ({_NODE_BUSY} > 0),
      1
    )
    * on (node) group_left ()
    sum by (node) (
      {_CPU_WATTS}
    )
  )"""),
    ),
    _recording(
        "run:inferometer_load_cpu_joules_per_inference:rate1m",
        f"""
run:inferometer_server_cpu_watts:rate1m
/ (sum by ({_RUN}) (run_step:inferometer_load_samples:rate1m) > 0)""",
    ),
]

_P99 = "run_step:inferometer_run_latency_seconds:p99_valid"
_NEWEST = "run_step:inferometer_run_finished_timestamp_seconds:newest"
_FINISHED = "run_step:inferometer_run_finished_timestamp_seconds:valid"
_INFO = "max by (run_uid, node, spec_hash, run_namespace, run) (inferometer_run_info)"
_EARLIER_P99 = f"""last_over_time({_P99}[{_EARLIER}])
  unless on ({_STEP}, run_uid)
  {_NEWEST}"""

REGRESSION: list[dict[str, Any]] = [
    _recording(
        _P99,
        f"""
(
  max by ({_STEP}) (inferometer_run_latency_seconds{{percentile="99"}})
  and on ({_SCENARIO})
  min by ({_SCENARIO}) (inferometer_run_valid) == 1
)
* on ({_RUN}) group_left (run_uid, node, spec_hash)
{_INFO}""",
    ),
    _recording(
        _FINISHED,
        f"""
0 * {_P99}
+ on ({_RUN}) group_left ()
max by ({_RUN}) (inferometer_run_finished_timestamp_seconds)""",
    ),
    # Of each spec's scenario on a node the run that ended last, whether or not it is there still.
    _recording(
        _NEWEST,
        f"""
last_over_time({_FINISHED}[{_EARLIER}])
== on ({_SPEC_STEP}) group_left ()
max by ({_SPEC_STEP}) (
  last_over_time({_FINISHED}[{_EARLIER}])
)""",
    ),
    # Fewer earlier runs have no range: their scatter is not known.
    *(
        _recording(
            f"spec_node_step:inferometer_run_latency_seconds:p99_earlier_{name}",
            f"""
quantile by ({_SPEC_STEP}) (
  {quantile},
  {_EARLIER_P99}
)
and on ({_SPEC_STEP})
count by ({_SPEC_STEP}) (
  {_EARLIER_P99}
) >= {_RUNS_ENOUGH}""",
        )
        for name, quantile in (("median", 0.5), ("max", 1))
    ),
]
