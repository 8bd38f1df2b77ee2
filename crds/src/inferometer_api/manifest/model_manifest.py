"""Manifest of a model: what it is, what it needs, and the steps around it."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import (
    CpuQuantity,
    Document,
    MemoryQuantity,
    NullsAbsent,
    Sha256,
)
from inferometer_api.manifest.input_steps import AssetPath, InputStep
from inferometer_api.manifest.output_steps import OutputStep
from inferometer_api.manifest.version_constraint import ConstraintError, check_constraint
from inferometer_api.rules import Fault, FaultsError, Rule, Unique
from inferometer_api.spec.model import Datatype

ANY_VERSION = "*"
Version = Annotated[str, StringConstraints(pattern=patterns.SEMVER, max_length=64)]
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Text = Annotated[str, Field(max_length=65_536)]
_Architecture = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=patterns.LABEL_VALUE)
]
Modality = Literal["Image", "Text", "File", "Values"]
TASKS = (
    "ImageClassification",
    "ObjectDetection",
    "SemanticSegmentation",
    "InstanceSegmentation",
    "ImageEnhancement",
    "TextRecognition",
    "TextClassification",
    "QuestionAnswering",
    "FileTypeDetection",
    "Regression",
    "Other",
)


def _constraint(text: str) -> str:
    """Return a version constraint that can be read."""
    try:
        check_constraint(text)
    except ConstraintError as error:
        raise FaultsError((Fault((), error.reason),)) from error
    return text


class Framework(Document):
    """An engine that the model takes."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """onnxruntime or openvino; a manifest of another engine can be kept, but not run here."""

    version: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_constraint)] = (
        ANY_VERSION
    )
    """Versions that will do: ">=1.20 <2", "^1.20", "~1.20.1", "1.20.x", "<1.18 || >=1.20"."""


def _listed(value: Any) -> Any:
    """Return a single engine as a list with it."""
    return [value] if isinstance(value, dict) else value


class ManifestInput(Document):
    """An input of the model, and how a sample becomes it."""

    name: _Name
    """Name of the tensor."""

    modality: Modality = "Values"
    """What a sample is: the bytes of an image, a text, the bytes of any file, or numbers."""

    datatype: Datatype | None = None
    """Datatype that the model expects. Absent: the model's own."""

    description: _Text = ""
    """What it is."""

    steps: Annotated[list[InputStep], Field(max_length=32)] = Field(default_factory=list)
    """Steps in their order."""


class ManifestOutput(Document):
    """An output of the model, and how it becomes a prediction."""

    name: _Name
    """Name of the tensor."""

    description: _Text = ""
    """What it is."""

    steps: Annotated[list[OutputStep], Field(max_length=8)] = Field(default_factory=list)
    """Steps in their order. The one output that has steps makes the prediction; without \
any, the first output is the prediction."""


class Asset(Document):
    """A file that the model or its steps need."""

    path: AssetPath
    """Path relative to the manifest."""

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use."""

    text: Annotated[str, Field(max_length=1_048_576)] | None = None
    """Content of the file, if it is part of the manifest."""

    source: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Where the file comes from. Nothing is downloaded from there."""


class SystemRequirements(Document):
    """What a machine must have."""

    device: Literal["CPU", "GPU"] | None = None
    """Absent: either."""

    architectures: Annotated[list[_Architecture], Field(max_length=8)] = Field(default_factory=list)
    """Names of CPU architectures, as `uname -m` prints them: x86_64. Empty: any."""

    cpus: CpuQuantity | None = None
    """Fewest CPUs."""

    memory: MemoryQuantity | None = None
    """Least memory of the machine."""


class ManifestDataset(Document):
    """The data set that the model is evaluated on."""

    uri: Annotated[str, Field(min_length=1, max_length=2048)]
    """Address, as in the scenario accuracy; `file:PATH` starts in the manifest's folder."""

    sha256: Sha256 | None = None
    """Checksum of the file."""


class ExpectedOutput(Document):
    """The known prediction of one sample."""

    sample: _Name
    """ID of the sample in the data set."""

    prediction: Annotated[str, Field(max_length=4096)]
    """The best class (its label, else its number) or the text."""


class ModelManifest(Document):
    """Describes a model so that another person obtains the same predictions from it."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["ModelManifest"]
    """Always ModelManifest."""

    name: _Name
    """Name of the model."""

    version: Version
    """Version of the model: MAJOR.MINOR.PATCH."""

    description: _Text = ""
    """What it is."""

    license: Annotated[str, Field(min_length=1, max_length=253)]
    """Licence of the model: an SPDX expression or words."""

    references: Annotated[list[str], Field(max_length=64)] = Field(default_factory=list)
    """Pages and papers."""

    task: Annotated[str, Field(min_length=1, max_length=63)] = "Other"
    """What it does: ImageClassification, ObjectDetection, TextRecognition, ..."""

    frameworks: Annotated[
        list[Framework],
        Field(alias="framework", min_length=1, max_length=8),
        Unique("name", ignores_case=True),
        BeforeValidator(_listed),
    ]
    """The engine that it needs, or a list of engines of which one is enough."""

    inputs: Annotated[list[ManifestInput], Field(min_length=1, max_length=64), Unique("name")]
    """Its inputs."""

    outputs: Annotated[list[ManifestOutput], Field(min_length=1, max_length=64), Unique("name")]
    """Its outputs."""

    preprocess: _Text | None = None
    """Python instead of the inputs' steps: `def preprocess(context, sample)` returns the inputs \
by name. Local runs with --allow-python-steps only."""

    postprocess: _Text | None = None
    """Python instead of the outputs' steps: `def postprocess(context, outputs)` returns the best \
class, or a text. Local runs with --allow-python-steps only."""

    assets: Annotated[list[Asset], Field(max_length=64), Unique("path")] = Field(
        default_factory=list
    )
    """Files that the model and the steps need."""

    attributes: Annotated[dict[str, str], NullsAbsent] = Field(default_factory=dict, max_length=64)
    """Free facts: the training data, the published accuracy, the author."""

    system_requirements: SystemRequirements = Field(default_factory=SystemRequirements)
    """What a machine must have."""

    dataset: ManifestDataset | None = None
    """The data set that it is evaluated on. Scenarios name theirs themselves; `inferometer \
validate` checks a local one."""

    expected_outputs: Annotated[list[ExpectedOutput], Field(max_length=1000)] = Field(
        default_factory=list
    )
    """Known predictions, which the scenario accuracy compares."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.preprocess) || self.inputs.all(i, !has(i.steps))",
            message="preprocess takes the place of the inputs' steps: remove one of the two",
            holds=lambda manifest: (
                manifest.preprocess is None or not any(each.steps for each in manifest.inputs)
            ),
            field="preprocess",
        ),
        Rule(
            cel="!has(self.postprocess) || self.outputs.all(o, !has(o.steps))",
            message="postprocess takes the place of the outputs' steps: remove one of the two",
            holds=lambda manifest: (
                manifest.postprocess is None or not any(each.steps for each in manifest.outputs)
            ),
            field="postprocess",
        ),
    )

    @property
    def has_python(self) -> bool:
        """Whether it has Python of its own."""
        return self.preprocess is not None or self.postprocess is not None
