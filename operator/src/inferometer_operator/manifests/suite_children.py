"""Children of a suite: its runs, and the executions of a schedule."""

import copy
from collections.abc import Mapping
from typing import Any

from inferometer_api.document import API_VERSION
from inferometer_api.suite.labels import (
    POSITION_ANNOTATION,
    SUITE_LABEL,
    SUITE_UID_LABEL,
    label_value,
)
from inferometer_api.suite.plan_suite import PlannedRun
from inferometer_operator.manifests.owner import Manifest


def suite_run(planned: PlannedRun, position: int, suite: Mapping[str, Any]) -> Manifest:
    """Return the BenchmarkRun of a planned run at its place in the plan, which the suite owns."""
    made: Manifest = copy.deepcopy(dict(planned.data))
    metadata = suite["metadata"]
    made["metadata"]["namespace"] = metadata["namespace"]
    made["metadata"]["labels"][SUITE_UID_LABEL] = metadata["uid"]
    made["metadata"].setdefault("annotations", {})[POSITION_ANNOTATION] = f"{position:06}"
    made["metadata"]["ownerReferences"] = [_owner(suite)]
    return made


def execution(name: str, suite: Mapping[str, Any]) -> Manifest:
    """Return an execution of a schedule: the suite as it is now, without the schedule."""
    spec: dict[str, Any] = copy.deepcopy(dict(suite["spec"]))
    spec.pop("schedule", None)
    metadata = suite["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkSuite",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {
                **(metadata.get("labels") or {}),
                SUITE_LABEL: label_value(metadata["name"]),
                SUITE_UID_LABEL: metadata["uid"],
            },
            "ownerReferences": [_owner(suite)],
        },
        "spec": {**spec, "suspend": False, "cancel": False},
    }


def _owner(suite: Mapping[str, Any]) -> Manifest:
    metadata = suite["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkSuite",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
