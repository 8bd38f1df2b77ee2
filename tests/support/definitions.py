"""Creates and removes CustomResourceDefinitions, and waits until the API server has done so."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from support.api_client import AnswerError, Api
from support.waiting import wait_until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def create_definitions(api: Api, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Create definitions; wait until their objects can be created, listed, and deleted with them.

    A definition that is deleted before its objects can be listed stays for five minutes: only then
    does the API server try again to delete them.
    """
    made = list(definitions)
    for each in made:
        api.ask("POST", _DEFINITIONS, each)
    for each in made:
        name = each["metadata"]["name"]
        wait_until(partial(_is_established, api, name), f"the definition {name}")
        wait_until(partial(_can_be_listed, api, each), f"the list of {name}")


def remove_definitions(api: Api, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Remove definitions, and all objects with them; wait until they are gone."""
    names = [each["metadata"]["name"] for each in definitions]
    for name in names:
        api.ask("DELETE", f"{_DEFINITIONS}/{name}")
    for name in names:
        wait_until(partial(_is_gone, api, name), f"the end of the definition {name}")


def _is_established(api: Api, name: str) -> bool:
    found = api.ask("GET", f"{_DEFINITIONS}/{name}")
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _can_be_listed(api: Api, definition: Mapping[str, Any]) -> bool:
    """Return whether the cache of the objects is there, which a list without limit needs."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    try:
        api.ask("GET", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
    except AnswerError as error:
        if error.code not in {404, 429, 503}:
            raise
        return False
    return True


def _is_gone(api: Api, name: str) -> bool:
    try:
        api.ask("GET", f"{_DEFINITIONS}/{name}")
    except AnswerError as error:
        if error.code != 404:
            raise
        return True
    return False
