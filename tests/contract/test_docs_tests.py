"""Pages that name a test for each row name tests that exist."""

import re

import pytest
from docgen.files import CHECKOUT

PAGES = ("SECURITY.md", "docs/explanation/reliability.md")
HEAD = re.compile(r"^\|.*\| test \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)` `(test_\w+)`")


@pytest.mark.parametrize("page", PAGES)
def test_each_row_names_a_test_that_exists(page: str) -> None:
    """Each row of a table with a column of tests ends with a file and a function in it."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    rows = [
        row
        for head in HEAD.finditer(text)
        for row in text[head.end() :].partition("\n\n")[0].strip().splitlines()[1:]
    ]
    assert rows
    for row in rows:
        found = TEST.findall(row.rstrip(" |").rpartition(" | ")[2])
        assert found, row
        for file, name in found:
            assert f"def {name}(" in (CHECKOUT / file).read_text(encoding="utf-8"), row
