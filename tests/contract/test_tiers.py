"""Every test belongs to the gate or to one group of `make verify`."""

from collections import Counter

import tiers


def test_every_test_file_runs_once() -> None:
    """No file of tests is in no tier or in two."""
    every = tiers.files_of(["tests/*"])
    listed = [
        *tiers.gate(tiers.PARALLEL),
        *tiers.gate(tiers.SERIAL),
        *(file for group in tiers.GROUPS.values() for file in tiers.files_of(group)),
    ]
    counted = Counter(listed)
    assert [file for file in every if counted[file] != 1] == []
    assert len(listed) == len(every)


def test_every_pattern_means_something() -> None:
    """A pattern that matches no file is a rename that was forgotten here."""
    grouped = [each for group in tiers.GROUPS.values() for each in group]
    patterns = [*tiers.PARALLEL, *tiers.SERIAL, *grouped]
    assert [each for each in patterns if not tiers.files_of([each])] == []
    folders = [pattern.partition("*")[0] for pattern in tiers.CHANGED]
    assert [each for each in folders if not (tiers.ROOT / each).exists()] == []
    assert {group for groups in tiers.CHANGED.values() for group in groups} <= set(tiers.GROUPS)


def test_a_change_calls_for_its_groups() -> None:
    """The groups of a change are those of its folders and of the tests that it touches."""
    assert tiers.groups_for(["docs/index.md", "tests/unit/cli/test_commands.py"]) == []
    assert tiers.groups_for(["grafana/rules.py"]) == ["dashboards"]
    assert tiers.groups_for(["tests/accuracy/test_intervals.py"]) == ["accuracy"]
    assert tiers.groups_for(["loadgen/src/inferometer_loadgen/fleet/clock.py"]) == [
        "accuracy",
        "local",
        "nodes",
    ]
