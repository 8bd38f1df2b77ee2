"""The dashboard Operator: its work, and where runs wait."""

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
)
from grafana_foundation_sdk.models.dashboard import Panel

from grafana.dashboards import palette
from grafana.dashboards.finished import table_of_runs
from grafana.dashboards.frame import UIDS, Panels, filled, framed, query_variable, several
from grafana.dashboards.panels import (
    Query,
    coloured,
    fact,
    lines,
    logarithmic,
    number,
    on_the_right,
    stacked,
    steps,
)
from grafana.dashboards.promql import OPERATOR, RATE, mean, of, process_of, quantile, rate
from grafana.dashboards.tables import columns, linked
from inferometer_api.metrics import definitions as m

_SAYS = (
    "The operator: its leader, the phase of each run and its duration, the time to reconcile, "
    "errors of the API server, and finished runs."
)
_OVER = f'{OPERATOR}, phase=~"Complete|Failed"'
_OPEN = f'{OPERATOR}, phase!~"Complete|Failed"'
_OPEN_NOW = (
    f"/d/{UIDS['Run']}?var-datasource=${{datasource}}&var-scrape=${{scrape}}"
    "&var-run_namespace=${__data.fields.run_namespace}&var-run=${__data.fields.run}"
)
"""A run in the dashboard Run, at that dashboard's own time range: it may still work."""
_AGE = f"time() - max by (run_namespace, run, phase) ({of(m.RUN_PHASE_SINCE, OPERATOR)})"
_LONG_OVER = -1e9
"""Seconds left; what is below every value is the colour of none."""
_LEFT = f"max by (run_namespace, run) ({of(m.RUN_DEADLINE, OPERATOR)}) - time()"


def dashboard() -> Dashboard:
    """Return the dashboard Operator."""
    namespace = query_variable(
        "namespace",
        "Operator in",
        "Namespaces of operators, as Prometheus found them; their runs may be in others.",
        of="namespace",
        where=m.LEADER.name,
    )
    return filled(
        framed("Operator", _SAYS, [several(namespace)]).time("now-3h", "now"),
        [
            ("", _at_a_glance()),
            ("Runs", _runs()),
            ("Reconciling", _reconciling()),
            ("Finished runs", [_finished()]),
        ],
    )


def _at_a_glance() -> Panels:
    return [*_leader_and_runs(), *_signs()]


def _leader_and_runs() -> Panels:
    return [
        fact(
            "Leaders",
            "short",
            "Replicas that lead, of the operator in each namespace, from "
            "inferometer_operator_leader: 1. At 0 no run starts or ends: check `kubectl get "
            "lease` and the operator's log.",
            Query(f"sum by (namespace, job) ({of(m.LEADER, OPERATOR)})", "{{namespace}}"),
        ).thresholds(steps(palette.BAD, (1, palette.GOOD), (2, palette.BAD))),
        fact(
            "Unfinished runs",
            "short",
            "Runs that have not finished, from inferometer_runs. Queued runs wait until no other "
            "run uses their nodes, Suspended ones until they are resumed.",
            Query(f"sum({of(m.RUNS, _OPEN)})"),
        ),
        fact(
            "Finished runs",
            "short",
            "Finished runs that their TTL has not deleted, from inferometer_runs. Above 200 the "
            "oldest have no gauges: lower retention.ttlSecondsAfterFinished.",
            Query(f"sum({of(m.RUNS, _OVER)})"),
        ).thresholds(steps(palette.PLAIN, (200, palette.DOUBTFUL))),
    ]


def _signs() -> Panels:
    memory = process_of("process_resident_memory_bytes", m.LEADER, OPERATOR)
    return [
        fact(
            "Nearest deadline",
            "s",
            "The shortest time until activeDeadlineSeconds end a run, from "
            "inferometer_run_deadline_timestamp_seconds. If it is red, the run fails within a "
            "minute: check its stage. Empty: no run has started.",
            Query(f"min({_LEFT})"),
        )
        .no_value("none")
        .thresholds(
            steps(
                palette.PLAIN,
                (_LONG_OVER, palette.BAD),
                (60, palette.DOUBTFUL),
                (300, palette.GOOD),
            )
        ),
        number(
            "API errors",
            "reqps",
            "Requests to the API server that failed, per second, from "
            "inferometer_operator_api_errors_total. A few conflicts (409) are normal. 403: a "
            "permission is missing; unreachable: check the API server and NetworkPolicies.",
            Query(f"sum({rate(m.API_ERRORS, OPERATOR)}) or vector(0)"),
        )
        .decimals(2)
        .thresholds(steps(palette.GOOD, (0.1, palette.DOUBTFUL), (1, palette.BAD))),
        number(
            "Memory",
            "bytes",
            "Memory of the largest replica, from its process_resident_memory_bytes. If it rises "
            "for days, report a bug.",
            Query(f"max({memory})"),
        ),
    ]


def _runs() -> Panels:
    waiting = columns(
        "Phase of each run",
        "Every run that is not finished, from inferometer_run_phase_since_timestamp_seconds and "
        "inferometer_run_deadline_timestamp_seconds. If a run stays in one phase, `kubectl "
        "describe bmr` shows the reason. A run's name links to it.",
        ("run_namespace", "run", "phase"),
        ("s", Query(_AGE, "for")),
        ("s", Query(_LEFT, "left")),
    )
    waiting = linked(waiting, "run", "Open this run", _OPEN_NOW)
    return [
        coloured(
            stacked(
                lines(
                    "Runs by phase",
                    "short",
                    "BenchmarkRuns that exist, from inferometer_runs. Failed: `kubectl get bmr` "
                    "names them. Queued runs wait for a run on the same nodes.",
                    Query(f"sum by (phase) ({of(m.RUNS, OPERATOR)})", "{{phase}}"),
                )
            ),
            palette.PHASES,
        )
        .decimals(0)
        .line_interpolation(LineInterpolation.STEP_AFTER)
        .legend(
            VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.RIGHT)
            .calcs(["lastNotNull"])
        )
        .span(12),
        waiting.span(12),
    ]


def _reconciling() -> Panels:
    return [*_reconciles(), *_costs()]


def _reconciles() -> Panels:
    return [
        coloured(
            logarithmic(
                lines(
                    "Time to reconcile",
                    "s",
                    "Time to observe a run, decide and act, from "
                    "inferometer_operator_reconcile_duration_seconds. If it rises, the API server "
                    "is slow or returns errors: check API errors.",
                    Query(quantile(0.5, m.RECONCILE, OPERATOR), "p50"),
                    Query(quantile(0.99, m.RECONCILE, OPERATOR), "p99"),
                    Query(mean(m.RECONCILE, OPERATOR), "mean"),
                )
            ),
            palette.PERCENTILES | {"mean": palette.ACHIEVED},
        ).span(6),
        lines(
            "Reconciles",
            "ops",
            "Rate of reconciles, from inferometer_operator_reconcile_duration_seconds. If there "
            "are many without runs, an object changes all the time: check the log.",
            Query(f"sum({rate(m.RECONCILE, OPERATOR, '_count')})", "reconciles"),
        ).span(6),
    ]


def _costs() -> Panels:
    cpu = process_of(f"rate(process_cpu_seconds_total[{RATE}])", m.LEADER, OPERATOR)
    memory = process_of("process_resident_memory_bytes", m.LEADER, OPERATOR)
    return [
        stacked(
            lines(
                "API errors by code",
                "reqps",
                "API errors by code, from inferometer_operator_api_errors_total; `none` if there "
                "was none. 403: a permission is missing; 409: a conflict, which is retried; 429: "
                "throttled by the server.",
                Query(
                    f"sum by (code) ({rate(m.API_ERRORS, OPERATOR)}) or on () "
                    f'label_replace(0 * sum({of(m.LEADER, OPERATOR)}), "code", "none", "", "")',
                    "{{code}}",
                ),
            )
        )
        .axis_soft_max(1)
        .span(6),
        on_the_right(
            lines(
                "CPU and memory",
                "none",
                "CPU and memory of all replicas, from their process_cpu_seconds_total and "
                "process_resident_memory_bytes. An idle operator uses next to no CPU.",
                Query(f"sum({cpu})", "cores"),
                Query(f"sum({memory})", "memory"),
            ),
            "memory",
            "bytes",
        ).span(6),
    ]


def _finished() -> Builder[Panel]:
    return table_of_runs(
        "Finished runs",
        "The newest 200 finished runs, by scenario and step, from the operator's "
        "inferometer_run_* gauges. A run's name opens it at its own time; Compare shows them side "
        "by side. `kubectl inferometer report RUN -n NAMESPACE` gives the reason of an INVALID "
        "verdict.",
        where=OPERATOR,
        of_runs=OPERATOR,
    ).height(10)
