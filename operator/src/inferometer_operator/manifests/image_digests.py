"""The digests of the images that a node would run, as its status names them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LIBRARY = "docker.io/library/"


def image_digest_on(nodes: Iterable[Mapping[str, Any]], reference: str, *, is_pulled: bool) -> str:
    """Return the digest of an image, empty if these nodes do not show it, or show several.

    `is_pulled` says that every pod pulls the image anew: only a reference by digest is one image
    then.
    """
    name = _normalized(reference)
    if "@" in name:
        return name.rpartition("@")[2]
    if is_pulled:
        return ""
    found = {
        digest
        for node in nodes
        for names in _image_names(node)
        if name in map(_normalized, names)
        for digest in _digests_of(names, name)
    }
    return found.pop() if len(found) == 1 else ""


def _image_names(node: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    images = (node.get("status") or {}).get("images") or ()
    return [each.get("names") or () for each in images]


def _digests_of(names: Sequence[str], name: str) -> Iterable[str]:
    """Yield the digests of an image in the repository that a reference names."""
    repository = _repository(name)
    for each in names:
        at, _, digest = each.partition("@")
        if digest and _normalized(at).rpartition(":")[0] == repository:
            yield digest


def _repository(name: str) -> str:
    return name.rpartition(":")[0]


def _normalized(reference: str) -> str:
    """Return a reference with its registry, and its tag unless it has a digest."""
    host, slash, _ = reference.partition("/")
    if not slash:
        reference = f"{_LIBRARY}{reference}"
    elif "." not in host and ":" not in host and host != "localhost":
        reference = f"docker.io/{reference}"
    last = reference.rpartition("/")[2]
    return reference if ":" in last or "@" in last else f"{reference}:latest"
