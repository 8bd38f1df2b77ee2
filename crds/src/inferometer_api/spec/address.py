"""Addresses of models and data: pvc://, configmap:// and s3://, split into their parts."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from inferometer_api import patterns

Kind = Literal["pvc", "configmap", "s3"]
"""Kinds of address that refer to an object of the cluster or of a store."""

CLAIMS, CONFIG_MAPS = "claims", "configmaps"
"""Folders of mounted sources in a pod: claims/CLAIM/PATH, configmaps/NAME/KEY."""
INPUTS_FILE = "inputs.npz"
"""Names of the fetched files in their folder."""


MANIFEST_FILE = "manifest.yaml"


def trace_file(scenario: str) -> str:
    """Return the name of the fetched file of a `trace` scenario."""
    return f"trace-{scenario}.csv"


def dataset_file(scenario: str) -> str:
    """Return the name of the fetched data set of an `accuracy` scenario."""
    return f"dataset-{scenario}"


STORE_VARIABLES = {
    "accessKeyId": "INFEROMETER_S3_ACCESS_KEY_ID",
    "secretAccessKey": "INFEROMETER_S3_SECRET_ACCESS_KEY",
    "sessionToken": "INFEROMETER_S3_SESSION_TOKEN",
    "endpoint": "INFEROMETER_S3_ENDPOINT",
    "region": "INFEROMETER_S3_REGION",
    "caCertificate": "INFEROMETER_S3_CA_CERTIFICATE",
}
"""Keys of the Secret for s3://, and the environment variables of the fetcher that hold them."""

_SHAPES: dict[str, str] = {
    "pvc": "pvc://CLAIM/PATH",
    "configmap": "configmap://NAME/KEY",
    "s3": "s3://BUCKET/KEY",
}
_BUCKET = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_CONFIG_MAP_KEY = r"^[-._a-zA-Z0-9]{1,253}$"


class AddressError(ValueError):
    """An address without valid parts; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address, without percent escapes."""

    kind: Kind
    place: str
    """The claim, the ConfigMap or the bucket."""
    path: str
    """Path in the claim, key of the ConfigMap or of the object; never outside the place."""

    @property
    def file(self) -> str | None:
        """Path in a pod below the folder of sources; None for s3://, which is fetched."""
        match self.kind:
            case "pvc":
                return f"{CLAIMS}/{self.place}/{self.path}"
            case "configmap":
                return f"{CONFIG_MAPS}/{self.place}/{self.path}"
            case "s3":
                return None


def address(uri: str) -> Address | None:
    """Return the parts of a pvc://, configmap:// or s3:// address; None for every other kind.

    Raises AddressError if a part is missing or not valid, or the path leaves the place.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in _SHAPES:
        return None
    place, _, escaped = rest.partition("/")
    path = unquote(escaped)
    _check_path(uri, scheme, path)
    match scheme:
        case "pvc":
            _check(uri, scheme, place, patterns.DNS_SUBDOMAIN, "no name of a claim")
            return Address("pvc", place, path)
        case "configmap":
            _check(uri, scheme, place, patterns.DNS_SUBDOMAIN, "no name of a ConfigMap")
            _check(uri, scheme, path, _CONFIG_MAP_KEY, "no key of a ConfigMap")
            return Address("configmap", place, path)
        case _:
            _check(uri, scheme, place, _BUCKET, "no name of a bucket")
            return Address("s3", place, path)


def _check(uri: str, scheme: str, text: str, pattern: str, fault: str) -> None:
    if len(text) > 253 or re.match(pattern, text) is None:
        raise AddressError(f"The address {uri} has {fault} in {text!r}: write {_SHAPES[scheme]}.")


def _check_path(uri: str, scheme: str, path: str) -> None:
    parts = path.split("/")
    if "" in parts or not path.isprintable():
        raise AddressError(
            f"The address {uri} names no file within its place: write {_SHAPES[scheme]}, "
            "without empty parts."
        )
    if "." in parts or ".." in parts:
        raise AddressError(
            f"The address {uri} has a part '.' or '..', with which it could leave its place: "
            f"write {_SHAPES[scheme]} without it."
        )
