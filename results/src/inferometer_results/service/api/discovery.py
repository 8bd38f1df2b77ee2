"""Answers the API server and kubectl about an aggregated API: its group, version and resources."""

from typing import Any

from inferometer_api.results.service_paths import (
    EXPLORER,
    SERVICE_GROUP,
    SERVICE_ROOT,
    SERVICE_VERSION,
)

_NAMED = f"{SERVICE_GROUP}/{SERVICE_VERSION}"
_VERSION = {"groupVersion": _NAMED, "version": SERVICE_VERSION}
_GROUP: dict[str, Any] = {
    "name": SERVICE_GROUP,
    "versions": [_VERSION],
    "preferredVersion": _VERSION,
}
_DOCUMENTS: dict[str, dict[str, Any]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]},
    f"/apis/{SERVICE_GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **_GROUP},
    SERVICE_ROOT: {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _NAMED,
        "resources": [
            {
                "name": "explorers/proxy",
                "singularName": "",
                "namespaced": False,
                "kind": "Explorer",
                "verbs": ["create", "delete", "get"],
            }
        ],
    },
}


def discovery_document(path: str) -> dict[str, Any] | None:
    """Return what is at a path of the discovery, None if nothing is."""
    return _DOCUMENTS.get(path.rstrip("/"))


def explorer_path(path: str) -> str | None:
    """Return the path within the explorer, None if a path does not lead there."""
    if path == EXPLORER:
        return "/"
    return path.removeprefix(EXPLORER) if path.startswith(f"{EXPLORER}/") else None


def failure(status: int, sentence: str) -> dict[str, Any]:
    """Return an error as API servers write it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": sentence,
        "error": sentence,
        "code": status,
    }
