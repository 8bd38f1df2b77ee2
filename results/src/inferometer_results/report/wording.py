"""How is each kind of scenario explained, and how exactly was it measured?"""

from inferometer_api.results.result import ResultDocument
from inferometer_api.scenarios.table import SCENARIOS, judged_percentile
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Scenario
from inferometer_results.report.latency_charts import Bound

_CLOSED = (
    "The next query goes out as soon as the one before is answered (closed loop). Latency is the "
    "time from the moment a query is sent until the whole reply is there; with several samples "
    "in a query it is that of the whole query."
)
_OPEN = (
    "Queries are due at times fixed before the run, whether or not the server keeps up (open "
    "loop). Latency counts from the time a query was due until the whole reply is there, so that "
    "waiting, in the server's queue or before a free connection, is part of it. Service time "
    "counts from the send. Dispatch lag is how late the load generator itself took a query up: "
    "late queries are sent late and counted, never dropped."
)

GENERAL = (
    "Each scenario begins with a warm-up under its own load, which is not measured. Percentiles "
    "are of the answered queries that were due (open loop) or sent (closed loop) within the "
    "window, however late their answer came; failed queries are counted by kind and are in no "
    "latency. The small figures are 95 % confidence bounds by order "
    "statistics; a question mark stands where there are too few queries to know one. Times are "
    "kept in an HdrHistogram with 3 significant digits. Rates are answered queries (or samples): "
    "in an open loop those due in the window, divided by the time from its start to the last of "
    "their answers; in a closed loop those answered within the window, divided by its length."
)

ENERGY = (
    "Counters of the servers' nodes are read at both edges of the window, and energy is the "
    "difference; per inference it is divided by the samples that were answered. It covers what the "
    "counters cover: CPU packages, their memory where it has a counter, GPUs. Not in it are the "
    "mainboard, fans, disks, the network and what power supplies lose."
)


def definitions(document: ResultDocument) -> list[tuple[str, str]]:
    """Return for each way of measuring the scenarios that used it, and what latency means there."""
    found: dict[str, list[str]] = {}
    for result in document.scenarios:
        kind = SCENARIOS.get(result.kind)
        text = _OPEN if kind is not None and kind.loop == "open" else _CLOSED
        names = found.setdefault(text, [])
        if result.name not in names:
            names.append(result.name)
    return [(", ".join(names), text) for text, names in found.items()]


def setting(run: BenchmarkRun, name: str, kind: str) -> str:
    """Return in a few words what a scenario did."""
    scenario = _scenario(run, name)
    row = SCENARIOS.get(kind)
    return kind if scenario is None or row is None else row.wording(scenario.profile)


def bound_of(run: BenchmarkRun, name: str) -> Bound | None:
    """Return the latency bound that was asked of a scenario, if any."""
    scenario = _scenario(run, name)
    judged = None if scenario is None else judged_percentile(scenario)
    if judged is None or judged.bound_ns is None:
        return None
    return Bound(judged.bound_ns, judged.percentile)


def _scenario(run: BenchmarkRun, name: str) -> Scenario | None:
    return next((scenario for scenario in run.spec.scenarios if scenario.name == name), None)
