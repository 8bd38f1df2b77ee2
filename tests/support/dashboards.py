"""Reads the committed dashboards, panel by panel and query by query."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = re.compile(r"\$\{?([a-z_]\w*)\}?")
_SELECTOR = re.compile(r"\b(?:inferometer|process)_\w+(?:\{[^}]*\})?")


def text_of(path: str) -> str:
    """Return the text of a file by its path in the checkout."""
    return (ROOT / path).read_text(encoding="utf-8")


DASHBOARDS: dict[str, Json] = {
    name: json.loads(text_of(f"grafana/dashboards/{name}.json"))
    for name in ("run", "compare", "nodes", "operator")
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One panel of a dashboard."""

    where: str
    """Dashboard and title."""
    json: Json
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """One query of a dashboard: of a panel, a variable or an annotation."""

    where: str
    dashboard: str
    expr: str
    instant: bool
    variables: frozenset[str]
    """The names of its dashboard's variables."""


def panels() -> Iterator[Shown]:
    """Yield every panel of every dashboard; rows are none."""
    for name, board in DASHBOARDS.items():
        for panel in board["panels"]:
            if panel["type"] != "row":
                exprs = tuple(target["expr"] for target in panel.get("targets", ()))
                yield Shown(f"{name}: {panel['title']}", panel, exprs)


def queries() -> Iterator[PanelQuery]:
    """Yield every query of every dashboard's panels and annotations."""
    for name, board in DASHBOARDS.items():
        variables = frozenset(each["name"] for each in board["templating"]["list"])
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                where = f"{name}: {panel['title']}: {target['refId']}"
                instant = bool(target.get("instant"))
                yield PanelQuery(where, name, target["expr"], instant, variables)
        for each in annotations(board):
            expr = each["target"]["expr"]
            yield PanelQuery(
                f"{name}: {each['name']}", name, expr, instant=False, variables=variables
            )


def annotations(board: Json) -> list[Json]:
    """Return the annotations of a dashboard."""
    found: list[Json] = board.get("annotations", {}).get("list", [])
    return found


def interpolated(expr: str, values: Mapping[str, str]) -> str:
    """Return a query with its variables as Grafana fills them in; those with all chosen match all.

    Grafana's own are those of a Prometheus that scrapes every 5 s, over ten minutes.
    """
    own = {"__rate_interval": "20s", "__range": "600s", "scrape": "5s"}
    known = own | dict(values)

    def value(found: re.Match[str]) -> str:
        return known.get(str(found[1]), ".*")

    return _VARIABLE.sub(value, expr)


def selectors(expr: str) -> list[str]:
    """Return each metric of a query, with what it must match."""
    return _SELECTOR.findall(expr)


def first_choice(expr: str) -> str:
    """Return a query's part before the `or` that gives something where it has nothing."""
    depth = 0
    for place, character in enumerate(expr):
        depth += (character == "(") - (character == ")")
        if depth == 0 and expr.startswith(" or ", place):
            return expr[:place]
    return expr


def choices(dashboard: str, variable: str) -> list[str]:
    """Return the values of a variable that has a list of its own."""
    found = next(
        each for each in DASHBOARDS[dashboard]["templating"]["list"] if each["name"] == variable
    )
    return [option["value"] for option in found["options"]]
