"""The ConfigMaps of a run: the load generator's plan, and the parts of the result."""

from base64 import b64encode

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
    DIGEST_ANNOTATION,
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


def result_config_map(
    part: bytes, owner: Owner, *, index: int, count: int, sha256: str
) -> Manifest:
    """Return the ConfigMap for one of `count` parts of a gzipped result document.

    It holds the number of parts, so that a reader notices a missing one, and the document's
    checksum, so that parts of two attempts are not mixed.
    """
    metadata = child_metadata(owner, result_name(owner.name, owner.uid, index), RESULT)
    metadata["annotations"] = {
        PARTS_ANNOTATION: str(count),
        DIGEST_ANNOTATION: sha256,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {RESULT_FILE: b64encode(part).decode()},
    }
