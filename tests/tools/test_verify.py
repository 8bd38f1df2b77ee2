"""`make verify` repeats what has not passed; an inconclusive test has not."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import tiers
import verify
from support.outcomes import OUTCOMES_VARIABLE, Outcome, State, read_outcomes
from support.waiting import wait_until

ONE, OTHER = "test_group.py::test_one", "test_group.py::test_other"
REASON = "inconclusive: tasks waited for a CPU 60.0%"
TESTS = f"""
import os, signal, time
import pytest

def test_one():
    pass

def test_other():
    match os.environ["OTHER"]:
        case "fails":
            assert False
        case "hangs":
            open("hangs", "w").close()
            time.sleep(600)
        case "inconclusive":
            pytest.skip({REASON!r})
        case "skipped":
            pytest.skip("no compiler")
"""
TEARDOWN = """
import pytest

@pytest.fixture
def broken():
    yield
    raise OSError

def test_one(broken):
    pass
"""


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a checkout with one group of two tests; return its folder."""
    (tmp_path / "conftest.py").write_text((tiers.ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_group.py").write_text(TESTS)
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(verify, "GROUPS", {"local": ("test_group.py",)})
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setattr(verify, "files_of", list)
    monkeypatch.setattr(verify, "state_folder", lambda: tmp_path / "state")
    monkeypatch.setenv("PYTHONPATH", str(tiers.ROOT / "tests"))
    monkeypatch.delenv(OUTCOMES_VARIABLE, raising=False)
    return tmp_path


def states(folder: Path) -> dict[str, State]:
    """Return the state of each test that was recorded."""
    outcomes = read_outcomes(folder / "state/local.outcomes")
    return {name: outcome.state for name, outcome in outcomes.items()}


def ran(folder: Path) -> list[str]:
    """Return the tests that ran, once for each time."""
    lines = (folder / "state/local.outcomes").read_text().splitlines()
    return [ONE if ONE in line else OTHER for line in lines]


@pytest.mark.parametrize(
    ("other", "state", "code"), [("fails", "failed", 1), ("inconclusive", "inconclusive", 3)]
)
def test_only_what_has_not_passed_runs_again(
    group: Path, monkeypatch: pytest.MonkeyPatch, other: str, state: State, code: int
) -> None:
    """A failed or inconclusive test is repeated without the others, until it passes."""
    monkeypatch.setenv("OTHER", other)
    assert verify.main([]) == code
    assert states(group) == {ONE: "passed", OTHER: state}
    monkeypatch.setenv("OTHER", "passes")
    assert verify.main([]) == 0
    assert verify.main([]) == 0
    assert ran(group) == [ONE, OTHER, OTHER]


def test_a_finished_group_runs_again_if_requested(
    group: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A test that cannot run here is finished; --again forgets every outcome."""
    monkeypatch.setenv("OTHER", "skipped")
    assert verify.main([]) == 0
    assert states(group) == {ONE: "passed", OTHER: "skipped"}
    assert verify.main([]) == 0
    said = capsys.readouterr().out
    assert "local: passed before in this state of the checkout" in said
    assert said.count("Skipped, so not verified here:\n  1 x ") == 2
    assert verify.main(["--again", "local"]) == 0
    assert capsys.readouterr().out.startswith("\n== local ==")
    assert ran(group) == [ONE, OTHER]


def test_what_is_left_is_listed() -> None:
    """Inconclusive tests with their figure, failed groups, and groups that were not finished."""
    outcomes = [Outcome(ONE, "passed"), Outcome(OTHER, "inconclusive", REASON)]
    said = verify.summary(["local", "nodes"], {"local": "failed"}, outcomes)
    assert f"repeat: make verify\n  {OTHER}: {REASON}\n" in said
    assert "Failed: local. Repeat one: make verify GROUP=local\n" in said
    assert said.endswith("Interrupted. Not finished: nodes. Go on: make verify")
    assert verify.summary(["local"], {"local": "passed"}, outcomes[:1]) == ""


def test_a_group_without_tests_fails(group: Path) -> None:
    """A group whose files were emptied must not pass."""
    (group / "test_group.py").write_text("")
    assert verify.main([]) == 1


def test_a_test_whose_teardown_fails_has_not_passed(group: Path) -> None:
    """It is repeated."""
    (group / "test_group.py").write_text(TEARDOWN)
    assert verify.main([]) == 1
    assert states(group) == {ONE: "failed"}


def test_an_interrupted_group_goes_on_at_its_unfinished_test(group: Path) -> None:
    """Ctrl-C ends pytest and `make verify`, which says what is left, with exit code 130."""
    script = (
        "import signal, sys, pathlib, verify\n"
        # A shell starts what runs in its background without this signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "verify.GROUPS = {'local': ('test_group.py',)}\n"
        "verify.ROOT, verify.files_of = pathlib.Path.cwd(), list\n"
        "verify.state_folder = lambda: pathlib.Path('state')\n"
        "sys.exit(verify.main([]))\n"
    )

    def start(other: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=group,
            env=os.environ | {"OTHER": other},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    with start("hangs") as process:
        wait_until(lambda: (group / "hangs").exists() or process.poll() is not None, "a test")
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. Not finished: local. Go on: make verify" in said
    assert ran(group) == [ONE]
    with start("passes") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert ran(group) == [ONE, OTHER]


@pytest.mark.parametrize(
    ("code", "found", "verdict"),
    [
        (0, ["passed", "skipped"], "passed"),
        (0, ["passed", "inconclusive"], "inconclusive"),
        (1, ["passed", "failed"], "failed"),
        (2, ["passed"], "failed"),
        (5, [], "failed"),
        (5, ["passed"], "passed"),
    ],
)
def test_the_verdict_on_a_group(code: int, found: Sequence[State], verdict: str) -> None:
    """No tests at all fail; tests that all passed before do not."""
    assert (
        verify.judge(code, [Outcome(str(at), state) for at, state in enumerate(found)]) == verdict
    )


def test_a_failure_counts_more_than_an_inconclusive_group() -> None:
    """The exit code names the worst."""
    assert verify.exit_code(["passed", "passed"]) == 0
    assert verify.exit_code(["passed", "inconclusive"]) == 3
    assert verify.exit_code(["failed", "inconclusive"]) == 1


def test_the_state_of_the_checkout_holds_every_content() -> None:
    """The commit, the difference, and the names and contents of files that git does not know."""
    name = verify.state_name("0123456789abcdef", "", {})
    assert name == "0123456789ab"
    others = [
        verify.state_name("0123456789abcdef", "+ a line", {}),
        verify.state_name("0123456789abcdef", "", {"new": b"1"}),
        verify.state_name("0123456789abcdef", "", {"new": b"2"}),
        verify.state_name("0123456789abcdef", "", {"old": b"2"}),
    ]
    assert len({name, *others}) == 5
    assert all(each.startswith(f"{name}-") for each in others)


def test_a_change_is_what_a_branch_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both names of a renamed file and new files count, what main did in the meantime does not."""
    monkeypatch.setattr(verify, "ROOT", tmp_path)

    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text(f"{name}\n" * 9)
        git("add", name)
        git("commit", "-m", name)

    git("init", "-b", "main")
    commit("old")
    git("switch", "-c", "branch")
    git("mv", "old", "moved ü")
    git("commit", "-m", "move")
    git("switch", "main")
    commit("of main")
    git("switch", "branch")
    (tmp_path / "new").touch()
    assert verify.changed_files("main") == ["moved ü", "new", "old"]
    monkeypatch.setattr(verify, "STATE", tmp_path / ".git" / "verify")
    empty = verify.state_folder()
    (tmp_path / "new").write_text("content")
    assert verify.state_folder() != empty


def test_only_the_groups_of_a_change_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`make verify-changed` runs what the changed files call for."""
    finished: list[str] = []

    def finish(group: str, _: Path) -> str:
        finished.append(group)
        return "passed"

    monkeypatch.setattr(verify, "finish", finish)
    monkeypatch.setattr(verify, "state_folder", lambda: tmp_path)
    monkeypatch.setattr(verify, "changed_files", lambda _: ["grafana/rules/alerts.py"])
    assert verify.main(["--changed-since", "main"]) == 0
    assert finished == ["dashboards"]


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the groups that there are."""
    with pytest.raises(SystemExit):
        verify.main(["everything"])
    assert "Unknown group: everything. Groups: accuracy, local," in capsys.readouterr().err
