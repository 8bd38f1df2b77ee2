"""The comparability key: the conditions under which two figures may be compared."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL
from inferometer_api.results.result import (
    Environment,
    ResultDocument,
    ServerInfo,
    other_model_checksums,
)
from inferometer_api.spec.digest import canonical_json
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.server import External, Server
from inferometer_results.store.server_machine import server_machine

MEASUREMENT_VERSION = 1
"""Raise it when the meaning of a figure changes, so that older figures are no longer compared.

tests/unit/results/test_measurement_version.py fails if the figures of recorded series move without
it.
"""

_THREADS = ("threads", "inter_op_threads", "instances", "providers")
_BATCHING = ("max_batch_size", "max_delay_microseconds")
_LEFT_OUT = {
    "engine options": "defaults",
    "pipeline": "Client",
    "back end": "OnnxRuntime",
    "other models": "none",
    "model data": "none",
}
"""What conditions are that a key leaves out: most runs have the default.

Older keys, which do not know a condition, so equal those of runs with its default.
"""


def comparability_key(document: ResultDocument, scenario: str) -> dict[str, str]:
    """Return the conditions of one scenario of a result, by name; "" is an unknown one.

    Two figures may be compared if all of them are equal: model with its data, pipeline and
    manifest, the other models of the server, its address if it is External, engine, image,
    precision, threads, batching, replicas, resources, the scenario with its load and warm-up, the
    version of the measurement, the class of the node, and how far the server is isolated.
    """
    return comparability_keys(document, [scenario])[scenario]


def comparability_keys(
    document: ResultDocument, scenarios: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Return the key of each of these scenarios of a result, by name."""
    version, shared = str(MEASUREMENT_VERSION), _of_document(document)
    return {
        name: {"measurement version": version, "scenario": _scenario(document, name)}
        | shared
        | _of_manifest(document, name)
        for name in dict.fromkeys(scenarios)
    }


def _of_document(document: ResultDocument) -> dict[str, str]:
    """Return the conditions that all scenarios of a result have in common."""
    found, spec = document.environment, document.run.spec
    key = {
        "load": _load(document),
        "warm-up": f"{spec.validity.warm_up} {spec.validity.warm_up_seconds} s",
        "runtime": spec.server.runtime,
        "device": spec.server.device,
    }
    key |= dict(_choices(document))
    if found is None:
        return key
    return (
        key
        | _of_server(found.server, spec.server)
        | _of_resources(found, spec.server)
        | _of_node(document, found)
        | _of_model(found)
    )


def key_digest(key: Mapping[str, str]) -> str:
    """Return a short digest of a key: equal keys have equal digests."""
    text = json.dumps(dict(sorted(key.items())), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the conditions that differ, with both values."""
    names = [*first, *(name for name in second if name not in first)]
    return {
        name: (condition_of(first, name), condition_of(second, name))
        for name in names
        if first.get(name, "") != second.get(name, "")
    }


def condition_of(key: Mapping[str, str], name: str) -> str:
    """Return a condition of a key, "" if it is unknown; one that is left out has its default."""
    return key.get(name, _LEFT_OUT.get(name, ""))


def differing_conditions(
    first: ResultDocument, second: ResultDocument, scenarios: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Return the conditions in which any of these scenarios of two results differs.

    Without a scenario, because the results have none in common: their scenarios, and what all
    scenarios of a result share.
    """
    found: dict[str, tuple[str, str]] = {}
    names = list(scenarios)
    if not names:
        one, other = (
            {"scenario": ", ".join(dict.fromkeys(each.name for each in document.scenarios))}
            | _of_document(document)
            for document in (first, second)
        )
        return differing(one, other)
    others = comparability_keys(second, names)
    for name, key in comparability_keys(first, names).items():
        found |= differing(key, others[name])
    return found


def _scenario(document: ResultDocument, name: str) -> str:
    spec = next((each for each in document.run.spec.scenarios if each.name == name), None)
    return "" if spec is None else canonical_json(spec, leave_out={"name"})


def _load(document: ResultDocument) -> str:
    """Return how requests are sent. The seed chooses them, and is no condition."""
    return canonical_json(document.run.spec.load, leave_out={"seed"})


def _choices(document: ResultDocument) -> Iterator[tuple[str, str]]:
    """Yield the conditions that a run chooses, except for defaults; see _LEFT_OUT."""
    spec = document.run.spec
    server = spec.server
    if server.onnx_runtime is not None:
        yield "engine options", canonical_json(server.onnx_runtime)
    if spec.model.runs_steps_in_server:
        yield "pipeline", "Server"
    if server.triton_backend not in {None, "OnnxRuntime"}:
        yield "back end", str(server.triton_backend)
    if server.custom is not None:
        yield "custom server", server.custom.name
    if server.external is not None:
        yield "address", _address(server.external)
    if spec.other_models:
        yield "other models", ", ".join(_other_models(spec, document.environment))


def _address(external: External) -> str:
    if external.service is not None:
        return f"Service {external.service.name}:{external.service.port}"
    return external.url or ""


def _other_models(spec: RunSpec, environment: Environment | None) -> list[str]:
    """Return the other models of the server, each with its checksum, otherwise its address."""
    known = {} if environment is None else other_model_checksums(environment)
    return sorted(
        f"{each.served_name} {known.get(each.served_name) or each.sha256 or each.uri}"
        for each in spec.other_models or ()
    )


def _of_model(environment: Environment) -> dict[str, str]:
    """Return the model, and a digest of its weights in files of their own."""
    model = environment.model
    found = {"model": model.sha256 or f"{model.name} {model.version}".strip()}
    data = environment.server.settings.get("external_data_sha256", "{}")
    if data != "{}":
        found["model data"] = hashlib.sha256(_sorted_json(data).encode()).hexdigest()[:16]
    return found


def _sorted_json(text: str) -> str:
    """Return JSON in the order of its names; what is none is returned as it is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _of_manifest(document: ResultDocument, scenario: str) -> dict[str, str]:
    """Return the model's manifest if a figure depends on it: its steps make or take the samples."""
    spec, environment = document.run.spec, document.environment
    sends_samples = any(
        each.evaluated is not None for each in spec.scenarios if each.name == scenario
    )
    manifest = None if environment is None else environment.model.manifest
    if manifest is None or not (spec.model.runs_steps_in_server or sends_samples):
        return {}
    return {"manifest": manifest.sha256}


def _of_server(server: ServerInfo, spec: Server) -> dict[str, str]:
    """Return what served the model: as the server reports it, otherwise as the run requires it."""
    settings = server.settings
    precision = "" if spec.precision == "Default" else spec.precision
    threads = "" if spec.threads is None else f"threads {spec.threads}"
    if spec.instances != 1:
        threads = f"{threads}, instances {spec.instances}".removeprefix(", ")
    batching = "" if spec.batching is None else canonical_json(spec.batching)
    return {
        "server": f"{server.name} {server.version}".strip(),
        "engine": f"{settings.get('runtime', '')} {settings.get('runtime_version', '')}".strip(),
        "precision": settings.get("precision") or precision,
        "threads": _named(settings, _THREADS) or threads,
        "batching": _named(settings, _BATCHING) or batching,
        "tensors": server.tensors or "",
    }


def _of_resources(environment: Environment, spec: Server) -> dict[str, str]:
    """Return how much serves. In a local run the resources are not enforced."""
    is_enforced = environment.server.launched and environment.place == "Cluster"
    return {
        "replicas": str(max(spec.replicas, len(environment.server.replicas))),
        "resources": canonical_json(spec.resources, with_defaults=True) if is_enforced else "",
        "GPUs": "" if spec.gpu is None else canonical_json(spec.gpu, with_defaults=True),
    }


def _of_node(document: ResultDocument, environment: Environment) -> dict[str, str]:
    images = sorted(
        digest for name, digest in environment.images.items() if not name.endswith("-load")
    )
    machine = server_machine(document)
    selector = document.run.spec.server.placement.node_selector
    parts = (machine.text, machine.instance_types or selector.get(INSTANCE_TYPE_LABEL, ""))
    return {
        "image": ", ".join(images),
        "node class": ", ".join(filter(None, parts)),
        "isolation": ", ".join(_isolation(environment)),
    }


def _isolation(environment: Environment) -> Iterator[str]:
    """Yield QoS classes, pinning, and what else runs next to a server."""
    replicas = environment.server.replicas
    classes = {each.quality_of_service for each in replicas} - {""}
    yield from sorted(classes) or [environment.place]
    pinned = environment.server.settings.get("pinned_cpus", "0")
    if pinned != "0":
        yield f"pinned to {pinned} CPUs"
    if environment.place == "Cluster" and environment.node.hostname in {
        each.node for each in replicas
    }:
        yield "load on the same node"
    if any(each.cluster_node is not None and each.cluster_node.other_pods for each in replicas):
        yield "other pods on the same node"


def _named(settings: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the settings of these names that there are, with their values."""
    return ", ".join(f"{name} {settings[name]}" for name in names if name in settings)
