"""The plan of a suite: its cells, and its runs in their order.

A pure function of the suite and of the systems, which the operator and the command line share: the
same suite gives the same names in the same order.
"""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.document import API_VERSION
from inferometer_api.plan.availability import unavailable
from inferometer_api.rules import format_path
from inferometer_api.runtimes.descriptor import Place
from inferometer_api.spec.digest import spec_digest
from inferometer_api.spec.overrides import OverrideError, with_override
from inferometer_api.spec.problems import Problem, describe_errors
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.suite.labels import (
    AXIS_LABEL_PREFIX,
    BLOCK_LABEL,
    CELL_LABEL,
    EXECUTION_LABEL,
    ROLE_LABEL,
    SPEC_LABEL,
    SUITE_LABEL,
    SYSTEM_LABEL,
    digest,
    label_value,
)
from inferometer_api.suite.spec import MOST_RUNS, BenchmarkSuite, ambiguous_names
from inferometer_api.suite.status import MOST_PLANNED

MOST_SYSTEMS = 100
_LONGEST_NAME = 45
"""Names of a run's children that are not shortened (plan/cluster_objects.py)."""
_MOST_PROBLEMS = 10
Role = Literal["cell", "opening", "closing"]


class InvalidSuiteError(ValueError):
    """A suite cannot be planned; `problems` has a sentence for each reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class System:
    """A place on which every cell is measured: a node, or all nodes with a label's value."""

    name: str
    """The node's name or the label's value; empty: anywhere."""
    node_class: str = ""
    """Systems of one class are alike; empty: the nodes decide."""
    node_selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    takes_turns: bool = False
    """Whether it is one node, on which one run is measured at a time."""
    pinned_node: str = ""
    """The node that stands for a label's value; empty: any node with the value, or named so."""


ANYWHERE = System("")


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of values."""

    values: tuple[tuple[str, str], ...]
    """Names of axes and values."""
    included: str = ""
    """Its name, if it is not one of the axes'."""

    @property
    def label(self) -> str:
        """Return it as people read it: "resnet50, grpc"."""
        names = [value for _, value in self.values]
        return ", ".join([*([self.included] if self.included else []), *names]) or "the template"

    @property
    def key(self) -> str:
        """Return a short digest, which only its values determine."""
        return digest(json.dumps([self.included, *self.values]))

    def has(self, choice: Mapping[str, str]) -> bool:
        """Return whether it has all of these values."""
        return choice.items() <= dict(self.values).items()


@dataclass(frozen=True, slots=True)
class Block:
    """The cells of one repeat on one system, which the anchor opens and closes."""

    repeat: int
    system: System

    @property
    def name(self) -> str:
        """Return its name: "2", or "2 on node-a"."""
        return f"{self.repeat} on {self.system.name}" if self.system.name else str(self.repeat)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a suite."""

    name: str
    cell: Cell
    block: Block
    role: Role
    data: Mapping[str, Any]
    """The run's manifest: without status."""

    @property
    def label(self) -> str:
        """Return its cell and system as people read them."""
        system = self.block.system.name
        return f"{self.cell.label} on {system}" if system else self.cell.label

    @property
    def run(self) -> BenchmarkRun:
        """Return the run that the manifest describes."""
        return BenchmarkRun.model_validate(self.data, by_alias=True, by_name=False)


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """The runs of a suite in their order."""

    runs: tuple[PlannedRun, ...]
    cells: tuple[Cell, ...]
    anchor: Cell | None
    sha256: str
    """The checksum of names and specs."""


def plan_suite(
    suite: BenchmarkSuite,
    systems: Sequence[System] = (ANYWHERE,),
    *,
    place: Place = "Cluster",
    execution: str = "",
) -> SuitePlan:
    """Return the runs of a suite on these systems, each checked as a BenchmarkRun of its own.

    `execution` names this execution in the labels; it is the suite's name if empty. Raises
    InvalidSuiteError with every cell that would be no valid run, before anything starts.
    """
    if ambiguous := tuple(ambiguous_names(suite.spec)):
        raise InvalidSuiteError(ambiguous)
    cells = tuple(_cells(suite))
    _check_size(suite, cells, systems)
    specs = _checked_specs(suite, cells, place)
    anchor = _anchor(suite, cells)
    of_cell = {EXECUTION_LABEL: label_value(execution or suite.name)}
    of_anchor = dict(of_cell)
    if anchor is not None:
        of_anchor[SPEC_LABEL] = spec_digest(RunSpec.read(specs[anchor.key]))
    _check_baseline(suite, cells)
    blocks = itertools.product(range(1, suite.spec.repeats + 1), systems)
    runs = tuple(
        _planned(
            suite, cell, block, role, specs[cell.key], of_cell if role == "cell" else of_anchor
        )
        for block in itertools.starmap(Block, blocks)
        for role, cell in _order(suite, cells, anchor, block)
    )
    text = json.dumps([[run.name, run.data["spec"]] for run in runs], sort_keys=True)
    return SuitePlan(runs, cells, anchor, hashlib.sha256(text.encode()).hexdigest())


def _cells(suite: BenchmarkSuite) -> Iterator[Cell]:
    spec = suite.spec
    if spec.axes or not spec.include:
        axes = [[(axis.name, value.name) for value in axis.values] for axis in spec.axes]
        for values in itertools.product(*axes):
            cell = Cell(values)
            if not any(cell.has(choice) for choice in spec.exclude):
                yield cell
    for included in spec.include:
        # In the order of the axes, whatever the order in the file.
        known = [axis.name for axis in spec.axes if axis.name in included.values]
        yield Cell(tuple((axis, included.values[axis]) for axis in known), included.name)


def _check_size(suite: BenchmarkSuite, cells: Sequence[Cell], systems: Sequence[System]) -> None:
    blocks = len(systems) * suite.spec.repeats
    count = len(cells) * blocks
    problem = ""
    if not cells:
        problem = "spec.exclude: every cell is excluded, so nothing is left to run."
    elif not systems:
        problem = "spec.systems: no node can take the runs: none matches, or all are left out."
    elif len(systems) > MOST_SYSTEMS:
        problem = (
            f"spec.systems: {len(systems)} systems match, and a suite has at most {MOST_SYSTEMS}. "
            "Select fewer, or use each: Label."
        )
    elif count > MOST_RUNS or count + 2 * blocks > MOST_PLANNED:
        problem = (
            f"spec: {len(cells)} cells on {len(systems)} systems, {suite.spec.repeats} times, are "
            f"{count} runs; a suite has at most {MOST_RUNS}. Use fewer values, systems or repeats, "
            "or several suites."
        )
    if problem:
        raise InvalidSuiteError((problem,))


def _checked_specs(
    suite: BenchmarkSuite, cells: Sequence[Cell], place: Place
) -> dict[str, dict[str, Any]]:
    """Return the spec of each cell by its key, or raise with the problems of all."""
    specs: dict[str, dict[str, Any]] = {}
    problems: dict[str, list[str]] = {}
    for cell in cells:
        data: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "BenchmarkRun",
            "metadata": {"name": "cell"},
            "spec": suite.spec.template.spec.model_dump(
                mode="json", by_alias=True, exclude_unset=True, exclude_none=True
            ),
        }
        found = [*_set(suite, cell, data)] or [*_problems(data, place)]
        for problem in found:
            problems.setdefault(problem, []).append(cell.label)
        specs[cell.key] = data["spec"]
    if problems:
        raise InvalidSuiteError([*_worded(problems)])
    return specs


def _worded(problems: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each problem once, with the first of its cells."""
    for problem, labels in itertools.islice(problems.items(), _MOST_PROBLEMS):
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield f"cell {labels[0]}{others}: {problem}"
    if len(problems) > _MOST_PROBLEMS:
        yield f"{len(problems) - _MOST_PROBLEMS} more problems."


def _set(suite: BenchmarkSuite, cell: Cell, data: Any) -> Iterator[str]:
    """Set in place what a cell sets; yield what cannot be set."""
    chosen = dict(cell.values)
    groups = [
        value.settings
        for axis in suite.spec.axes
        for value in axis.values
        if chosen.get(axis.name) == value.name
    ]
    groups += [each.settings for each in suite.spec.include if each.name == cell.included]
    for settings in copy.deepcopy(groups):
        for path, value in settings.items():
            try:
                with_override(data, path, value)
            except OverrideError as error:
                yield f"{path} cannot be set: {error}."


def _problems(data: Any, place: Place) -> Iterator[str]:
    try:
        run = BenchmarkRun.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        for where, message in dict.fromkeys(describe_errors(error, data)):
            yield str(Problem(format_path(where), message))
    else:
        if run.spec.suspend or run.spec.cancel:
            yield "spec.suspend, spec.cancel: set those of the suite, not of its runs."
        yield from map(str, unavailable(run, place=place))


def _anchor(suite: BenchmarkSuite, cells: Sequence[Cell]) -> Cell | None:
    if suite.spec.anchor is None and suite.spec.gate is None:
        return None
    choice = suite.spec.anchor or {}
    found = next((cell for cell in cells if cell.has(choice)), None)
    if found is None:
        raise InvalidSuiteError(("spec.anchor: its cell is excluded; name one that is measured.",))
    return found


def _check_baseline(suite: BenchmarkSuite, cells: Sequence[Cell]) -> None:
    baseline = suite.spec.baseline
    if baseline is not None and baseline.axis and baseline.value:
        sides = {cell.has({baseline.axis: baseline.value}) for cell in cells if not cell.included}
        if sides != {True, False}:
            raise InvalidSuiteError(("spec.baseline: measure cells with and without its value.",))


def _order(
    suite: BenchmarkSuite, cells: Sequence[Cell], anchor: Cell | None, block: Block
) -> Iterator[tuple[Role, Cell]]:
    """Yield the cells of a block in random order, between the anchor's runs."""
    if anchor is not None:
        yield "opening", anchor
    text = f"{suite.spec.seed}/{block.repeat}/{block.system.name}"
    for cell in sorted(cells, key=lambda each: digest(f"{text}/{each.key}")):
        yield "cell", cell
    if anchor is not None:
        yield "closing", anchor


def _planned(
    suite: BenchmarkSuite,
    cell: Cell,
    block: Block,
    role: Role,
    spec: dict[str, Any],
    given: Mapping[str, str],
) -> PlannedRun:
    name = _run_name(suite.name, cell, block, role)
    template = suite.spec.template.metadata
    labels = {
        **template.labels,
        SUITE_LABEL: label_value(suite.metadata.labels.get(SUITE_LABEL) or suite.name),
        **given,
        CELL_LABEL: cell.key,
        BLOCK_LABEL: str(block.repeat),
        ROLE_LABEL: role,
        **({SYSTEM_LABEL: label_value(block.system.name)} if block.system.name else {}),
        **{f"{AXIS_LABEL_PREFIX}{axis}": value for axis, value in cell.values},
        **({f"{AXIS_LABEL_PREFIX}cell": cell.included} if cell.included else {}),
    }
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    data = {"apiVersion": API_VERSION, "kind": "BenchmarkRun", "metadata": metadata}
    return PlannedRun(name, cell, block, role, {**data, "spec": _placed(spec, block.system)})


def _placed(spec: dict[str, Any], system: System) -> dict[str, Any]:
    """Return a spec whose server goes to a system."""
    if not system.node_selector:
        return spec
    server = dict(spec.get("server") or {})
    placement = dict(server.get("placement") or {})
    selector = {**(placement.get("nodeSelector") or {}), **system.node_selector}
    return {**spec, "server": {**server, "placement": {**placement, "nodeSelector": selector}}}


def _run_name(suite: str, cell: Cell, block: Block, role: Role) -> str:
    """Return the name of a run: a readable start, a digest, and the repeat.

    The digest keeps cells apart whose names look alike once they are shortened.
    """
    key = digest(f"{suite}/{cell.key}/{block.system.name}")
    end = f"-{key}-{block.repeat}{'' if role == 'cell' else role[0]}"
    words = [suite.replace(".", "-"), *(value for _, value in cell.values), cell.included]
    start = "-".join(word for word in words if word)[: _LONGEST_NAME - len(end)].rstrip("-")
    return f"{start}{end}"
