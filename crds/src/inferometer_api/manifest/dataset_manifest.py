"""Manifest of a data set: dataset.yaml in its folder or archive."""

from typing import Annotated, Literal

from pydantic import Field

from inferometer_api.document import Document
from inferometer_api.manifest.input_steps import AssetPath
from inferometer_api.manifest.model_manifest import Version

DATASET_MANIFEST = "dataset.yaml"


class DatasetManifest(Document):
    """Describes a data set and names its list of samples."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["DatasetManifest"]
    """Always DatasetManifest."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the data set."""

    version: Version
    """Version of the data set: MAJOR.MINOR.PATCH."""

    license: Annotated[str, Field(min_length=1, max_length=253)]
    """Licence of the data: an SPDX expression or words."""

    description: Annotated[str, Field(max_length=65_536)] = ""
    """What it is, and where it comes from."""

    samples: AssetPath
    """CSV or JSONL file with one sample per row: id, label, and file, text or values."""

    classes: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of classes. A label outside them is refused."""
