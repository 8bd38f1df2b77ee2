"""Finds what the pinned Go module of Kueue holds: definitions, rights and webhooks."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from support.api_client import AnswerError, Api
from support.cluster.binaries import module_folder
from support.cluster.pins import MODULES
from support.waiting import wait_until

MODULE = "sigs.k8s.io/kueue"
NEEDED = ("workloads", "resourceflavors", "workloadpriorityclasses")
"""What the operator reads and writes."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

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


def install_definitions(api: Api, *plurals: str) -> None:
    """Install definitions with the newest version alone: nothing converts between versions here."""
    for plural in plurals:
        made = definition(plural)
        newest = max(made["spec"]["versions"], key=lambda each: str(each["name"]))
        made["spec"]["versions"] = [{**newest, "storage": True}]
        api.ask("POST", _DEFINITIONS, made)
    for plural in plurals:
        wait_until(partial(_is_established, api, plural), f"the definition {plural}")


def remove_definitions(api: Api, *plurals: str) -> None:
    """Remove definitions, and all objects with them; wait until they are gone."""
    for plural in plurals:
        api.ask("DELETE", f"{_DEFINITIONS}/{plural}.kueue.x-k8s.io")
    for plural in plurals:
        wait_until(partial(_is_gone, api, plural), f"the end of the definition {plural}")


def _is_gone(api: Api, plural: str) -> bool:
    try:
        api.ask("GET", f"{_DEFINITIONS}/{plural}.kueue.x-k8s.io")
    except AnswerError as error:
        if error.code != 404:
            raise
        return True
    return False


def _is_established(api: Api, plural: str) -> bool:
    found = api.ask("GET", f"{_DEFINITIONS}/{plural}.kueue.x-k8s.io")
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
