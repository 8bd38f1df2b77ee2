"""A pod's request for a model, and the key of the copy that may serve it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from inferometer_api.plan.cluster_objects import CACHE_ATTRIBUTES
from inferometer_api.spec.address import STORE_VARIABLES
from inferometer_fetch.addresses import checked_address
from inferometer_fetch.object_store import ObjectStore, store_from
from inferometer_models.errors import ModelRefusedError

_POD_INFO = "csi.storage.k8s.io/"
_NAMESPACE = f"{_POD_INFO}pod.namespace"
_EPHEMERAL = f"{_POD_INFO}ephemeral"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_URI = 2048


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model that a pod's volume names."""

    uri: str
    sha256: str
    namespace: str
    """The namespace of the pod, as the kubelet reports it."""
    store: ObjectStore | None = field(default=None, repr=False)
    """The store of a private model, with the keys of this pod; None for a public model."""

    @property
    def key(self) -> str:
        """The name of the model's entry in the cache.

        A public model is what its checksum says, wherever it comes from. A private one is known by
        its namespace, store and address as well: knowledge of a checksum gives no access.
        """
        parts = ["public", self.sha256]
        if self.store is not None:
            parts = ["private", self.namespace, str(self.store), self.uri, self.sha256]
        return _name(parts)

    @property
    def source(self) -> str:
        """The name of the model's download: addresses of one public model do not share one.

        Otherwise an address that fails or stalls would keep the model from pods with another one.
        """
        return _name([self.key, self.uri])


def _name(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def model_request(attributes: Mapping[str, str], credentials: Mapping[str, str]) -> ModelRequest:
    """Return the request in the attributes and the Secret of a volume.

    Raises ModelRefusedError with what to correct.
    """
    own = {name: text for name, text in attributes.items() if not name.startswith(_POD_INFO)}
    namespace = attributes.get(_NAMESPACE, "")
    if not namespace or attributes.get(_EPHEMERAL) != "true":
        raise ModelRefusedError(
            "The model cache serves inline volumes of pods only: write the volume into the pod, "
            "and install the CSIDriver object of the chart."
        )
    unknown = sorted(set(own) - set(CACHE_ATTRIBUTES))
    if unknown:
        raise ModelRefusedError(
            f"Unknown volume attributes: {', '.join(unknown)}. "
            f"Known: {', '.join(CACHE_ATTRIBUTES)}."
        )
    uri, sha256 = own.get("uri", ""), own.get("sha256", "").lower()
    if not _SHA256.fullmatch(sha256):
        raise ModelRefusedError(
            "The volume attribute sha256 must be the checksum of the model: 64 hexadecimal digits."
        )
    if len(uri) > _LONGEST_URI or not uri.isprintable():
        raise ModelRefusedError("The volume attribute uri is too long or not printable.")
    return ModelRequest(uri, sha256, namespace, _store_of(uri, credentials))


def _store_of(uri: str, credentials: Mapping[str, str]) -> ObjectStore | None:
    """Return the store of an s3:// address, and None for https://; raise ModelRefusedError."""
    found = checked_address(uri)
    if found is not None and found.kind == "s3":
        environment = {
            variable: credentials[key]
            for key, variable in STORE_VARIABLES.items()
            if key in credentials
        }
        return store_from(f"model {uri}", environment, field="nodePublishSecretRef")
    if not uri.startswith("https://"):
        raise ModelRefusedError(
            f"The model cache cannot fetch {uri!r}: use https:// or s3://. Claims are mounted as "
            "volumes of their own, and built-in models are in the image."
        )
    return None
