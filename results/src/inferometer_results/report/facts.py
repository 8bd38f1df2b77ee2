"""The tables of facts at the end of the report: environment, steps, percentiles, workers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC

import yaml

from inferometer_api.results.accuracy import ManifestInfo
from inferometer_api.results.result import (
    ClusterNode,
    Environment,
    NodeTelemetry,
    ResultDocument,
    ScenarioResult,
    ServerReplica,
    Step,
    Tensor,
)
from inferometer_api.results.search import RepeatSummary
from inferometer_api.timestamps import parse_time
from inferometer_results.quantity import DASH, duration, significant, size, time_unit
from inferometer_results.report.summary import FigureCell, bounded
from inferometer_results.wording.search import (
    FIGURE_HEADINGS,
    figure_name,
    figure_texts,
    figures_shown,
)
from inferometer_results.wording.server_time import server_parts, step_parts

_MANY_COLUMNS = 11
_DISTRIBUTIONS = (
    ("latency", "latency"),
    ("service time", "service_time"),
    ("dispatch lag", "dispatch_lag"),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Facts under one heading."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts: a heading for each column, and rows of as many figures."""

    headings: tuple[str, ...]
    rows: tuple[tuple[FigureCell, ...], ...]

    @property
    def is_wide(self) -> bool:
        """Whether it has so many columns that they must stand closer to fit."""
        return len(self.headings) > _MANY_COLUMNS


def moment(text: str) -> str:
    """Return an RFC 3339 time as people write it; return any other text unchanged."""
    read = parse_time(text)
    try:
        time = None if read is None else read.astimezone(UTC)
    except OverflowError:
        time = None
    if time is None:
        return text
    return f"{time.day} {time:%B %Y, %H:%M:%S} UTC"


def clock_time(text: str) -> str:
    """Return the time of day of an RFC 3339 time; return any other text unchanged."""
    return moment(text).rpartition(", ")[2]


def environment_groups(environment: Environment) -> list[Group]:
    """Return the conditions of the figures: machine, server, model, software."""
    groups = [
        Group("Machine", tuple(_machine(environment))),
        Group("Server", tuple(_server(environment))),
        Group("Model", tuple(_model(environment))),
        Group("Server settings", tuple(_settings(environment))),
        Group("Software", tuple(sorted(environment.packages.items()))),
        Group("Images", tuple(sorted(environment.images.items()))),
    ]
    return [group for group in groups if group.facts]


def spec_yaml(document: ResultDocument) -> str:
    """Return the resolved run as YAML that can be run again."""
    run = document.run.model_dump(mode="json", exclude_none=True, exclude={"status"})
    run["metadata"] = {key: value for key, value in run["metadata"].items() if value}
    return str(yaml.safe_dump(run, sort_keys=False, allow_unicode=True, width=100))


def agent_facts(document: ResultDocument) -> list[Group]:
    """Return the facts of each node with an agent, and what its agent could not read."""
    by_node: dict[str, list[NodeTelemetry]] = {}
    for result in document.scenarios:
        for step in result.steps:
            for each in step.telemetry:
                by_node.setdefault(each.node, []).append(each)
    return [Group(node or "node", tuple(_agent(found))) for node, found in by_node.items()]


def _agent(found: list[NodeTelemetry]) -> Iterator[tuple[str, str]]:
    """Yield each fact in the words of every step, once."""
    facts = {
        "Agent": [each.agent_version for each in found],
        "CPUs": [str(each.cpu_count) for each in found if each.cpu_count],
        "Frequency governor": [each.governor for each in found if each.governor],
    }
    for name, values in facts.items():
        known = [value for value in dict.fromkeys(values) if value]
        if known:
            yield name, ", ".join(known)
    for missing in dict.fromkeys(sentence for each in found for sentence in each.missing):
        yield "Not available", missing


def step_table(result: ScenarioResult) -> Table:
    """Return what was counted in each step, one row for each."""
    columns: dict[str, Callable[[Step], str | FigureCell]] = {
        "Step": lambda step: step.label or result.name,
        "Started": lambda step: clock_time(step.started_at),
        "Window": lambda step: FigureCell(
            duration(step.duration_nanoseconds), "ended early" * step.ended_early
        ),
        "Warm-up": lambda step: FigureCell(
            duration(step.warm_up_nanoseconds), f"{step.warm_up_queries:,} queries"
        ),
        "Scheduled": lambda step: (
            DASH if step.counts.scheduled is None else f"{step.counts.scheduled:,}"
        ),
        "Answered": lambda step: f"{step.counts.succeeded:,}",
        "Failed": lambda step: f"{step.counts.failed:,}",
        "Waited for a connection": lambda step: f"{step.counts.waited_for_connection:,}",
        "Reconnects": lambda step: f"{step.counts.reconnects:,}",
        "Replies checked": lambda step: f"{step.counts.checked_replies:,}",
        "Server CPU": lambda step: _seconds(step.server_cpu_seconds),
        "Client CPU": lambda step: _seconds(step.client_cpu_seconds),
    }
    if any(step.telemetry for step in result.steps):
        columns["Throttled"] = lambda step: _seconds(
            _sum(each.server_throttled_seconds for each in step.telemetry)
        )
        columns["Stolen CPU"] = lambda step: _seconds(
            _sum(each.steal_seconds for each in step.telemetry)
        )
    rows = (tuple(_cell(column(step)) for column in columns.values()) for step in result.steps)
    return Table(tuple(columns), tuple(rows))


def _cell(content: str | FigureCell) -> FigureCell:
    return content if isinstance(content, FigureCell) else FigureCell(content)


def _seconds(value: float | None) -> str:
    return DASH if value is None else f"{significant(value)} s"


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values, None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def percentile_table(result: ScenarioResult) -> Table:
    """Return every percentile of every distribution of a scenario, with its bounds.

    Of the time in the servers only the means are known.
    """
    found = [
        (" ".join(part for part in (step.label, name) if part), getattr(step, field))
        for step in result.steps
        for name, field in _DISTRIBUTIONS
        if getattr(step, field) is not None
    ]
    percentiles = list(dict.fromkeys(v.percentile for _, d in found for v in d.percentiles))
    headings = ("", "Count", "Min", "Mean", *(f"p{p:g}" for p in percentiles), "Max")
    rows = []
    for name, summary in found:
        unit = time_unit([summary.min_nanoseconds, summary.max_nanoseconds])
        values = {value.percentile: value for value in summary.percentiles}
        rows.append(
            (
                FigureCell(f"{name} ({unit.name})"),
                FigureCell(f"{summary.count:,}"),
                FigureCell(unit.text(summary.min_nanoseconds)),
                FigureCell(unit.text(summary.mean_nanoseconds)),
                *(bounded(values.get(percentile), unit) for percentile in percentiles),
                FigureCell(unit.text(summary.max_nanoseconds)),
            )
        )
    rows += [row for step in result.steps for row in _server_rows(step, len(percentiles))]
    return Table(headings, tuple(rows))


def _server_rows(step: Step, percentile_count: int) -> Iterator[tuple[FigureCell, ...]]:
    """Yield a row for each part of the time that the servers spent on a request."""
    spent = step.server_time
    if spent is None:
        return
    steps = {f"step {name}": each for name, each in step_parts(spent).items()}
    for name, nanoseconds in (server_parts(spent) | steps).items():
        unit = time_unit([nanoseconds])
        shown = " ".join(part for part in (step.label, f"server: {name}") if part)
        cells = (f"{shown} ({unit.name})", f"{spent.requests:,}", DASH, unit.text(nanoseconds))
        yield tuple(FigureCell(text) for text in (*cells, *[DASH] * (percentile_count + 1)))


def repeat_table(repeated: RepeatSummary | None) -> Table:
    """Return each figure over the repeats of a scenario; no rows if it has none."""
    figures = [] if repeated is None else figures_shown(repeated)
    rows = tuple(
        (
            FigureCell(", ".join(part for part in (figure_name(each), each.step) if part)),
            *(FigureCell(text) for text in figure_texts(each)),
        )
        for each in figures
    )
    return Table(("", *FIGURE_HEADINGS), rows)


def worker_table(result: ScenarioResult) -> Table:
    """Return what each worker of a fleet did in each step, and its clock offset."""
    rows = []
    for step in result.steps:
        for each in step.workers:
            idle = not each.queries and not each.client_cpu_seconds  # not part of this step
            name = f"{each.worker}{' (lost)' * each.lost}"
            rows.append(
                tuple(
                    FigureCell(text)
                    for text in (
                        " ".join(part for part in (step.label, f"worker {name}") if part),
                        each.node or DASH,
                        f"{each.queries:,}",
                        DASH if idle else _signed(each.start_offset_nanoseconds),
                        _signed(each.clock_offset_nanoseconds),
                        duration(each.clock_uncertainty_nanoseconds),
                        DASH if idle else f"{each.client_cpu_seconds:.3g} s",
                    )
                )
            )
    headings = ("", "Node", "Queries", "Start offset", "Clock offset", "Uncertainty", "CPU")
    return Table(headings, tuple(rows))


def _signed(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{duration(abs(nanoseconds))}"


def _machine(environment: Environment) -> Iterator[tuple[str, str]]:
    node = environment.node
    yield "Place", environment.place
    yield "Host", node.hostname
    yield "CPU", f"{node.cpu_model}, {node.cpu_count} CPUs ({node.architecture})"
    yield "Memory", size(node.memory_bytes)
    if node.gpus:
        yield "GPU", ", ".join(node.gpus)
    yield "System", node.operating_system
    yield "Kernel", node.kernel
    yield "Frequency governor", node.cpu_governor or "not available"


def _server(environment: Environment) -> Iterator[tuple[str, str]]:
    server = environment.server
    yield "Server", f"{server.name} {server.version}".strip() or "unknown"
    yield "Started by", "Inferometer" if server.launched else "others (it was already running)"
    yield "Address", server.url
    for words in dict.fromkeys(_node_words(each) for each in server.replicas if each.node):
        yield "Node", words
    for provider, nodes in sorted(server.graph_nodes_by_provider.items()):
        yield "Graph nodes", f"{nodes:,} on {provider}"
    if server.cpu_fallback_graph_nodes:
        yield "Compute nodes that fell back to the CPU", f"{server.cpu_fallback_graph_nodes:,}"
    if server.extensions:
        yield "Extensions", ", ".join(server.extensions)


def _node_words(replica: ServerReplica) -> str:
    """Return the name of a server's node, its instance type and whether others use it."""
    known = replica.cluster_node or ClusterNode()
    words = f"{replica.node} ({known.instance_type})" if known.instance_type else replica.node
    if known.other_pods is None:
        return words
    pods = "1 pod" if known.other_pods == 1 else f"{known.other_pods or 'no'} pods"
    return f"{words}, with {pods} of others"


def _settings(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the server's settings for the model that are not elsewhere on the page."""
    elsewhere = {"nodes_by_provider", "compute_nodes_fell_back", "model_sha256"}
    for name, value in sorted(environment.server.settings.items()):
        if name not in elsewhere and value not in {"", "{}", "[]"}:
            yield name, value


def _model(environment: Environment) -> Iterator[tuple[str, str]]:
    model = environment.model
    yield "Name", f"{model.name} {model.version}".strip()
    if model.uri:
        yield "URI", model.uri
    if model.sha256:
        yield "SHA-256", model.sha256
    if model.manifest is not None:
        yield "Manifest", _manifest(model.manifest)
        yield "Engine by the manifest", _resolved(model.manifest)
    for tensor in model.inputs:
        yield "Input", _tensor(tensor)
    for tensor in model.outputs:
        yield "Output", _tensor(tensor)


def _manifest(manifest: ManifestInfo) -> str:
    named = f"{manifest.name} {manifest.version}"
    return f"{named} (licence {manifest.license}; SHA-256 {manifest.sha256})"


def _resolved(manifest: ManifestInfo) -> str:
    """Return which engine a manifest needs and got, or what could not be checked."""
    needed = f"{manifest.framework} {manifest.framework_constraint}".strip()
    if not manifest.resolved_engine:
        return f"needs {needed}; not checked, as the server reports no engine"
    if not manifest.resolved_version:
        return (
            f"needs {needed}, has {manifest.resolved_engine}; the version was not checked, as the "
            "server reports none"
        )
    return f"needs {needed}, has {manifest.resolved_engine} {manifest.resolved_version}"


def _tensor(tensor: Tensor) -> str:
    shape = ", ".join("?" if axis < 0 else str(axis) for axis in tensor.shape)
    return f"{tensor.name}: {tensor.datatype} [{shape}]"
