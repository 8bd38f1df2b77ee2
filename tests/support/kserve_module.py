"""Finds what the pinned Go module of KServe holds: definitions, webhooks and settings."""

from functools import cache
from pathlib import Path
from typing import Any

from support.cluster.binaries import module_folder
from support.cluster.pins import MODULES
from support.kueue_module import objects

MODULE = "github.com/kserve/kserve"

Object = dict[str, Any]


@cache
def config() -> Path:
    """Return the folder of KServe's manifests; its module is fetched once (30 MB)."""
    return module_folder(MODULE, MODULES / "kserve") / "config"


def definition(plural: str) -> Object:
    """Return a CustomResourceDefinition of KServe."""
    (found,) = objects(config() / "crd" / "full" / f"serving.kserve.io_{plural}.yaml")
    return found


def needed_definitions() -> list[Object]:
    """Return the definitions of what the operator creates."""
    return [definition("inferenceservices")]
