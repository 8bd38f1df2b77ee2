"""Finds what the pinned Go module of Kueue holds: definitions, rights and webhooks."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support.cluster.binaries import module_folder
from support.cluster.pins import MODULES

MODULE = "sigs.k8s.io/kueue"
NEEDED = ("workloads", "resourceflavors", "workloadpriorityclasses")
"""What the operator reads and writes."""

Object = dict[str, Any]


@cache
def config() -> Path:
    """Return the folder of Kueue's manifests; its module is fetched once (4 MB)."""
    return module_folder(MODULE, MODULES / "kueue") / "config" / "components"


def objects(path: Path) -> list[Object]:
    """Return the objects in a file of manifests."""
    # The definition of Workloads has 18,000 lines.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(path.read_text(), loader) if each]


def definition(plural: str) -> Object:
    """Return a CustomResourceDefinition of Kueue."""
    (found,) = objects(config() / "crd" / "bases" / f"kueue.x-k8s.io_{plural}.yaml")
    return found


def needed_definitions() -> list[Object]:
    """Return the definitions of what the operator uses, with the newest version alone.

    Nothing converts between versions here.
    """
    return [_newest(definition(plural)) for plural in NEEDED]


def _newest(made: Object) -> Object:
    newest = max(made["spec"]["versions"], key=lambda each: str(each["name"]))
    made["spec"]["versions"] = [{**newest, "storage": True}]
    return made
