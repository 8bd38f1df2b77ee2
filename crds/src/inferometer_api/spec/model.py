"""The model of a run."""

import re
from typing import Annotated, ClassVar
from urllib.parse import unquote

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import DnsSubdomain, Document, Sha256
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

    name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of the model in an External server. Only with runtime External."""

    version: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Version of the model to request from an External server. Absent: the server's default."""

    @property
    def served_name(self) -> str:
        """The name of the model in the server's URLs.

        The External server's own name for it, else the last part of the model's address without
        .onnx: "resnet50" for zoo://classification/resnet50.
        """
        if self.name is not None:
            return self.name
        address = (self.uri or "").partition(":")[2].partition("?")[0].partition("#")[0]
        last = unquote(address.rstrip("/").rpartition("/")[2]).removesuffix(".onnx")
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-.") or "model"

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
