"""Every link of the documentation leads to an existing page and heading."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for page in {*ROOT.glob("*.md"), *ROOT.glob("[!.]*/**/*.md")} if not page.is_symlink()
)


def prose(page: Path) -> str:
    """Return a page's text without its blocks of code."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^ *(```|~~~).*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    names: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", prose(page), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{name}-{names[name]}" if names[name] else name)
        names[name] += 1
    return found


def links(page: Path) -> list[str]:
    """Return where a page's links lead to within the checkout."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    found: list[str] = re.findall(r"\]\(([^)\s]+)", text)
    return [link for link in found if not re.match(r"\w+:", link)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """Each relative link names a file that exists, and a heading of it where it names one."""
    dead = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    """Marks are left out, blanks are hyphens, and of equal headings each has its own."""
    page = tmp_path / "page.md"
    page.write_text(
        "# What `this` [page](x.md) is: A & B\n```\n# no heading\n```\n## Twice\n## Twice\n",
        encoding="utf-8",
    )
    assert anchors(page) == {"what-this-page-is-a--b", "twice", "twice-1"}
