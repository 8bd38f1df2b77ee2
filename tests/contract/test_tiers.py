"""Every test belongs to the gate or to one group of `make verify`; every file has its groups."""

import subprocess
from collections import Counter
from fnmatch import fnmatch

import pytest

import tiers
from support.gate_scheduling import TOGETHER


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """Return the files that git knows."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=tiers.ROOT, capture_output=True, check=True).stdout
    return listed.decode().rstrip("\0").split("\0")


def test_every_test_file_runs_once() -> None:
    """No file of tests is in no tier or in two."""
    every = tiers.files_of(["tests/*"])
    listed = [
        *tiers.gate(),
        *(file for group in tiers.GROUPS.values() for file in tiers.files_of(group)),
    ]
    counted = Counter(listed)
    assert [file for file in every if counted[file] != 1] == []
    assert len(listed) == len(every)


def test_every_pattern_means_something(tracked: list[str]) -> None:
    """A pattern that matches no file is a rename that was forgotten here."""
    grouped = [each for group in tiers.GROUPS.values() for each in group]
    patterns = [*tiers.GATE, *TOGETHER, *grouped]
    assert [each for each in patterns if not tiers.files_of([each])] == []
    patterns = [*tiers.CHANGED, *tiers.EXEMPT]
    assert [each for each in patterns if not any(fnmatch(file, each) for file in tracked)] == []
    assert {group for groups in tiers.CHANGED.values() for group in groups} <= set(tiers.GROUPS)


def test_every_file_has_its_groups_or_a_reason_to_have_none(tracked: list[str]) -> None:
    """The Python files of the tests have the groups that import them."""
    patterns = [*tiers.CHANGED, *tiers.EXEMPT, "tests/*.py"]
    assert [file for file in tracked if not tiers.matches(file, patterns)] == []


@pytest.mark.parametrize(
    ("file", "groups"),
    [
        ("docs/README.md", []),
        ("tests/unit/cli/test_commands.py", []),
        ("tests/support/pretend_api.py", []),
        ("tests/tiers.py", ["tools"]),
        ("grafana/rules/alerts.py", ["dashboards"]),
        ("helm/inferometer-agent/values.yaml", ["nodes", "dashboards"]),
        ("tests/accuracy/test_intervals.py", ["accuracy"]),
        ("loadgen/src/inferometer_loadgen/fleet/clock.py", ["accuracy", "local", "nodes"]),
        (
            "serving/src/inferometer_serving/gpu/device.py",
            ["local", "packaging", "nodes", "gpu"],
        ),
        (
            "serving/src/inferometer_serving/profile/gpu_process.py",
            ["local", "packaging", "nodes", "gpu"],
        ),
        ("tests/support/oracle_server.py", ["accuracy", "local", "nodes", "suites"]),
        (
            "tests/cluster/conftest.py",
            [
                *("stacks", "tasks", "packaging", "operator", "nodes", "results", "suites"),
                "dashboards",
            ],
        ),
        ("tests/support/quiet.py", list(tiers.GROUPS)),
        ("uv.lock", list(tiers.GROUPS)),
    ],
)
def test_a_change_calls_for_its_groups(file: str, groups: list[str]) -> None:
    """The groups are those of the file's folder, or of the tests that consist of the file."""
    assert tiers.groups_for([file]) == groups
