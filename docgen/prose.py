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
_TEXT_SUFFIXES = {".md", ".yaml", ".tpl", ".txt", ".j2"}
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
}
_WORDS = {
    re.compile(rf"\b({words})\b", re.IGNORECASE): advice for words, advice in _SUGGESTIONS.items()
}
_CODE = re.compile(r"`[^`]*`|https?://\S+")


def findings(path: Path) -> Iterator[str]:
    """Yield `path:line: finding` for each violation in one file."""
    text = path.read_text()
    pieces = _python(text) if path.suffix == ".py" else enumerate(text.splitlines(), 1)
    for line, piece in pieces:
        for pattern, advice in _WORDS.items():
            for found in pattern.finditer(_CODE.sub("", piece)):
                yield f'{path.relative_to(CHECKOUT)}:{line}: "{found[0]}": {advice}'
    if path.suffix == ".py" and _is_question(text):
        yield f"{path.relative_to(CHECKOUT)}:1: a module docstring is a statement, not a question"


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module and the string constants that are sentences."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, line


def _is_question(text: str) -> bool:
    summary, _, _ = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    return summary.rstrip().endswith("?")


def _tracked(places: Sequence[str]) -> list[Path]:
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places)
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)  # noqa: S603
    paths = (CHECKOUT / name for name in listed.stdout.splitlines())
    return [p for p in paths if p.suffix in {".py", *_TEXT_SUFFIXES} and p.exists()]


def main(arguments: Sequence[str]) -> int:
    """Lint the given paths, or the whole checkout, and return the exit code."""
    places = arguments or [":!tests/data", ":!docgen/prose.py", ":!tests/unit/docgen/test_prose.py"]
    found = [line for path in _tracked(places) for line in findings(path)]
    print("\n".join(found) or "prose: no findings")  # noqa: T201 - a command's output
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
