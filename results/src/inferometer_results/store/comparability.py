"""The comparability key: the conditions under which two figures may be compared."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from inferometer_api.document import Document
from inferometer_api.results.result import Environment, ResultDocument, ServerInfo

MEASUREMENT_VERSION = 1
"""Raise it when the meaning of a figure changes, so that older figures are no longer compared.

tests/unit/results/test_store_comparability.py fails if the figures of kept results move without it.
"""

_THREADS = ("threads", "inter_op_threads", "instances", "providers")
_PRECISION = "precision"
_OF_NO_FIGURE = {"retention", "suspend", "cancel"}


def comparability_key(document: ResultDocument, scenario: str) -> dict[str, str]:
    """Return the conditions of one scenario of a result, by name; "" is an unknown one.

    Two figures may be compared if all of them are equal: model, engine, image, precision, threads,
    the scenario with its load, the version of the measurement, the class of the node, and how far
    the server is isolated.
    """
    found = document.environment
    key = {
        "measurement version": str(MEASUREMENT_VERSION),
        "scenario": _scenario(document, scenario),
        "load": _load(document),
        "runtime": document.run.spec.server.runtime,
        "device": document.run.spec.server.device,
    }
    if found is None:
        return key
    return key | _of_server(found.server) | _of_node(found) | _of_model(found)


def key_digest(key: Mapping[str, str]) -> str:
    """Return a short digest of a key: equal keys have equal digests."""
    text = json.dumps(dict(sorted(key.items())), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spec_digest(document: ResultDocument) -> str:
    """Return a short digest of the specification: runs with equal digests measure the same.

    Fields that change no figure, and those with their default, are left out.
    """
    text = _canonical(document.run.spec, leave_out=_OF_NO_FIGURE)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the conditions that differ, with both values."""
    names = [*first, *(name for name in second if name not in first)]
    return {
        name: (first.get(name, ""), second.get(name, ""))
        for name in names
        if first.get(name, "") != second.get(name, "")
    }


def differing_conditions(
    first: ResultDocument, second: ResultDocument, scenarios: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Return the conditions in which any of these scenarios of two results differs."""
    found: dict[str, tuple[str, str]] = {}
    for name in dict.fromkeys(scenarios):
        found |= differing(comparability_key(first, name), comparability_key(second, name))
    return found


def _scenario(document: ResultDocument, name: str) -> str:
    spec = next((each for each in document.run.spec.scenarios if each.name == name), None)
    return "" if spec is None else _canonical(spec, leave_out={"name"})


def _load(document: ResultDocument) -> str:
    """Return how requests are sent. The seed chooses them, and is no condition."""
    return _canonical(document.run.spec.load, leave_out={"seed"})


def _canonical(part: Document, *, leave_out: set[str]) -> str:
    fields = part.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=leave_out
    )
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _of_model(environment: Environment) -> dict[str, str]:
    model = environment.model
    return {"model": model.sha256 or f"{model.name} {model.version}".strip()}


def _of_server(server: ServerInfo) -> dict[str, str]:
    settings = server.settings
    return {
        "server": f"{server.name} {server.version}".strip(),
        "engine": f"{settings.get('runtime', '')} {settings.get('runtime_version', '')}".strip(),
        "precision": settings.get(_PRECISION, ""),
        "threads": ", ".join(f"{name} {settings[name]}" for name in _THREADS if name in settings),
    }


def _of_node(environment: Environment) -> dict[str, str]:
    node = environment.node
    gibibytes = round(node.memory_bytes / 2**30)
    kernel = ".".join(node.kernel.split(".")[:2])
    classes = {replica.quality_of_service for replica in environment.server.replicas}
    images = sorted(
        digest for name, digest in environment.images.items() if not name.endswith("-load")
    )
    return {
        "image": ", ".join(images),
        "node class": ", ".join(
            filter(
                None,
                (
                    node.cpu_model,
                    f"{node.cpu_count} CPUs",
                    f"{gibibytes} GiB",
                    node.architecture,
                    f"Linux {kernel}",
                    *sorted(set(node.gpus)),
                ),
            )
        ),
        "isolation": ", ".join(sorted(filter(None, classes))) or environment.place,
    }
