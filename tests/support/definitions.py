"""Creates and removes CustomResourceDefinitions, and waits until the API server has done so."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from support.api_client import AnswerError, Api
from support.waiting import wait_until

_GONE_SECONDS = 180.0
"""The API server waits a minute for the end of the objects before it tries again."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def create_definitions(api: Api, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Create definitions; wait until their objects can be created."""
    made = list(definitions)
    for each in made:
        api.ask("POST", _DEFINITIONS, each)
    for each in made:
        name = each["metadata"]["name"]
        wait_until(partial(_is_established, api, name), f"the definition {name}")


def remove_definitions(api: Api, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Remove definitions, and all objects with them; wait until they are gone."""
    names = [each["metadata"]["name"] for each in definitions]
    for name in names:
        api.ask("DELETE", f"{_DEFINITIONS}/{name}")
    for name in names:
        gone = partial(_is_gone, api, name)
        wait_until(gone, f"the end of the definition {name}", deadline_seconds=_GONE_SECONDS)


def _is_established(api: Api, name: str) -> bool:
    found = api.ask("GET", f"{_DEFINITIONS}/{name}")
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_gone(api: Api, name: str) -> bool:
    try:
        api.ask("GET", f"{_DEFINITIONS}/{name}")
    except AnswerError as error:
        if error.code != 404:
            raise
        return True
    return False
