"""Which ConfigMaps keep the result?"""

from base64 import b64encode
from collections.abc import Sequence

from inferometer_api.plan.cluster_objects import RESULT, RESULT_FILE, result_name
from inferometer_operator.manifests.owner import (
    PARTS_ANNOTATION,
    Manifest,
    Owner,
    child_metadata,
)


def result_config_maps(gz_parts: Sequence[bytes], owner: Owner) -> list[Manifest]:
    """Return a ConfigMap for each part of a gzipped result document, in order.

    Each tells how many there are, so that a reader notices one that is missing.
    """
    return [_map(index, part, len(gz_parts), owner) for index, part in enumerate(gz_parts)]


def _map(index: int, part: bytes, count: int, owner: Owner) -> Manifest:
    metadata = child_metadata(owner, result_name(owner.name, index), RESULT)
    metadata["annotations"] = {PARTS_ANNOTATION: str(count)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {RESULT_FILE: b64encode(part).decode()},
    }
