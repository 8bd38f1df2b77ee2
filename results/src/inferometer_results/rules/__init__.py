"""Explains each rule of the verdict and what to do, from the pages of the documentation.

Both pages are part of the package, so that a report and a terminal explain a rule offline.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_ROW = re.compile(r"^\| \[(\w+)\]\(#\w+\) \| (INVALID|caution) \| (.*) \| (.*) \|$", re.MULTILINE)
_SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^(\*|\d+\.) ")


@dataclass(frozen=True, slots=True)
class RulePage:
    """One rule of the verdict; all texts are plain."""

    name: str
    effect: str
    """INVALID or caution."""
    limit: str
    what_to_do: tuple[str, ...]
    """Paragraphs and items of a list."""
    definition: tuple[str, ...]
    """The same: the figure, the source of the limit, and why it matters."""


def rule_page(name: str) -> RulePage | None:
    """Return the page of a rule; None if this version does not know it."""
    return rule_pages().get(name)


@cache
def rule_pages() -> dict[str, RulePage]:
    """Return the pages of all rules by name, in the order of the documentation."""
    definitions, advice = _text("verdict.md"), _sections(_text("invalid.md"))
    sections = _sections(definitions)
    return {
        name: RulePage(
            name,
            effect,
            _plain(limit),
            _blocks(advice[name]) if name in advice else (_plain(remedy),),
            _blocks(sections.get(name, "")),
        )
        for name, effect, limit, remedy in _ROW.findall(definitions)
    }


def _text(name: str) -> str:
    return files("inferometer_results.rules").joinpath(name).read_text(encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    return {found[1]: found[2] for found in _SECTION.finditer(text)}


def _blocks(text: str) -> tuple[str, ...]:
    """Return the paragraphs and list items of Markdown as plain texts, a line each."""
    blocks: list[str] = []
    is_new = True
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            is_new = True
        elif is_new or _ITEM.match(stripped):
            blocks.append(f"\N{BULLET} {stripped[2:]}" if stripped.startswith("* ") else stripped)
            is_new = False
        else:
            blocks[-1] += f" {stripped}"
    return tuple(map(_plain, blocks))


def _plain(markdown: str) -> str:
    """Return a text without links and emphasis; code keeps its quotes."""
    return _LINK.sub(r"\1", markdown).replace("**", "")
