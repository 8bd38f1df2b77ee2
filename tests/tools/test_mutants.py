"""Mutants are small faults that fit the tree, kept or random."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from mutants.__main__ import ROOT, Result, Tree, Verdict, judge, parser, select, summary
from mutants.catalogue import LISTS, Mutant, problems, read_mutants
from mutants.random_faults import random_mutants

A_MUTANT = Mutant("a", "Adds.", "sum.py", "a + b", "a - b", ("test_sum.py",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of one file and its test."""
    (tmp_path / "sum.py").write_text("def total(a, b):\n    return a + b\n")
    (tmp_path / "test_sum.py").touch()
    return tmp_path


def test_a_mutant_fits_if_its_text_stands_once(tree: Path) -> None:
    """A mutant whose text moved is refused with its name."""
    assert problems([A_MUTANT], tree) == []
    (tree / "sum.py").write_text("def total(a, b):\n    return a + b + (a + b)\n")
    assert problems([A_MUTANT], tree) == ["a: sum.py has its old text 2 times."]
    (tree / "test_sum.py").unlink()
    (tree / "sum.py").unlink()
    assert problems([A_MUTANT], tree) == ["a: there is no file sum.py."]


def test_the_kept_lists_fit_the_tree() -> None:
    """A change of a mutated line must change its list as well; 60 faults are kept at least."""
    mutants = read_mutants(*LISTS)
    assert problems(mutants, ROOT) == []
    assert len(mutants) >= 60


def test_random_mutants_are_those_of_their_seed() -> None:
    """Each is another small change of a file that still compiles."""
    first = random_mutants(ROOT, 20, seed=3)
    assert first == random_mutants(ROOT, 20, seed=3)
    assert first != random_mutants(ROOT, 20, seed=4)
    assert problems(first, ROOT) == []
    for mutant in first:
        compile(mutant.new, mutant.file, "exec")


@pytest.mark.parametrize("options", [[], ["--random", "20", "--seed", "3"]], ids=["kept", "random"])
def test_the_parts_of_a_list_are_all_of_it(options: list[str]) -> None:
    """A long list can be run in pieces: each fault belongs to exactly one part."""

    def names(*more: str) -> list[str]:
        return [each.name for each in select(parser().parse_args([*options, *more]))]

    parts = [names("--part", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(chain.from_iterable(parts)) == sorted(names())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b"])
def test_a_part_that_cannot_be_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message shows how a part is written."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--part", part])
    assert "write 2/5 for the second of five" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("test", "new", "expected", "how"),
    [
        ("assert total(1, 2) == 3", "a - b", "noticed", "test_sum.py::test_total"),
        ("assert total(0, 0) == 0", "a - b", "survived", "every test passed"),
        ("assert total(1, 2) == 3", "a +", "invalid", "the tests could not load"),
    ],
)
def test_only_a_test_that_ran_notices_a_fault(
    tmp_path: Path, test: str, new: str, expected: Verdict, how: str
) -> None:
    """A fault that keeps the tests from loading proves nothing about them."""
    tree = Tree.__new__(Tree)
    tree.folder, tree.limit_seconds = tmp_path, None
    (tmp_path / "sum.py").write_text("def total(a, b):\n    return a + b\n")
    profile = "import hypothesis\nhypothesis.settings.register_profile('mutants')\n"
    (tmp_path / "conftest.py").write_text(profile)
    (tmp_path / "test_sum.py").write_text(
        f"from sum import total\n\ndef test_total():\n    {test}\n"
    )
    found = judge(tree, replace(A_MUTANT, new=new))
    assert found.verdict == expected
    assert found.how.startswith(how)


def test_an_invalid_mutant_fails_with_a_sentence() -> None:
    """Survivors may be few, invalid mutants none."""

    def results(*verdicts: Verdict) -> list[Result]:
        return [Result(A_MUTANT, verdict, "", 0.0) for verdict in verdicts]

    assert summary(results("noticed", "survived"), 1) == (
        "1 of 2 faults were noticed.\n  survived: a: Adds.",
        0,
    )
    assert summary(results("survived", "survived"), 1)[1] == 1
    text, code = summary(results("noticed", "invalid"), 1)
    assert code == 1
    assert "invalid: a: sum.py cannot be loaded with it. Replace the mutant" in text
