"""The ConfigMaps of a run: the load generator's plan, and the parts of the result."""

from base64 import b64encode
from collections.abc import Sequence

from inferometer_api.plan.cluster_objects import (
    LOADGEN,
    RESULT,
    RESULT_FILE,
    begun_name,
    load_name,
    result_name,
)
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.manifests.owner import (
    PARTS_ANNOTATION,
    Manifest,
    Owner,
    child_metadata,
)

PLAN_FILE = "plan.json"


def plan_config_map(plan: LoadPlan, owner: Owner) -> Manifest:
    """Return the ConfigMap with the plan of the run's load generator."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(owner, load_name(owner.name), LOADGEN),
        "immutable": True,
        "data": {PLAN_FILE: plan.model_dump_json(exclude_none=True)},
    }


def begun_config_map(owner: Owner) -> Manifest:
    """Return the record that the run's load Job was created, for a status that no one takes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(owner, begun_name(owner.name), LOADGEN),
        "immutable": True,
        "data": {"job": load_name(owner.name)},
    }


def result_config_maps(gz_parts: Sequence[bytes], owner: Owner) -> list[Manifest]:
    """Return one ConfigMap for each part of a gzipped result document, in order.

    Each holds the number of parts, so that a reader notices a missing one.
    """
    return [_result_part(index, part, len(gz_parts), owner) for index, part in enumerate(gz_parts)]


def _result_part(index: int, part: bytes, count: int, owner: Owner) -> Manifest:
    metadata = child_metadata(owner, result_name(owner.name, owner.uid, index), RESULT)
    metadata["annotations"] = {PARTS_ANNOTATION: str(count)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {RESULT_FILE: b64encode(part).decode()},
    }
