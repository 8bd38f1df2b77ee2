"""The sections of the pages that tests on real nodes follow exist, and give what is followed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documented import commands
from support.monitored import documented

TESTS = Path(__file__).parents[1]


def sections() -> Iterator[tuple[str, str]]:
    """Yield the page and the heading of each section that tests follow; "" is the default page."""
    for path in sorted([*TESTS.glob("cluster/*.py"), *TESTS.glob("local/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            ast.unparse(node.targets[0]): node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("commands"), args=[page, heading]):
                    page = constants.get(ast.unparse(page), page)
                    yield ast.literal_eval(page), ast.literal_eval(heading)
                case ast.Call(func=ast.Name("documented"), args=[heading]):
                    yield "", ast.literal_eval(heading)
                case _:
                    pass


SECTIONS = sorted(set(sections()))


@pytest.mark.parametrize(("page", "heading"), SECTIONS)
def test_a_section_that_tests_follow_exists(page: str, heading: str) -> None:
    """Renaming a heading fails here, not after an hour of `make verify`."""
    assert commands(page, heading) if page else documented(heading)


def test_the_sections_are_found() -> None:
    """The three pages are followed."""
    assert {page for page, _ in SECTIONS} == {"", "docs/how-to/energy.md", "docs/how-to/install.md"}
