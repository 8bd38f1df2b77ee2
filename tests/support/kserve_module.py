"""Finds what the pinned Go module of KServe holds: definitions, webhooks and settings."""

from functools import cache, partial
from pathlib import Path
from typing import Any

from support.api_client import Api
from support.cluster.binaries import module_folder
from support.cluster.pins import MODULES
from support.kueue_module import objects
from support.waiting import wait_until

MODULE = "github.com/kserve/kserve"
NEEDED = ("inferenceservices",)
"""What the operator creates."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Object = dict[str, Any]


@cache
def config() -> Path:
    """Return the folder of KServe's manifests; its module is fetched once (30 MB)."""
    return module_folder(MODULE, MODULES / "kserve") / "config"


def definition(plural: str) -> Object:
    """Return a CustomResourceDefinition of KServe."""
    (found,) = objects(config() / "crd" / "full" / f"serving.kserve.io_{plural}.yaml")
    return found


def install_definitions(api: Api) -> None:
    """Install the definitions of what the operator creates."""
    for plural in NEEDED:
        api.ask("POST", _DEFINITIONS, definition(plural))
    for plural in NEEDED:
        wait_until(partial(_is_established, api, plural), f"the definition {plural}")


def remove_definitions(api: Api) -> None:
    """Remove the definitions, and all objects with them."""
    for plural in NEEDED:
        api.ask("DELETE", f"{_DEFINITIONS}/{plural}.serving.kserve.io")


def _is_established(api: Api, plural: str) -> bool:
    found = api.ask("GET", f"{_DEFINITIONS}/{plural}.serving.kserve.io")
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
