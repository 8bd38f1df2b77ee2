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
from grafana.dashboards.frame import UIDS, Panels, asked, filled, framed, several
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
    "The operator: who leads, which runs it holds and for how long they have been where they are, "
    "how long it takes to act, what the API server refuses, and which runs are over."
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
    namespace = asked(
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
            "inferometer_operator_leader: 1. At 0 no run begins or ends: `kubectl get lease` and "
            "the operator's log say why.",
            Query(f"sum by (namespace, job) ({of(m.LEADER, OPERATOR)})", "{{namespace}}"),
        ).thresholds(steps(palette.BAD, (1, palette.GOOD), (2, palette.BAD))),
        fact(
            "Runs that are not over",
            "short",
            "From inferometer_runs. Runs wait in Queued while another uses the same nodes, and in "
            "Suspended until somebody resumes them.",
            Query(f"sum({of(m.RUNS, _OPEN)})"),
        ),
        fact(
            "Finished runs",
            "short",
            "From inferometer_runs: those that their TTL has not yet deleted. Above 200 the oldest "
            "have no gauges: lower retention.ttlSecondsAfterFinished.",
            Query(f"sum({of(m.RUNS, _OVER)})"),
        ).thresholds(steps(palette.PLAIN, (200, palette.DOUBTFUL))),
    ]


def _signs() -> Panels:
    memory = process_of("process_resident_memory_bytes", m.LEADER, OPERATOR)
    return [
        fact(
            "Nearest deadline",
            "s",
            "The least time that a run has left until its activeDeadlineSeconds end it, from "
            "inferometer_run_deadline_timestamp_seconds. Red: it will fail within a minute; see "
            "its stage. Empty: no run has begun.",
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
            "inferometer_operator_api_errors_total. Conflicts (409) now and then are its daily "
            "bread; 403: a right is missing; unreachable: the API server, or a NetworkPolicy.",
            Query(f"sum({rate(m.API_ERRORS, OPERATOR)}) or vector(0)"),
        )
        .decimals(2)
        .thresholds(steps(palette.GOOD, (0.1, palette.DOUBTFUL), (1, palette.BAD))),
        number(
            "Memory",
            "bytes",
            "Of the largest replica, from its process_resident_memory_bytes. Rising for days: tell "
            "us.",
            Query(f"max({memory})"),
        ),
    ]


def _runs() -> Panels:
    waiting = columns(
        "Where runs are, and since when",
        "Every run that is not finished, from inferometer_run_phase_since_timestamp_seconds and "
        "inferometer_run_deadline_timestamp_seconds. Long in one phase: `kubectl describe bmr` "
        "says what it waits for. A run's name opens it.",
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
                    "names them. Queued runs wait for one that uses the same nodes.",
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
                    "How long it took to observe a run, decide and act, from "
                    "inferometer_operator_reconcile_duration_seconds. Rising: the API server is "
                    "slow, or refuses; see its errors beside.",
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
            "How often runs are looked at, from inferometer_operator_reconcile_duration_seconds. A "
            "steady stream without runs: something changes all the time; see the log.",
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
                "From inferometer_operator_api_errors_total; `none` where there was never one. "
                "403: a right is missing; 409: a conflict, tried again; 429: throttled by the "
                "server.",
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
                "Of the replicas together, from their process_cpu_seconds_total and "
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
        "The newest 200 finished runs, by scenario and step, from the operator's inferometer_run_* "
        "gauges. A run's name opens it at its own time; Compare sets them side by side. Why one is "
        "INVALID says `kubectl inferometer report RUN -n NAMESPACE`.",
        where=OPERATOR,
        of_runs=OPERATOR,
    ).height(10)
