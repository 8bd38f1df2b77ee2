"""The model of a run."""

import re
from typing import Annotated, ClassVar, Literal
from urllib.parse import unquote

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import DnsSubdomain, Document, Integral, Sha256
from inferometer_api.rules import Rule
from inferometer_api.spec.checksum import needs_checksum

ModelUri = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=2048,
        pattern=patterns.MODEL_URI,
    ),
]


Datatype = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BF16",
    "BYTES",
]
"""Datatypes of the Open Inference Protocol."""


class DeclaredTensor(Document):
    """An input or output of an External server's model."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the tensor."""

    datatype: Datatype
    """Datatype in the Open Inference Protocol: FP32, INT64, BYTES, ..."""

    shape: Annotated[
        list[Annotated[int, Field(ge=-1, le=2**31 - 1), Integral]], Field(max_length=16)
    ]
    """Shape, batch axis included; -1 is an open axis, and an open first axis is the batch axis."""


_DeclaredTensors = Annotated[list[DeclaredTensor], Field(min_length=1, max_length=64)]


class ManifestSource(Document):
    """Address of a model's manifest."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=patterns.DATA_URI)]
    """A ModelManifest in YAML: `file:PATH` in local runs, `configmap://NAME/KEY`, \
`pvc://CLAIM/PATH`, `https://...` or, with the keys of the model's store, `s3://BUCKET/KEY`. \
ConfigMaps and claims must carry the label inferometer.dev/allow-use=true. In a cluster its assets \
must have their text in the manifest."""

    sha256: Sha256 | None = None
    """SHA-256 of the manifest in 64 lower-case hexadecimal digits. Checked before use; required \
with https://."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        needs_checksum("a manifest", lambda manifest: (manifest.uri, manifest.sha256)),
    )


def name_of_address(uri: str) -> str:
    """Return the name of a model in its server's URLs: the last part of its address, sans .onnx."""
    address = uri.partition(":")[2].partition("?")[0].partition("#")[0]
    last = unquote(address.rstrip("/").rpartition("/")[2]).removesuffix(".onnx")
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-.") or "model"


class OtherModel(Document):
    """A further model of a launched server."""

    uri: ModelUri
    """Address of the ONNX file: `zoo://TASK/NAME` (built in), `https://...` (with sha256); in \
clusters `pvc://CLAIM/PATH` and `s3://BUCKET/KEY` (with spec.model.credentialsSecret); in local \
runs `file:PATH`, relative to the run file."""

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use; required with \
https://."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        needs_checksum("a model", lambda model: (model.uri, model.sha256)),
    )

    @property
    def served_name(self) -> str:
        """The name of the model in the server's URLs."""
        return name_of_address(self.uri)


class ModelSource(Document):
    """Address of the model or, with an External server, its name there."""

    uri: ModelUri | None = None
    """Address of the ONNX file: `zoo://TASK/NAME` (built in), `https://...` (with sha256), \
`pvc://CLAIM/PATH`, `s3://BUCKET/KEY`, and in local runs `file:PATH`, relative to the run file. \
Required unless the server is External."""

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use; required with \
https://."""

    credentials_secret: DnsSubdomain | None = None
    """Secret with the keys of an s3:// store: accessKeyId, secretAccessKey and, if needed, \
endpoint, region, sessionToken, caCertificate. It must carry the label \
inferometer.dev/allow-use=s3."""

    cache: Literal["Node"] | None = None
    """Node: server pods mount the model from the cache of their node, which downloads it once and \
keeps it for later pods. Requires https:// or s3:// with sha256, runtime OnnxRuntime, OpenVino or \
KServe, and the cache in the cluster (docs/how-to/scale-out.md). Absent: every pod fetches the \
model."""

    manifest: ManifestSource | None = None
    """What the model is, what it needs, and the steps around it. Absent: model.yaml next to \
a model from file:, if there is one."""

    pipeline: Literal["Client", "Server"] | None = None
    """Where the steps of the manifest run. Client: in the load generator, before and after the \
measured time, so that latencies are those of the model alone. Server: in the server, so that \
latencies cover each step, whose share is reported; for runtime OnnxRuntime, OpenVino and KServe, \
in runs whose scenarios send samples (accuracy, or sampledAccuracy). Absent: Client."""

    name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of the model in an External server. Only with runtime External."""

    version: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Version of the model to request from an External server. Absent: the server's default."""

    inputs: _DeclaredTensors | None = None
    """Inputs that are sent to an External server. For a model without metadata, and to leave out \
optional inputs. Absent: every input in the server's metadata."""

    outputs: _DeclaredTensors | None = None
    """Outputs that are requested from an External server and checked. Absent: every output in the \
server's metadata; without such metadata, whatever the server returns."""

    @property
    def runs_steps_in_server(self) -> bool:
        """Whether the server runs the steps of the manifest."""
        return self.pipeline == "Server"

    @property
    def served_name(self) -> str:
        """The name of the model in the server's URLs.

        The External server's own name for it, else the last part of the model's address without
        .onnx: "resnet50" for zoo://classification/resnet50.
        """
        if self.name is not None:
            return self.name
        return name_of_address(self.uri or "")

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.uri) != has(self.name)",
            message="set uri (a model to serve) or name (with an External server), not both",
            holds=lambda model: (model.uri is not None) != (model.name is not None),
        ),
        Rule(
            cel="!has(self.version) || has(self.name)",
            message="version is only for the name of an External server's model",
            holds=lambda model: model.version is None or model.name is not None,
            field="version",
        ),
        Rule(
            cel="!has(self.inputs) || has(self.name)",
            message="inputs are only for the name of an External server's model",
            holds=lambda model: model.inputs is None or model.name is not None,
            field="inputs",
        ),
        Rule(
            cel="!has(self.outputs) || has(self.name)",
            message="outputs are only for the name of an External server's model",
            holds=lambda model: model.outputs is None or model.name is not None,
            field="outputs",
        ),
        Rule(
            cel="!has(self.cache) || has(self.uri) && has(self.sha256) && "
            "(self.uri.startsWith('https://') || self.uri.startsWith('s3://'))",
            message="cache needs a model from https:// or s3:// with its sha256",
            holds=lambda model: (
                model.cache is None
                or (
                    model.sha256 is not None and (model.uri or "").startswith(("https://", "s3://"))
                )
            ),
            field="cache",
        ),
        Rule(
            cel="!has(self.pipeline) || self.pipeline != 'Server' || has(self.manifest) || "
            "has(self.uri) && self.uri.startsWith('file:')",
            message="pipeline Server needs the manifest whose steps the server runs: set manifest, "
            "or put model.yaml next to a model from file:",
            holds=lambda model: (
                not model.runs_steps_in_server
                or model.manifest is not None
                or (model.uri or "").startswith("file:")
            ),
            field="pipeline",
        ),
        needs_checksum("a model", lambda model: (model.uri, model.sha256)),
        Rule(
            cel="!has(self.sha256) || has(self.uri)",
            message="sha256 is the checksum of uri, which is absent",
            holds=lambda model: model.sha256 is None or model.uri is not None,
            field="sha256",
        ),
        Rule(
            cel="!has(self.credentialsSecret) || has(self.uri) && self.uri.startsWith('s3://')",
            message="credentialsSecret is only for s3://",
            holds=lambda model: (
                model.credentials_secret is None or (model.uri or "").startswith("s3://")
            ),
            field="credentialsSecret",
        ),
    )
