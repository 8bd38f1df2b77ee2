"""Under which conditions are the figures found?"""

import json
from collections.abc import Sequence

from inferometer_api.plan import LoadPlan
from inferometer_api.result import Environment, ModelFacts, ServerFacts
from inferometer_loadgen.control import Described
from inferometer_loadgen.node import node, packages


def surroundings(plan: LoadPlan, described: Described, notes: Sequence[str]) -> Environment:
    """Put together what plan, server and machine tell; what nobody tells is absent."""
    return Environment(
        place=plan.place,
        node=node(),
        server=_server(plan, described),
        model=_model(plan, described),
        packages=packages(),
        notes=[*plan.notes, *notes],
    )


def _server(plan: LoadPlan, described: Described) -> ServerFacts:
    settings = described.settings
    fell_back = settings.get("compute_nodes_fell_back", "")
    return ServerFacts(
        launched=plan.launched,
        url=plan.servers[0].url,
        name=described.server_name,
        version=described.server_version,
        extensions=described.extensions,
        settings=settings,
        nodes_by_provider=_counts(settings.get("nodes_by_provider", "")),
        compute_nodes_fell_back=int(fell_back) if fell_back.isdecimal() else None,
    )


def _counts(told: str) -> dict[str, int]:
    try:
        counts = json.loads(told)
    except ValueError:
        return {}
    if not isinstance(counts, dict):
        return {}
    return {str(name): count for name, count in counts.items() if isinstance(count, int)}


def _model(plan: LoadPlan, described: Described) -> ModelFacts:
    return ModelFacts(
        name=plan.model_name,
        version=plan.model_version or next(iter(described.versions), ""),
        uri=plan.run.spec.model.uri,
        sha256=plan.model_sha256 or described.settings.get("model_sha256") or None,
        inputs=described.inputs,
        outputs=described.outputs,
    )
