"""Environment of a measurement: servers, model, machine, packages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from inferometer_api.manifest.model_manifest import ANY_VERSION
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import (
    Environment,
    ModelInfo,
    ServerInfo,
    ServerReplica,
    ServerRestart,
)
from inferometer_api.spec.server import Server
from inferometer_loadgen.client.node import node, packages
from inferometer_loadgen.requests.encode import uses_binary
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.task.model_task import manifest_info
from inferometer_loadgen.verdict.measurement import NotObtained


def environment_of(
    plan: LoadPlan, found: Sequence[ServerDescription], notes: Sequence[str]
) -> Environment:
    """Return the environment as plan, servers and machine report it.

    What none of them reports is absent. Raises TaskRefusedError if the engine does not satisfy the
    model's manifest. `found` has the servers' descriptions in the plan's order.
    """
    return Environment(
        place=plan.place,
        node=node(),
        server=_server(plan, found),
        model=_model(plan, found[0]),
        packages=packages(),
        notes=[*plan.notes, *notes],
    )


def restart_of(
    plan: LoadPlan,
    found: Sequence[ServerDescription],
    first: ServerDescription,
    repeat: int,
    seconds: float,
) -> ServerRestart:
    """Return the record of a planned restart, after which the servers of the plan are measured.

    `first` is the first server of the first repeat.
    """
    replicas = _each(plan, found, first.settings)
    return ServerRestart(repeat=repeat, seconds=round(seconds, 3), replicas=replicas)


def fell_back(description: ServerDescription) -> int | None:
    """Return how many compute nodes fell back to the CPU; None if the server does not say."""
    count = description.settings.get("compute_nodes_fell_back", "")
    return int(count) if count.isdecimal() else None


def not_obtained(
    server: Server,
    descriptions: Sequence[ServerDescription],
    others: Mapping[str, ServerDescription] = MappingProxyType({}),
) -> tuple[NotObtained, ...]:
    """Return what was requested of the engine and is not what a server of ours reports.

    `others` has the further models of a mix, by name.
    """
    found: dict[NotObtained, None] = {}
    named = [("", each) for each in descriptions] + list(others.items())
    for model, settings in ((name, each.settings) for name, each in named):
        of_model = f"of the model {model}" if model else ""
        found |= dict.fromkeys(
            each._replace(detail=each.detail or of_model)
            for each in _choices_not_obtained(server, settings)
        )
        if "layers_by_precision" not in settings:
            continue
        precision, threads = settings.get("precision", ""), settings.get("threads", "")
        if server.precision not in ("Default", precision):
            layers = _counts(settings["layers_by_precision"])
            listed = ", ".join(f"{count} in {name}" for name, count in layers.items())
            layers_of = f"of the layers of {model}" if model else "of its layers"
            detail = f"{layers_of} that multiply matrices, {listed}" if listed else of_model
            found[NotObtained("precision", server.precision, precision, detail)] = None
        if server.threads is not None and threads != str(server.threads):
            found[NotObtained("threads", str(server.threads), threads, of_model)] = None
    return tuple(found)


def _choices_not_obtained(server: Server, settings: Mapping[str, str]) -> Iterator[NotObtained]:
    """Yield ONNX Runtime's choices that its session does not have."""
    options = server.onnx_runtime
    requests = {} if options is None else options.model_dump(exclude_none=True, by_alias=False)
    for name, value in requests.items():
        requested = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        if settings.get(name, "") != requested:
            yield NotObtained(name.replace("_", " "), requested, settings.get(name, ""))


def _server(plan: LoadPlan, found: Sequence[ServerDescription]) -> ServerInfo:
    description = found[0]
    settings = description.settings
    return ServerInfo(
        launched=plan.launched,
        url=plan.servers[0].url,
        name=description.server_name,
        version=description.server_version,
        extensions=description.extensions,
        settings=settings,
        tensors="Binary" if uses_binary(plan.run.spec.load, description.extensions) else "Json",
        graph_nodes_by_provider=_counts(settings.get("nodes_by_provider", "")),
        replicas=_replicas(plan, found),
        cpu_fallback_graph_nodes=fell_back(description),
    )


def _replicas(plan: LoadPlan, found: Sequence[ServerDescription]) -> list[ServerReplica]:
    if plan.place == "Local" and len(plan.servers) == 1:
        return []
    return _each(plan, found, found[0].settings)


def _each(
    plan: LoadPlan, found: Sequence[ServerDescription], first: Mapping[str, str]
) -> list[ServerReplica]:
    return [
        ServerReplica(
            url=server.url,
            pod=server.pod,
            node=server.node,
            quality_of_service=server.quality_of_service,
            cluster_node=server.cluster_node,
            settings={
                name: value
                for name, value in description.settings.items()
                if first.get(name) != value
            },
        )
        for server, description in zip(plan.servers, found, strict=True)
    ]


def unchecked_constraint(plan: LoadPlan, description: ServerDescription) -> str:
    """Return the versions that the manifest needs, if the server does not report its own."""
    found = manifest_info(plan, description)
    if found is None or found.resolved_version or found.framework_constraint == ANY_VERSION:
        return ""
    return f"{found.framework} {found.framework_constraint}".strip()


def _counts(text: str) -> dict[str, int]:
    try:
        counts = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(counts, dict):
        return {}
    return {str(name): count for name, count in counts.items() if isinstance(count, int)}


def _model(plan: LoadPlan, description: ServerDescription) -> ModelInfo:
    return ModelInfo(
        name=plan.model_name,
        version=plan.model_version or next(iter(description.versions), ""),
        uri=plan.run.spec.model.uri,
        sha256=plan.model_sha256 or description.settings.get("model_sha256") or None,
        inputs=description.inputs,
        outputs=description.outputs,
        manifest=manifest_info(plan, description),
    )
