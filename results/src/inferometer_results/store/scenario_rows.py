"""The rows of a list of results, one for each scenario and repeat, and their texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """A scenario, with the figures of the step that stands for it."""

    scenario: str
    verdict: str
    reasons: str = ""
    """The rules that it broke."""
    qps: float | None = None
    p50_nanoseconds: int | None = None
    p99_nanoseconds: int | None = None
    microjoules_per_inference: int | None = None


def scenario_rows(result: dict[str, Any]) -> list[ScenarioRow]:
    """Return the rows of a result that `Store.find` returned; at least one.

    A retracted result has that word as its verdict.
    """
    retraction = "RETRACTED" if result["retracted"] is not None else ""
    found = [
        ScenarioRow(
            each["scenario"] if each["repeat"] == 1 else f"{each['scenario']} #{each['repeat']}",
            retraction or each["verdict"],
            each["reasons"],
            each["qps"],
            each["p50_nanoseconds"],
            each["p99_nanoseconds"],
            each["microjoules_per_inference"],
        )
        for each in result["measurements"]
        if each["headline"]
    ]
    return found or [ScenarioRow("", retraction or result["verdict"])]


def short_id(id_: str) -> str:
    """Return the beginning of a result's ID, as commands, pages and file names show it."""
    return id_[:12]


def started(result: dict[str, Any]) -> str:
    """Return when a run started, to the second: 2026-01-31 12:00:00."""
    return str(result["started_at"])[:19].replace("T", " ")


def tags(result: dict[str, Any]) -> list[str]:
    """Return the tags of people, in the order of the alphabet."""
    return [each["name"] for each in result["labels"] if each["origin"] == "tag"]


def without_number(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without its place in the store.

    It would count the results of others, and another store has it for another result.
    """
    return {name: value for name, value in result.items() if name != "number"}


def stack(result: dict[str, Any]) -> str:
    """Return what served the model, as exactly as it is known."""
    engine, server = str(result["engine"]), str(result["server"])
    if engine and server.startswith("inferometer "):
        return engine
    return ", ".join(filter(None, (server, engine))) or str(result["runtime"])
