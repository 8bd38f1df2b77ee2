"""The kept list of small faults, read from `mutants.toml` and checked against the tree."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("mutants.toml")


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


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list; ValueError names the entry that is malformed or repeated."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants: dict[str, Mutant] = {}
    for entry in entries:
        name = entry.get("name", "(no name)")
        if name in mutants:
            raise ValueError(f"{path.name} has two mutants called {name!r}.")
        try:
            mutants[name] = Mutant(**{**entry, "tests": tuple(entry["tests"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"The mutant {name!r} in {path.name} is malformed: {error}.") from None
    return list(mutants.values())


def problems(mutants: list[Mutant], root: Path) -> list[str]:
    """Return a sentence for each mutant that does not fit the tree any more."""
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
