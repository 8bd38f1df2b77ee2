"""Prose linter: finds words that our style guide replaces in pages, docstrings and messages.

`python -m docgen.prose [PATH ...]` prints one line per finding and exits with 1 if there is any.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_EXCLUDED_SUFFIXES = {".json", ".lock", ".sum", ".svg", ".png", ".npz", ".b64"}
_MARKDOWN_COLUMNS = 120
_PARAGRAPH_LINES = 5
_SUGGESTIONS = {
    r"told|tells?|telling": "report, log, print, show, or say",
    r"asked|asks": "request, set, require, or query",
    r"bears|bearing": "carries, has",
    r"beside": "next to, with, in addition to",
    r"whoever|whomever": "name the actor",
    r"nobody|somebody": "name the actor: no client, a user, a process",
    r"know(s|n)? (it )?not|says? nothing of": "is not known, does not mention",
    r"which (is|are) of|so that \w+ may": "split the sentence",
    r"what is (not known|asked|found|done)": "name the thing",
    r"come what may|in the end|for its part": "delete",
    r"thereof|therein|whereof|wherein": "of it, in it",
    r"(Raises \w+|None|NaN|nothing|empty) where": "if",
    r"(is|are) no (text|number|list|object)": "is not a ...",
    r"any more": "delete, or no longer",
}
_WORDS = {
    re.compile(rf"\b({words})\b", re.IGNORECASE): advice for words, advice in _SUGGESTIONS.items()
}
_ANY_WORD = re.compile(rf"\b({'|'.join(_SUGGESTIONS)})\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|https?://\S+")
_QUESTION = re.compile(r"(What|Which|Who|Why|Where|Whether|How|When|Since when)\b")
"""How an indirect question begins; a test's statement may begin so."""
_ENTRY = re.compile(r"([*-]|\d+\.) ")
_SYMBOL = re.compile(r"[A-Z][a-z]+[A-Z]\w*")


def findings(path: Path) -> Iterator[str]:
    """Yield `path:line: finding` for each violation in one file."""
    text = path.read_text()
    name = path.relative_to(CHECKOUT)
    tree = ast.parse(text) if path.suffix == ".py" else None
    pieces = enumerate(text.splitlines(), 1) if tree is None else _python(text, tree)
    for line, piece in pieces:
        prose = _CODE.sub("", piece)
        if not _ANY_WORD.search(prose):
            continue
        for pattern, advice in _WORDS.items():
            for found in pattern.finditer(prose):
                yield f'{name}:{line}: "{found[0]}": {advice}'
    if tree is not None:
        if _is_question(tree, is_test=name.parts[0] == "tests"):
            yield f"{name}:1: a module docstring is a statement, not a question"
        for line, symbol in _symbols(tree):
            yield f'{name}:{line}: "{symbol}": begin with a word, not with a symbol'
    if path.suffix == ".md" and not text.startswith("<!-- Gen"):
        for line, finding in _of_page(text):
            yield f"{name}:{line}: {finding}"


def _python(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module and the string constants that are sentences."""
    # To find comments takes as long as all the rest, and few of them can have a finding: without
    # a word, or code between whose neighbours one forms, there is none.
    lines = (line for line in text.splitlines() if "#" in line)
    if any(_ANY_WORD.search(line) or _CODE.search(line) for line in lines):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, line


def _symbols(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each class name that begins the docstring of a function or a help text."""
    for node in ast.walk(tree):
        texts: list[object] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [] if node.name.startswith("test_") else [ast.get_docstring(node)]
        elif isinstance(node, ast.Call):
            of_option = node.args if getattr(node.func, "id", "") == "Option" else []
            helps = [each.value for each in node.keywords if each.arg in {"help", "description"}]
            texts = [each.value for each in (*of_option, *helps) if isinstance(each, ast.Constant)]
        else:
            continue
        for each in texts:
            if isinstance(each, str) and " " in each and (found := _SYMBOL.match(each)):
                yield node.lineno, found[0]


def _of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and paragraphs of a Markdown page that are too long."""
    for line in _long_lines(text):
        yield line, f"more than {_MARKDOWN_COLUMNS} columns"
    for line in _long_paragraphs(text):
        yield line, f"a paragraph of more than {_PARAGRAPH_LINES} lines"


def _long_lines(text: str) -> Iterator[int]:
    """Yield the long lines of a Markdown page, except in tables, code, links and HTML."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        is_prose = not in_code and not line.lstrip().startswith(("|", "<")) and "](" not in line
        if is_prose and len(line) > _MARKDOWN_COLUMNS:
            yield number


def _long_paragraphs(text: str) -> Iterator[int]:
    """Yield the first line of each long paragraph of a Markdown page; an entry of a list is one."""
    in_code = False
    first = length = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        is_fence = stripped.startswith("```")
        in_code ^= is_fence
        is_prose = bool(stripped) and not (
            in_code or is_fence or stripped.startswith(("|", "<", "#", ">"))
        )
        if not is_prose or _ENTRY.match(stripped):
            if length > _PARAGRAPH_LINES:
                yield first
            length = 0
        length += is_prose
        first = number if length == 1 else first


def _is_question(tree: ast.Module, *, is_test: bool) -> bool:
    summary, _, _ = (ast.get_docstring(tree) or "").partition("\n")
    return "? " in f"{summary} " or (not is_test and bool(_QUESTION.match(summary)))


def _list_files(places: Sequence[str]) -> list[Path]:
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places)
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)  # noqa: S603
    paths = (CHECKOUT / name for name in listed.stdout.splitlines())
    return [path for path in paths if path.is_file() and _is_text(path)]


def _is_text(path: Path) -> bool:
    """Return whether a file is text that people write."""
    if path.suffix in _EXCLUDED_SUFFIXES:
        return False
    try:
        return "\0" not in path.read_text()
    except UnicodeDecodeError:
        return False


def main(arguments: Sequence[str]) -> int:
    """Lint the given paths, or the whole checkout, and return the exit code."""
    places = arguments or [
        ":!tests/data",
        ":!LICENSE",
        ":!docgen/prose.py",
        ":!tests/unit/docgen/test_prose.py",
    ]
    found = [line for path in _list_files(places) for line in findings(path)]
    print("\n".join(found) or "prose: no findings")  # noqa: T201 - a command's output
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
