"""The comment of every example has its commands, its time and how it ends."""

from itertools import takewhile
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"


def test_examples_start_with_a_description() -> None:
    """The first line is a question; the comment has commands, time and both ends."""
    files = sorted(FOLDER.glob("*.yaml"))
    assert len(files) > 10
    for file in files:
        lines = file.read_text().splitlines()
        comment = " ".join(line.removeprefix("#").strip() for line in takewhile(_is_comment, lines))
        assert lines[0].startswith("# "), file
        assert lines[0].endswith("?"), file
        folder = "" if (FOLDER / file.stem).is_dir() else "examples/"
        needs_cluster = "inferometer run` refuses it" in comment
        command = "kubectl apply -f" if needs_cluster else "inferometer run"
        assert f"{command} {folder}{file.name}" in comment, file
        assert "In a cluster: " in comment, file
        assert "takes about " in comment.lower(), file
        assert max(map(len, lines)) <= 100, file


def _is_comment(line: str) -> bool:
    return line.startswith("#")
