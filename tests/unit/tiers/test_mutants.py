"""Mutants are small faults that fit the tree, kept or random."""

from pathlib import Path

import pytest

from mutants.__main__ import ROOT
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
