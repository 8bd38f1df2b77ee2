"""The part of a suite that its cells are made of: template, axes, included cells and systems."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from inferometer_api import patterns
from inferometer_api.document import DnsLabel, Document, Integral, MemoryQuantity, NullsAbsent
from inferometer_api.rules import Rule, Unique
from inferometer_api.spec.model import ModelSource
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.scenario import Scenario

MOST_AXES = 6
_MOST_SETTING = 2**31 - 1


def _setting_text(value: Any) -> Any:
    """Take a whole number as its digits: a setting is a text of a command line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Setting = Annotated[
    str,
    StringConstraints(max_length=4096, pattern=patterns.SETTING),
    BeforeValidator(_setting_text),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": -_MOST_SETTING,
            "maximum": _MOST_SETTING,
            "maxLength": 4096,
            "pattern": patterns.SETTING,
        }
    ),
]
_Path = Annotated[
    str, StringConstraints(min_length=5, max_length=253, pattern=patterns.SETTING_PATH)
]
_Settings = Annotated[dict[_Path, _Setting], NullsAbsent]
_LabelKey = Annotated[
    str, StringConstraints(min_length=1, max_length=317, pattern=patterns.QUALIFIED_NAME)
]
_LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=patterns.LABEL_VALUE)]
_Annotation = Annotated[str, StringConstraints(max_length=4096)]
Choice = Annotated[dict[DnsLabel, DnsLabel], Field(max_length=MOST_AXES), NullsAbsent]
"""A value of some axes: {model: resnet50, protocol: grpc}."""


class TemplateMeta(Document):
    """Labels and annotations of the runs."""

    labels: Annotated[dict[_LabelKey, _LabelValue], NullsAbsent] = Field(
        default_factory=dict, max_length=32
    )
    """Labels of each run: kueue.x-k8s.io/queue-name, for example."""

    annotations: Annotated[dict[_LabelKey, _Annotation], NullsAbsent] = Field(
        default_factory=dict, max_length=32
    )
    """Annotations of each run."""


class TemplateSpec(RunSpec):
    """The spec of a BenchmarkRun, in which the axes' values are set."""

    model: ModelSource | None = None  # type: ignore[assignment]  # an axis may set it
    """The model to measure. May be left to an axis."""

    scenarios: Annotated[list[Scenario], Field(max_length=32), Unique("name")] = Field(
        default_factory=list
    )
    """Load profiles, measured in order against the same server. May be left to an axis."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!self.suspend && !self.cancel",
            message="set suspend and cancel of the suite, not of its runs",
            holds=lambda spec: not (spec.suspend or spec.cancel),
        ),
    )


class RunTemplate(Document):
    """The run that each cell varies."""

    metadata: TemplateMeta = Field(default_factory=TemplateMeta)
    """Labels and annotations of the runs."""

    spec: TemplateSpec
    """The spec of a BenchmarkRun, in which the axes' values are set."""


class AxisValue(Document):
    """One value of an axis: the fields of the run that it sets."""

    name: DnsLabel
    """Name of the value, in names, labels and tables: resnet50."""

    settings: _Settings = Field(alias="set", default_factory=dict, max_length=32)
    """Fields and their values, as after --set: spec.load.protocol: GRPC. A text is read as YAML. \
Empty: the template as it is."""


class Axis(Document):
    """One dimension of the matrix."""

    name: DnsLabel
    """Name of the axis: model."""

    values: Annotated[list[AxisValue], Field(min_length=1, max_length=100), Unique("name")]
    """Values of the axis."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.name != 'cell'",
            message="an axis cannot have the name cell, which stands for the included cells",
            holds=lambda axis: axis.name != "cell",
        ),
    )


class IncludedCell(Document):
    """A cell in addition to those of the axes."""

    name: DnsLabel
    """Name of the cell."""

    values: Choice = Field(default_factory=dict)
    """The axes' values that it takes. The fields of other axes stay as in the template."""

    settings: _Settings = Field(alias="set", default_factory=dict, max_length=32)
    """Fields that it sets after those of its axes' values."""


class Requirements(Document):
    """What a node must have."""

    architecture: Literal["amd64", "arm64"] | None = None
    """Processor architecture of the node."""

    accelerator: _LabelKey | None = None
    """Resource that the node must offer: nvidia.com/gpu."""

    min_memory: MemoryQuantity | None = None
    """Least memory that the node can give to pods."""

    min_cpus: Annotated[int, Field(ge=1, le=4096), Integral] | None = None
    """Fewest CPUs that the node can give to pods."""


class Systems(Document):
    """The nodes on which every cell is measured. Local runs ignore it."""

    selector: Annotated[dict[_LabelKey, _LabelValue], NullsAbsent] = Field(
        default_factory=dict, max_length=16
    )
    """Labels that a node must have."""

    requirements: Requirements = Field(default_factory=Requirements)
    """What a node must have."""

    each: Literal["Node", "Label"] = "Node"
    """Node: every cell runs on every matching node. Label: once for each value of labelKey. With \
accelerator, minMemory or minCpus the first matching node with a value stands for it."""

    label_key: _LabelKey | None = None
    """Label whose distinct values are the systems: node.kubernetes.io/instance-type."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.labelKey) == (self.each == 'Label')",
            message="set labelKey with each: Label, and only then",
            holds=lambda systems: (systems.label_key is not None) == (systems.each == "Label"),
            field="labelKey",
        ),
    )
