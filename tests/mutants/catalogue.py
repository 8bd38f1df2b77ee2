"""The kept lists of small faults, read and checked against the tree."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LISTS = tuple(Path(__file__).with_name(name) for name in ("mutants.toml", "independent.toml"))


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small fault: a text in a file, its replacement, and the tests that should notice."""

    name: str
    description: str
    """One sentence: what the faulty program does."""
    file: str
    """Relative to the checkout."""
    old: str
    """The exact text, which stands in the file once."""
    new: str
    tests: tuple[str, ...]
    """Files, folders or node ids, as pytest takes them."""


def read_mutants(*lists: Path) -> list[Mutant]:
    """Return the mutants of some lists; ValueError names an entry that is malformed or repeated."""
    mutants: dict[str, Mutant] = {}
    for path in lists:
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            name = entry.get("name", "(no name)")
            if name in mutants:
                raise ValueError(f"{path.name} has a second mutant {name!r}.")
            try:
                mutants[name] = Mutant(**{**entry, "tests": tuple(entry["tests"])})
            except (KeyError, TypeError) as error:
                raise ValueError(f"{path.name}: {name!r} is malformed: {error}.") from None
    return list(mutants.values())


def problems(mutants: list[Mutant], root: Path) -> list[str]:
    """Return a sentence for each mutant that no longer fits the tree."""
    found = []
    for mutant in mutants:
        file = root / mutant.file
        if not file.is_file():
            found.append(f"{mutant.name}: there is no file {mutant.file}.")
            continue
        count = file.read_text(encoding="utf-8").count(mutant.old)
        if count != 1:
            found.append(f"{mutant.name}: {mutant.file} has its old text {count} times.")
        if mutant.old == mutant.new:
            found.append(f"{mutant.name}: old and new text are the same.")
        if not mutant.tests:
            found.append(f"{mutant.name}: it names no tests.")
        found += [
            f"{mutant.name}: there is no test file {test}."
            for test in mutant.tests
            if not (root / test.partition("::")[0]).exists()
        ]
    return found
