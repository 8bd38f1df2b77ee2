"""Pages that name a test for each row name tests that exist."""

import re

import pytest
from docgen.files import CHECKOUT

PAGES = ("SECURITY.md", "docs/explanation/reliability.md")
HEAD = re.compile(r"^\|.*\| test \|$", re.MULTILINE)
WORD = re.compile(r"`([^`]+)`")


@pytest.mark.parametrize("page", PAGES)
def test_each_row_names_tests_that_exist(page: str) -> None:
    """Each row of a table with a column of tests ends with files, each with functions in it."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    rows = [
        row
        for head in HEAD.finditer(text)
        for row in text[head.end() :].partition("\n\n")[0].strip().splitlines()[1:]
    ]
    assert rows
    for row in rows:
        words = WORD.findall(row.rstrip(" |").rpartition(" | ")[2])
        assert any(word.startswith("test_") for word in words), row
        code = ""
        for word in words:
            if word.startswith("tests/"):
                code = (CHECKOUT / word).read_text(encoding="utf-8")
            elif word.startswith("test_"):
                assert f"def {word}(" in code, (word, row)
