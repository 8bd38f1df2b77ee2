"""The BenchmarkSuite: its template, axes, systems, schedule and gate."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import DnsLabel, DnsSubdomain, Document, Integral
from inferometer_api.rules import Rule, Unique, Where, exactly_one
from inferometer_api.spec.run import ObjectMeta
from inferometer_api.suite.matrix import MOST_AXES, Axis, Choice, IncludedCell, RunTemplate, Systems
from inferometer_api.suite.status import SuiteStatus

MOST_RUNS = 1000
"""Cells times repeats, over all systems, without the anchor's runs."""


class SuiteSchedule(Document):
    """When the suite is executed, on the API server's clock. Local runs ignore it."""

    cron: Annotated[str, StringConstraints(min_length=9, max_length=100, pattern=patterns.CRON)]
    """Times as cron writes them: minute, hour, day of month, month, day of week."""

    time_zone: Annotated[
        str, StringConstraints(min_length=1, max_length=64, pattern=patterns.TIME_ZONE)
    ] = "Etc/UTC"
    """Time zone of the times: Europe/Zurich."""

    starting_deadline_seconds: Annotated[int, Field(ge=10, le=2_592_000), Integral] | None = None
    """Seconds after its time within which a missed execution still starts. Absent: whenever it \
can. Of several missed times only the latest is made up for."""

    successful_history_limit: Annotated[int, Field(ge=0, le=100), Integral] = 3
    """Complete executions that are kept, with their runs; the last execution always is."""

    failed_history_limit: Annotated[int, Field(ge=0, le=100), Integral] = 1
    """Failed executions that are kept, with their runs; the last execution always is."""


class Baseline(Document):
    """What the cells are compared with."""

    axis: DnsLabel | None = None
    """Name of the axis of which one value is the baseline of the others. Both are measured in \
the same blocks: the strongest comparison."""

    value: DnsLabel | None = None
    """Name of the baseline's value on that axis."""

    suite: DnsSubdomain | None = None
    """A suite of the namespace: its last complete execution before this one is the baseline. \
Cells match by their values; one that the baseline has not measured is not judged, and the gate \
INCONCLUSIVE. With a schedule, the suite's own name is the execution before."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        exactly_one(("axis", "suite")),
        Rule(
            cel="has(self.value) == has(self.axis)",
            message="set value with axis, and only then",
            holds=lambda baseline: (baseline.value is None) == (baseline.axis is None),
            field="value",
        ),
    )


class SuiteGate(Document):
    """The condition under which the suite passes."""

    fail_if_slower_percent: Annotated[int, Field(ge=1, le=100), Integral] = 5
    """Slow-down of a rate or a median latency that fails the suite, once it is shown."""


def _value_names(suite: "SuiteSpec") -> dict[str, set[str]]:
    return {axis.name: {value.name for value in axis.values} for axis in suite.axes}


def _choices(suite: "SuiteSpec") -> Iterator[tuple[Where, dict[str, str]]]:
    """Yield each choice of values with its place."""
    for index, excluded in enumerate(suite.exclude):
        yield ("exclude", index), excluded
    for index, included in enumerate(suite.include):
        yield ("include", index, "values"), included.values
    if suite.anchor is not None:
        yield ("anchor",), suite.anchor
    baseline = suite.baseline
    if baseline is not None and baseline.axis is not None and baseline.value is not None:
        yield ("baseline", "axis"), {baseline.axis: baseline.value}


def _unknown_choices(suite: "SuiteSpec") -> Iterator[tuple[Where, str]]:
    """Yield each choice that names no axis, or no value of its axis."""
    known = _value_names(suite)
    for where, choice in _choices(suite):
        for axis, value in choice.items():
            if value not in known.get(axis, ()):
                place = where if where[0] == "baseline" else (*where, axis)
                yield place, f"{axis}: {value}"


def ambiguous_names(suite: "SuiteSpec") -> Iterator[str]:
    """Yield a sentence for each included cell with the name of an axis's value."""
    axes = {value.name: axis.name for axis in suite.axes for value in axis.values}
    for index, each in enumerate(suite.include):
        if each.name in axes:
            yield (
                f"spec.include[{index}].name: {each.name} is a value of the axis "
                f"{axes[each.name]} already. Give the cell another name."
            )


def matrix_size(suite: "SuiteSpec") -> int:
    """Return how many runs the axes span with the repeats, before anything is excluded."""
    size = suite.repeats
    for axis in suite.axes:
        size *= len(axis.values)
    return size


_PRODUCT = " * ".join(
    f"(self.axes.size() > {index} ? self.axes[{index}].values.size() : 1)"
    for index in range(MOST_AXES)
)
_NAMES_A_VALUE = (
    "{0}.all(k, self.axes.exists(a, a.name == k && a.values.exists(v, v.name == {0}[k])))"
)
_FIXED = ("template", "axes", "include", "exclude", "repeats", "seed", "systems", "anchor")


def _fixed(field: str) -> Rule:
    """Return the rule that a suite without a schedule keeps what its cells are made of."""
    return Rule(
        cel=f"has(self.schedule) || (has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field}))",
        message=f"{field} is immutable without a schedule: create a new BenchmarkSuite",
        holds=None,
        field=field,
    )


class SuiteSpec(Document):
    """What to measure: a run for each cell of a matrix. Immutable cells without a schedule."""

    template: RunTemplate
    """The run that each cell varies."""

    axes: Annotated[list[Axis], Field(max_length=MOST_AXES), Unique("name")] = Field(
        default_factory=list
    )
    """Dimensions of the matrix. A cell takes one value of each; later axes set after earlier \
ones. Their sizes times the repeats are at most 1,000."""

    include: Annotated[list[IncludedCell], Field(max_length=32), Unique("name")] = Field(
        default_factory=list
    )
    """Cells in addition to those of the axes."""

    exclude: Annotated[list[Choice], Field(max_length=32)] = Field(default_factory=list)
    """Cells to leave out: those with all of these values, {model: resnet50, protocol: http}."""

    systems: Systems | None = None
    """The nodes on which every cell is measured. Absent: any that the template's placement \
allows."""

    repeats: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """Times that each cell is measured, spread over the suite: a block has each cell once."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] = 42
    """Seed of the order of the cells within a block."""

    anchor: Choice | None = None
    """The cell that opens and closes each block, to show whether the node drifts: the first one \
with these values. Absent: none, or the first cell if there is a gate."""

    max_concurrent: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """Runs of the suite at a time. On one node of `systems` they always take turns."""

    on_failure: Literal["Continue", "Stop"] = "Continue"
    """Whether other cells go on after a run has failed. An INVALID run has not failed."""

    reuse: bool = False
    """Whether a stored VALID result stands for a run instead of a measurement, if it is equal in \
spec, model checksum, images (locally: version) and node, and was stored before the suite began. \
Each result stands for one run. Anchors are always measured, and a gate judges no reused run. A \
cluster needs a results service, and an operator that may read nodes."""

    suspend: bool = False
    """Starts no more runs until it is false again. With a schedule: starts no execution; \
those that have begun continue, and have this field themselves."""

    cancel: bool = False
    """Ends the suite and cancels its runs. Cannot be unset."""

    schedule: SuiteSchedule | None = None
    """When the suite is executed. Each execution is a suite of its own. Absent: once, now."""

    baseline: Baseline | None = None
    """What the cells are compared with."""

    gate: SuiteGate | None = None
    """The condition under which the suite passes. Needs a baseline."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"{_PRODUCT} * self.repeats <= {MOST_RUNS}",
            message=f"a suite has at most {MOST_RUNS} cells, repeats counted: use fewer values or "
            "repeats, or several suites",
            holds=lambda suite: matrix_size(suite) <= MOST_RUNS,
            field="axes",
            breaches=lambda suite: [(("axes",), str(matrix_size(suite)))],
        ),
        Rule(
            cel=f"self.exclude.all(e, {_NAMES_A_VALUE.format('e')}) && "
            f"self.include.all(i, !has(i.values) || {_NAMES_A_VALUE.format('i.values')}) && "
            f"(!has(self.anchor) || {_NAMES_A_VALUE.format('self.anchor')}) && "
            "(!has(self.baseline) || !has(self.baseline.axis) || !has(self.baseline.value) || "
            "self.axes.exists(a, a.name == self.baseline.axis && "
            "a.values.exists(v, v.name == self.baseline.value)))",
            message="name an axis and one of its values",
            holds=lambda suite: not any(_unknown_choices(suite)),
            breaches=_unknown_choices,
        ),
        Rule(
            cel="!has(self.gate) || has(self.baseline)",
            message="a gate needs a baseline: set baseline.axis and value, or baseline.suite",
            holds=lambda suite: suite.gate is None or suite.baseline is not None,
            field="gate",
        ),
        *map(_fixed, _FIXED),
        Rule(
            cel="has(self.schedule) == has(oldSelf.schedule)",
            message="a schedule can be changed, and not added or removed: create a new "
            "BenchmarkSuite",
            holds=None,
            field="schedule",
        ),
        Rule(
            cel="!oldSelf.cancel || self.cancel",
            message="cancel cannot be taken back",
            holds=None,
            field="cancel",
        ),
    )


class BenchmarkSuite(Document):
    """A matrix of measurements: models, stacks and nodes, once or on a schedule, with a gate."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["BenchmarkSuite"]
    """Always BenchmarkSuite."""

    metadata: ObjectMeta
    """Standard object metadata: name, labels, annotations."""

    spec: SuiteSpec
    """What to measure: a run for each cell of a matrix."""

    status: SuiteStatus | None = None
    """The state of the suite. Written by the operator."""

    @property
    def name(self) -> str:
        """The suite's name to show; the prefix of generateName if it has none yet."""
        return self.metadata.name or (self.metadata.generate_name or "").rstrip("-")
