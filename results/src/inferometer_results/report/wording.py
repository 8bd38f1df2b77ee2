"""Explanations of the report: what each scenario does and how it is measured."""

from inferometer_api.results.result import ResultDocument
from inferometer_api.scenarios.table import SCENARIOS, judged_percentile
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Scenario
from inferometer_results.report.latency_charts import LatencyBound

_CLOSED = (
    "Closed loop: the next query is sent as soon as the previous one is answered. Latency is the "
    "time from sending a query until its whole reply has arrived. If a query has several samples, "
    "it is the latency of the whole query."
)
_OPEN = (
    "Open loop: queries are due at times fixed before the run, whether or not the server keeps up. "
    "Latency is the time from when a query was due until its whole reply has arrived. It includes "
    "waiting in the server's queue or for a free connection. Service time starts when the query is "
    "sent. Dispatch lag is the delay of the load generator itself: late queries are sent late and "
    "counted, never dropped."
)

GENERAL = (
    "Each scenario begins with a warm-up under its own load, which is not measured. Percentiles "
    "cover the answered queries that were due (open loop) or sent (closed loop) within the "
    "measurement window, however late the answer came. Failed queries are counted by kind and have "
    "no latency. The small figures are 95 % bounds within this window, from order statistics: they "
    "do not cover what differs from run to run. A question mark means that there are too few "
    "queries for a bound. Times are recorded in an HdrHistogram "
    "with 3 significant digits. Rates count answered queries (or samples). In an open loop these "
    "are the queries due in the window, divided by the time from its start to their last answer; "
    "in a closed loop the queries answered in the window, divided by its length."
)

ENERGY = (
    "The energy counters of the servers' nodes are read at the start and the end of the window; "
    "their difference, divided by the answered samples, is the energy per inference. The counters "
    "cover CPU packages, memory if it has a counter, and GPUs. They do not cover the mainboard, "
    "fans, disks, the network and losses of power supplies."
)


def definitions(document: ResultDocument) -> list[tuple[str, str]]:
    """Return each way of measuring with its scenarios, and what latency means in it."""
    found: dict[str, list[str]] = {}
    for result in document.scenarios:
        kind = SCENARIOS.get(result.kind)
        text = _OPEN if kind is not None and kind.loop == "open" else _CLOSED
        names = found.setdefault(text, [])
        if result.name not in names:
            names.append(result.name)
    return [(", ".join(names), text) for text, names in found.items()]


def setting(run: BenchmarkRun, name: str, kind: str) -> str:
    """Return a short description of a scenario."""
    scenario = _scenario(run, name)
    row = SCENARIOS.get(kind)
    if scenario is None or row is None or scenario.kind != kind:
        return kind
    return row.wording(scenario.load_profile)


def bound_of(run: BenchmarkRun, name: str) -> LatencyBound | None:
    """Return the latency bound of a scenario, None if it has none."""
    scenario = _scenario(run, name)
    judged = None if scenario is None else judged_percentile(scenario)
    if judged is None or judged.bound_ns is None:
        return None
    return LatencyBound(judged.bound_ns, judged.percentile)


def _scenario(run: BenchmarkRun, name: str) -> Scenario | None:
    return next((scenario for scenario in run.spec.scenarios if scenario.name == name), None)
