"""The subjects of the newest commits have the form that our rules name."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from docgen.commits import findings, main

_NOW = int(time.time()) + 10**9


@pytest.mark.parametrize(
    ("subject", "parents", "words"),
    [
        ("docs: say whom a page is for", "a", ""),
        ("cli, loadgen/search: discard pilots", "a", ""),
        ("docs: " + "x" * 66, "a", ""),
        ("docs: " + "x" * 67, "a", "73 columns, at most 72"),
        ("Say whom a page is for", "a", "begin with the area"),
        ("docs:say whom a page is for", "a", "begin with the area"),
        ("docs: say whom a page is for", "a b", "a merge commit"),
        ("docs: the first commit of a shallow clone", "", ""),
    ],
)
def test_a_subject_is_judged_by_its_form(subject: str, parents: str, words: str) -> None:
    """Area, width, and one parent at most."""
    found = list(findings(f"{_NOW}\tabc\t{parents}\t{subject}\n"))
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_commits_from_before_the_rule_stay_as_they_are() -> None:
    """The history is not rewritten."""
    assert list(findings("1700000000\tabc\ta\tAn older one\n")) == []


def _commit(folder: Path, subject: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    words = ("commit", "-q", "--allow-empty", "-m", subject)
    environment = os.environ | {"GIT_COMMITTER_DATE": f"@{_NOW} +0000"}
    subprocess.run(["git", *who, *words], cwd=folder, check=True, env=environment)


def test_a_shallow_clone_is_judged_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any history, and with CI=true, the command prints why it judges nothing."""
    monkeypatch.delenv("CI", raising=False)
    assert main(tmp_path) == 0
    whole = tmp_path / "whole"
    subprocess.run(["git", "init", "-q", str(whole)], check=True)
    assert main(whole) == 0
    assert capsys.readouterr().out.count("left out, because there is no history here: ") == 2
    _commit(whole, "No area")
    _commit(whole, "docs: an area")
    assert main(whole) == 1
    assert '"No area"' in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert main(whole) == 0
    assert "left out, because CI " in capsys.readouterr().out
    monkeypatch.delenv("CI")
    clone = ["git", "clone", "-q", "--depth", "1", f"file://{whole}", str(tmp_path / "shallow")]
    subprocess.run(clone, check=True)
    assert main(tmp_path / "shallow") == 0
    assert capsys.readouterr().out == "commits: no findings\n"
