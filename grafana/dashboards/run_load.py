"""The panels of the load generator: stage, rates and latencies."""

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import BigValueColorMode, BigValueTextMode, VizOrientation
from grafana_foundation_sdk.models.dashboard import Panel

from grafana.dashboards import energy, palette
from grafana.dashboards.finished import result, result_by_step
from grafana.dashboards.frame import Panels
from grafana.dashboards.panels import (
    VERDICT,
    Query,
    coloured,
    dashed,
    density,
    fact,
    lines,
    logarithmic,
    mappings,
    stacked,
    states,
    steps,
)
from grafana.dashboards.promql import RATE, RUN, STEP, of, process_of, quantile, rate
from inferometer_api.metrics import definitions as m

_STAGES = {
    place: (name, colour) for place, (name, colour) in enumerate(palette.STAGES.items(), start=1)
}
_SERVER = {11: ("ready", palette.GOOD), 10: ("not ready", palette.BAD)}
_OK = f'{STEP}, result="ok"'
_BROKEN = f'{STEP}, result!="ok"'
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_WHICH = "For a finished run the result's, by scenario"
_WORKING = of(m.LOAD_STAGE, f'{RUN}, stage=~"Measuring|Draining"') + " == 1"


def _stage(where: str, by: str = "") -> str:
    """Return the number of the stage that the load generator is in, by these labels."""
    terms = []
    for place, (name, _) in _STAGES.items():
        series = of(m.LOAD_STAGE, f'{where}, stage="{name}"')
        terms.append(f"({series} == 1) * {place}")
    return f"max by ({by}) ({' or '.join(terms)})"


def at_a_glance() -> Panels:
    """Return the figures that stand on top."""
    return [*_state(), *_figures()]


def _state() -> Panels:
    return [
        fact(
            "Stage",
            "none",
            "The stage that the load generator is in, from inferometer_load_stage. If it stays at "
            "WaitingForServer for minutes, check the server's pod and `kubectl describe bmr`. "
            "Empty: Prometheus scraped no load generator of this run at the end of the time range.",
            Query(_stage(RUN)),
        )
        .mappings(mappings(_STAGES))
        .no_value("not measuring"),
        fact(
            "Verdict",
            "none",
            "Verdict on the finished run, from the operator's inferometer_run_valid: INVALID if "
            "one scenario is. If it is red, read the reasons in the report or in `kubectl "
            "describe bmr`; docs/reference/verdict.md explains them. There is no verdict while "
            "the run goes on, or if it failed.",
            Query(f"min({result(m.RUN_VALID)})"),
        )
        .mappings([VERDICT])
        .thresholds(steps(palette.ASKED, (0, palette.BAD), (1, palette.GOOD)))
        .color_mode(BigValueColorMode.BACKGROUND_SOLID)
        .no_value("none"),
    ]


def _figures() -> Panels:
    broken = f"(sum({rate(m.LOAD_QUERIES, _BROKEN)}) or vector(0))"
    failed = f"{result_by_step(m.RUN_ERRORS)} / {result_by_step(m.RUN_QUERIES)}"
    return [
        _result_or_live(
            "Rate",
            "reqps",
            f"Queries answered per second. {_WHICH} (inferometer_run_queries_per_second), live "
            "those of the last few scrapes (inferometer_load_queries_total).",
            result_by_step(m.RUN_QPS),
            f"sum({rate(m.LOAD_QUERIES, _OK)})",
        ),
        _result_or_live(
            "p99",
            "s",
            f"The 99th percentile of the latency. {_WHICH} (inferometer_run_latency_seconds), "
            "live that of the last few scrapes, from the buckets of "
            "inferometer_load_latency_seconds: at most one bucket (10 %) off.",
            result_by_step(m.RUN_LATENCY, "99"),
            quantile(0.99, m.LOAD_LATENCY, STEP),
        ),
        _result_or_live(
            "Errors",
            "percentunit",
            f"Share of queries that failed. {_WHICH} (inferometer_run_errors), live those "
            "of the last few scrapes (inferometer_load_queries_total). More than 0.1 % over a "
            "scenario makes it INVALID: check their kind below, then the server's log.",
            failed,
            f"{broken} / sum({rate(m.LOAD_QUERIES, STEP)})",
        )
        .decimals(2)
        .thresholds(steps(palette.GOOD, (1e-9, palette.DOUBTFUL), (0.001, palette.BAD))),
        _result_or_live(
            "Joules per inference",
            "joule",
            f"Gross. {_WHICH} (inferometer_run_joules_per_inference) with its attribution; the net "
            "figure is in the table below. During the run: CPU and DRAM energy by the servers' "
            "share of the node's CPU time, the node's GPUs as a whole, over inferences "
            "(inferometer_node_energy_joules_total, inferometer_workload_cpu_seconds_total, "
            "inferometer_load_samples_total). Empty: no node agent, or no energy source; see "
            "Nodes.",
            result_by_step(m.RUN_JOULES),
            energy.shared_joules(),
        ),
    ]


def _result_or_live(title: str, unit: str, says: str, found: str, live: str) -> Stat:
    """Return a tile of what the finished run found, by scenario, and until then of the live figure.

    It is an instant query at the end of the range: over time the live figure would outlive the run.
    """
    going_on = f"({live}) unless on () {result_by_step(m.RUN_VALID)}"
    named = f'label_replace({going_on}, "scenario", "live", "", "")'
    query = Query(f"{found} or {named}", "{{scenario}} {{step}} {{attribution}}")
    tile = fact(title, unit, says, query).text_mode(BigValueTextMode.VALUE_AND_NAME)
    return tile.orientation(VizOrientation.HORIZONTAL)


def panels() -> Panels:
    """Return the panels on load and latency."""
    return [_timeline(), _rates(), _latencies(), _heatmap(), _lag(), *_signs()]


def _timeline() -> Builder[Panel]:
    server = f"10 + min({of(m.SERVER_READY, RUN)})"
    return states(
        "Stages",
        "The load generator's stages by scenario, from inferometer_load_stage, and the server's "
        "readiness, from inferometer_server_ready. Only the stage Measuring counts in the result. "
        "A server that is not ready during this stage makes the run INVALID.",
        _STAGES | _SERVER,
        Query(_stage(f"{STEP}", "scenario, step"), "{{scenario}} {{step}}"),
        Query(server, "server"),
    )


def _rates() -> Builder[Panel]:
    target = f"max by (scenario, step) ({of(m.LOAD_TARGET_RATE, STEP)})"
    panel = lines(
        "Target and achieved rate",
        "reqps",
        "Target: the rate that the scenario sets (inferometer_load_target_queries_per_second; "
        "open-loop scenarios only). Due: queries of the schedule "
        "(inferometer_load_scheduled_queries_total). Achieved: queries answered "
        "(inferometer_load_queries_total). Inferences: the samples in them. If achieved is below "
        "due, the server is too slow; below 99 % the scenario is INVALID.",
        Query(f"sum({target} and on (scenario, step) ({_WORKING}))", "target"),
        Query(f"sum({rate(m.LOAD_SCHEDULED, STEP)})", "due"),
        Query(f"sum({rate(m.LOAD_QUERIES, _OK)})", "achieved"),
        Query(f"sum({rate(m.LOAD_SAMPLES, STEP)})", "inferences"),
    )
    colours = {"achieved": palette.ACHIEVED, "due": palette.SECOND, "inferences": palette.GOOD}
    return dashed(coloured(panel, colours), "target").span(12).height(10)


def _latencies() -> Builder[Panel]:
    panel = lines(
        "Latency",
        "s",
        "Percentiles of the last few scrapes, from the buckets of "
        "inferometer_load_latency_seconds: from the scheduled time in open-loop scenarios, else "
        "from the send, to the whole reply. If only p99.9 is high, look for pauses (throttling, "
        "steal, garbage collection). If all rise together, the server is over its capacity.",
        *(Query(quantile(q, m.LOAD_LATENCY, STEP), name) for name, q in _QUANTILES.items()),
    )
    return coloured(logarithmic(panel), palette.PERCENTILES).span(12).height(10)


def _heatmap() -> Builder[Panel]:
    buckets = f"increase({m.LOAD_LATENCY.name}_bucket{{{STEP}}}[{RATE}])"
    return density(
        "Latency, all queries",
        "s",
        "Distribution of the latency, from inferometer_load_latency_seconds. Two bands mean two "
        "kinds of queries or replies (a cache, a batch that waits, two replicas). A rising band "
        "means a growing queue.",
        Query(f"sum by (le) ({buckets})", "{{le}}"),
    ).height(10)


def _lag() -> Builder[Panel]:
    limit = f"clamp_min(0.05 * {quantile(0.99, m.LOAD_LATENCY, STEP)}, 0.001)"
    panel = lines(
        "Dispatch lag",
        "s",
        "Time from a query's schedule until the load generator handles it "
        "(inferometer_load_dispatch_lag_seconds; open-loop scenarios only). Limit: 5 % of the "
        "p99, at least 1 ms. Above it the load generator is late and the scenario INVALID: give "
        "the load generator its own CPU.",
        *(
            Query(quantile(q, m.LOAD_LAG, STEP), name)
            for name, q in _QUANTILES.items()
            if name != "p99.9"
        ),
        Query(f"{limit} and on () sum({rate(m.LOAD_LAG, STEP, '_count')}) > 0", "limit"),
    )
    return dashed(coloured(logarithmic(panel), palette.PERCENTILES), "limit").span(12).height(10)


def _signs() -> Panels:
    none = f'label_replace(0 * sum({rate(m.LOAD_QUERIES, STEP)}), "result", "none", "", "")'
    cpu = process_of(f"rate(process_cpu_seconds_total[{RATE}])", m.LOAD_STAGE, RUN)
    return [
        lines(
            "In flight",
            "short",
            "Queries sent and not answered, from inferometer_load_in_flight_queries. If they keep "
            "rising in an open-loop scenario, the target rate exceeds the server's capacity.",
            Query(f"sum({of(m.LOAD_IN_FLIGHT, STEP)})", "in flight"),
        ),
        stacked(
            lines(
                "Errors by kind",
                "reqps",
                "Queries that failed, by kind, from inferometer_load_queries_total. timeout: past "
                "load.requestTimeoutMilliseconds; connection: lost or refused; status: the "
                "server's own error; protocol, content: an invalid reply. Check the server's log.",
                Query(
                    f"sum by (result) ({rate(m.LOAD_QUERIES, _BROKEN)}) > 0 or on () {none}",
                    "{{result}}",
                ),
            )
        ).axis_soft_max(1),
        lines(
            "Load generator's CPU",
            "none",
            "Cores that the load generator uses, from its process_cpu_seconds_total. It measures "
            "with one thread: above 0.9 it is the bottleneck, and the scenario is INVALID.",
            Query(f"sum({cpu})", "cores"),
        )
        .thresholds(steps(palette.GOOD, (0.9, palette.BAD)))
        .axis_soft_max(1),
    ]
