"""The prose linter reads pages, comments and sentences of the code, and no code."""

from pathlib import Path

import pytest
from docgen import prose

MODULE = '''\
"""What does it do?"""

# It is told once.
TOLD = "told"
MESSAGE = (
    "The first line is fine. "
    "The agent is asked again."
)
'''
PAGE = "Whoever reads `asked` reads code.\n"


def found(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the linter says of a file with this text, without the advice."""
    monkeypatch.setattr(prose, "CHECKOUT", folder)
    (folder / name).write_text(text)
    return [line.split('": ')[0] for line in prose.findings(folder / name)]


def test_words_are_found_in_comments_and_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name or a value of one word is no prose; a module docstring is a statement."""
    assert found(tmp_path, "module.py", MODULE, monkeypatch) == [
        'module.py:3: "told',
        'module.py:6: "asked',
        "module.py:1: a module docstring is a statement, not a question",
    ]


@pytest.mark.parametrize(
    ("docstring", "is_question"),
    [("Which nodes are measured.", True), ("Decides which nodes are measured.", False)],
)
def test_a_module_docstring_is_no_indirect_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docstring: str, *, is_question: bool
) -> None:
    """It answers; only a test may state what something is by such a word."""
    text = f'"""{docstring}"""\n'
    assert bool(found(tmp_path, "module.py", text, monkeypatch)) == is_question
    (tmp_path / "tests").mkdir()
    assert found(tmp_path, "tests/module.py", text, monkeypatch) == []


def test_code_in_a_page_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may quote a name in backquotes."""
    assert found(tmp_path, "page.md", PAGE, monkeypatch) == ['page.md:1: "Whoever']


def test_a_finding_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1 with a finding and 0 without."""
    page = tmp_path / "page.md"
    monkeypatch.setattr(prose, "CHECKOUT", tmp_path)
    monkeypatch.setattr(prose, "_list_files", lambda _places: [page])
    page.write_text(PAGE)
    assert prose.main([]) == 1
    page.write_text("All is well.\n")
    assert prose.main([]) == 0
    assert "Whoever" in capsys.readouterr().out


def test_a_symbol_does_not_begin_a_docstring_or_a_help_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename of a class that ran through prose is a finding."""
    module = (
        '"""Options."""\n'
        'def show():\n    """ShowSecond what happened."""\n'
        'Option("n", int, 1, "InferencePool of the model.")\n'
        'add("-n", help="LoadShare of the window.")\n'
        'def test_it():\n    """EndpointSlices are listed."""\n'
    )
    assert found(tmp_path, "module.py", module, monkeypatch) == [
        'module.py:2: "ShowSecond',
        'module.py:4: "InferencePool',
        'module.py:5: "LoadShare',
    ]


def test_long_lines_of_a_page_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, code and links may be wider than the page."""
    wide = "word " * 30
    page = f"{wide}\n| {wide} |\n```\n{wide}\n```\n[link](a.md) {wide}\n"
    assert found(tmp_path, "page.md", page, monkeypatch) == ["page.md:1: more than 120 columns"]


@pytest.mark.parametrize("entry", ["", "* "])
def test_a_long_paragraph_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Five lines are the most, of a paragraph as of an entry of a list; code has no paragraphs."""
    text = "# Page\n\n" + entry + "One line.\n" * 5
    assert found(tmp_path, "page.md", text, monkeypatch) == []
    assert found(tmp_path, "page.md", f"{text}More.\n", monkeypatch) == [
        "page.md:3: a paragraph of more than 5 lines"
    ]
    assert found(tmp_path, "page.md", f"{text}* More.\n", monkeypatch) == []
    assert found(tmp_path, "page.md", f"```\n{text}More.\n```\n", monkeypatch) == []
