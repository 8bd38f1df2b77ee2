"""Environment of a measurement: servers, model, machine, packages."""

import json
from collections.abc import Sequence

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import Environment, ModelInfo, ServerInfo, ServerReplica
from inferometer_loadgen.client.node import node, packages
from inferometer_loadgen.server.control_plane import ServerDescription


def environment_of(
    plan: LoadPlan, found: Sequence[ServerDescription], notes: Sequence[str]
) -> Environment:
    """Return the environment as plan, servers and machine report it.

    What none of them reports is absent. `found` has the servers' descriptions in the plan's order.
    """
    return Environment(
        place=plan.place,
        node=node(),
        server=_server(plan, found),
        model=_model(plan, found[0]),
        packages=packages(),
        notes=[*plan.notes, *notes],
    )


def fell_back(described: ServerDescription) -> int | None:
    """Return how many compute nodes fell back to the CPU; None if the server does not say."""
    count = described.settings.get("compute_nodes_fell_back", "")
    return int(count) if count.isdecimal() else None


def _server(plan: LoadPlan, found: Sequence[ServerDescription]) -> ServerInfo:
    described = found[0]
    settings = described.settings
    return ServerInfo(
        launched=plan.launched,
        url=plan.servers[0].url,
        name=described.server_name,
        version=described.server_version,
        extensions=described.extensions,
        settings=settings,
        graph_nodes_by_provider=_counts(settings.get("nodes_by_provider", "")),
        replicas=_replicas(plan, found),
        cpu_fallback_graph_nodes=fell_back(described),
    )


def _replicas(plan: LoadPlan, found: Sequence[ServerDescription]) -> list[ServerReplica]:
    if plan.place == "Local" and len(plan.servers) == 1:
        return []
    first = found[0].settings
    return [
        ServerReplica(
            url=server.url,
            pod=server.pod,
            node=server.node,
            quality_of_service=server.quality_of_service,
            settings={
                name: value
                for name, value in described.settings.items()
                if first.get(name) != value
            },
        )
        for server, described in zip(plan.servers, found, strict=True)
    ]


def _counts(text: str) -> dict[str, int]:
    try:
        counts = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(counts, dict):
        return {}
    return {str(name): count for name, count in counts.items() if isinstance(count, int)}


def _model(plan: LoadPlan, described: ServerDescription) -> ModelInfo:
    return ModelInfo(
        name=plan.model_name,
        version=plan.model_version or next(iter(described.versions), ""),
        uri=plan.run.spec.model.uri,
        sha256=plan.model_sha256 or described.settings.get("model_sha256") or None,
        inputs=described.inputs,
        outputs=described.outputs,
    )
