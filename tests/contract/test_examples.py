"""The comment of every example has its commands, its time and how it ends."""

from itertools import takewhile
from pathlib import Path

import yaml

from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.spec.run import BenchmarkRun

FOLDER = Path(__file__).parents[2] / "examples"


def test_examples_start_with_a_description() -> None:
    """The first line is a question; the comment has commands, time and both ends."""
    files = sorted(FOLDER.glob("*.yaml"))
    assert len(files) > 10
    for file in files:
        lines = file.read_text().splitlines()
        comment = _comment(lines)
        assert lines[0].startswith("# "), file
        assert lines[0].endswith("?"), file
        folder = "" if (FOLDER / file.stem).is_dir() else "examples/"
        needs_cluster = "inferometer run` refuses it" in comment
        command = "kubectl apply -f" if needs_cluster else "inferometer run"
        assert f"{command} {folder}{file.name}" in comment, file
        assert "In a cluster: " in comment, file
        assert "takes about " in comment.lower(), file
        assert max(map(len, lines)) <= 100, file


def test_an_example_that_should_be_valid_can_be() -> None:
    """Its scenarios send enough queries for their percentiles."""
    runs = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        text = file.read_text()
        if "ends 0" in _comment(text.splitlines()):
            for fields in yaml.safe_load_all(text):
                if fields["kind"] == "BenchmarkRun":
                    runs[file.name] = BenchmarkRun.model_validate(fields)
    assert len(runs) > 10
    for name, run in runs.items():
        assert not [each for each in spec_warnings(run.spec) if "will be INVALID" in each], name


def _comment(lines: list[str]) -> str:
    return " ".join(line.removeprefix("#").strip() for line in takewhile(_is_comment, lines))


def _is_comment(line: str) -> bool:
    return line.startswith("#")
