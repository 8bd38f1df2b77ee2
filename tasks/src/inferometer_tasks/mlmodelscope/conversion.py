"""Conversion of MLModelScope's model manifests. Pure.

Every field either maps, or is named as not mapped with the reason.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml
from typing_extensions import override

from inferometer_api.manifest.version_constraint import ConstraintError, check_constraint
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.mlmodelscope.fields import (
    Fields,
    Notes,
    UnmappedError,
    flag,
    sha256,
    text,
    texts,
)
from inferometer_tasks.mlmodelscope.inputs import convert_inputs
from inferometer_tasks.mlmodelscope.outputs import LABELS, convert_outputs, take_labels, task

_LICENSES = {"Apache License, Version 2.0": "Apache-2.0", "MIT License": "MIT"}
_CONTAINER = "images are chosen by server.runtime and the chart's values"
_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?")


@dataclass(frozen=True, slots=True)
class Converted:
    """A manifest in our form, and what of the source is not in it."""

    manifest: dict[str, Any]
    mapped: tuple[str, ...]
    """Paths of fields that are in the manifest."""
    not_mapped: dict[str, str]
    """Why a field is not: a sentence without its period, by path."""
    checks: tuple[str, ...]
    """What a person must complete in the manifest: sentences without their period."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that leaves 1.10 and dates as text, as versions need, and takes no two values."""

    @override
    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Return a mapping; raises ComposerError if a key has two values.

        A published manifest has a key twice with one value, which is as good as once.
        """
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            same = value.value if isinstance(value, yaml.ScalarNode) else value
            if found.setdefault(key.value, same) != same:
                raise yaml.composer.ComposerError(
                    None, None, f"the key {key.value!r} has two values", key.start_mark
                )
        return node


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0].rpartition(":")[2] not in {"float", "timestamp"}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_source(content: str) -> Any:
    """Return the data of a manifest in YAML; raises TaskRefusedError if it cannot be read."""
    try:
        return yaml.load(content, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        raise TaskRefusedError(f"It is not YAML: {error}.") from error
    except RecursionError as error:
        raise TaskRefusedError("Its lists and mappings are nested too deeply.") from error


def convert(source: Any) -> Converted:
    """Return the manifest for one of MLModelScope's; raises TaskRefusedError if it is none."""
    if not isinstance(source, dict) or not {"name", "framework"} <= source.keys():
        raise TaskRefusedError(
            "The file is no manifest of MLModelScope: it must have name and framework."
        )
    notes = Notes()
    top = Fields(notes, source)
    name = _required(top, "name")
    framework = _framework(top)
    python = _python(top)
    labels: dict[str, str] = {}
    files = _model_files(top, labels)
    outputs = convert_outputs(top, labels, has_python="postprocess" in python)
    if labels:
        files.append({"path": LABELS, **labels})
    manifest: dict[str, Any] = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "ModelManifest",
        "name": name,
        "version": top.take("version", _semver) or "0.0.0",
        "description": top.take("description", text),
        "license": top.take("license", _license) or "not stated",
        "references": top.take("references", texts),
        "task": task(top, outputs),
        "framework": framework,
        "inputs": convert_inputs(top, has_python="preprocess" in python),
        "outputs": outputs.found,
        **python,
        "assets": files,
        "attributes": _attributes(top),
    }
    _containers(top)
    if top.take("hidden", flag):
        top.unmap("hidden", "a run names its manifest: no list of manifests would show it")
    top.finish()
    kept = {key: value for key, value in manifest.items() if value not in ("", [], {}, None)}
    return Converted(kept, tuple(notes.mapped), notes.not_mapped, tuple(notes.checks))


def _required(fields: Fields, name: str) -> str:
    found = fields.take(name, text)
    if not found:
        raise TaskRefusedError(f"{fields.path}{name} must be a text.")
    return found


def _semver(value: Any) -> str:
    found = _VERSION.fullmatch(text(value))
    if found is None:
        raise UnmappedError("it is no version of the form MAJOR.MINOR.PATCH")
    return ".".join(str(int(each or 0)) for each in found.groups()[:3]) + (found[4] or "")


def _license(value: Any) -> str:
    found = text(value)
    return _LICENSES.get(found, found)


def _framework(top: Fields) -> dict[str, str]:
    if isinstance(top.read("framework"), str):
        return {"name": _required(top, "framework")}
    fields = top.child("framework")
    found = {"name": _required(fields, "name")}
    version = fields.take("version", _constraint)
    if version:
        found["version"] = version
    if "container" in fields:
        fields.note("container", _CONTAINER)
    fields.finish()
    return found


def _constraint(value: Any) -> str:
    found = text(value)
    try:
        check_constraint(found)
    except ConstraintError as error:
        raise UnmappedError("it is no version constraint that can be read here") from error
    return found


def _containers(top: Fields) -> None:
    """Name the images of each architecture; a run's runtime chooses its image."""
    container = top.read("container")
    if not isinstance(container, dict):
        if container is not None:
            top.note("container", _CONTAINER)
        return
    for architecture, images in container.items():
        for device in images if isinstance(images, dict) else ():
            top.note(f"container.{architecture}.{device}", _CONTAINER)
        if not isinstance(images, dict):
            top.note(f"container.{architecture}", _CONTAINER)


def _attributes(top: Fields) -> dict[str, str]:
    """Return the attributes; the members of a mapping have their path as names."""
    found: dict[str, str] = {}
    attributes = top.child("attributes")
    for name in attributes.names:
        is_mapping = isinstance(attributes.read(name), dict)
        fields = attributes.child(name) if is_mapping else attributes
        for each in fields.names if is_mapping else [name]:
            value = fields.take(each, _attribute)
            if value:
                found[f"{name}.{each}" if is_mapping else name] = value
    return found


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(texts(value))


def _python(top: Fields) -> dict[str, str]:
    """Return Python of its own; the parts before and after it have no place."""
    found = {}
    for name in ("preprocess", "postprocess"):
        code = top.take(name, _code)
        if code:
            found[name] = code
            top.notes.checks.append(
                f"{name} is kept as it is: adapt it to what a function of this name takes and "
                "returns here, see docs/how-to/accuracy.md"
            )
        for when in (f"before_{name}", f"after_{name}"):
            if top.read(when):
                top.note(when, f"join it with {name}, which is one function here")
    return found


def _code(value: Any) -> str:
    if not isinstance(value, str):
        raise UnmappedError("it must be a text with Python")
    return value if value.strip() else ""


def _model_files(top: Fields, labels: dict[str, str]) -> list[dict[str, str]]:
    """Return the graph and its weights as assets, and read the address of the labels."""
    fields = top.child("model")
    base = fields.take("base_url", text) or ""
    found: list[dict[str, str]] = []
    for kind in ("graph", "weights"):
        names = (f"{kind}_checksum", "checksum") if kind == "graph" else (f"{kind}_checksum",)
        checksum = fields.take_first(names, sha256)
        path = fields.take(f"{kind}_path", text)
        if path:
            asset = {"path": _unused_path(path, kind, found), "source": _address(base, path)}
            found.append({**asset, "sha256": checksum} if checksum else asset)
        else:
            for name in names:
                fields.unmap(name, f"there is no {kind}_path that it belongs to")
    take_labels(fields, "features_path", labels)
    if not found:
        fields.unmap("base_url", "there is no graph_path or weights_path that it begins")
    if fields.take("is_archive", flag):
        fields.unmap("is_archive", "unpack the archive: an asset is one file")
    fields.finish()
    return found


def _unused_path(path: str, kind: str, assets: list[dict[str, str]]) -> str:
    """Return the name of a file, in a folder if another asset or the labels have that name."""
    name = urlsplit(path).path.rpartition("/")[2] or kind
    return f"{kind}/{name}" if name in {LABELS, *(each["path"] for each in assets)} else name


def _address(base: str, path: str) -> str:
    if not base or "://" in path:
        return path
    return f"{base.removesuffix('/')}/{path.removeprefix('/')}"
