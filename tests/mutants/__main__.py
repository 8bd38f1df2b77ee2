"""Runs small faults against the tests that should notice them (`make mutants`)."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Literal

from mutants.catalogue import LISTS, Mutant, problems, read_mutants
from mutants.random_faults import random_mutants

ROOT = Path(__file__).resolve().parents[2]
_LEAST_LIMIT_SECONDS = 60.0
_LIMIT_TIMES = 5
"""A mutant whose tests take this many times as long as without a fault is noticed: they hang."""
_PASSED = 0


Verdict = Literal["noticed", "survived", "invalid"]


@dataclass(frozen=True, slots=True)
class Result:
    """The tests' verdict on one mutant; an invalid one keeps the tests from running."""

    mutant: Mutant
    verdict: Verdict
    how: str
    seconds: float


class Tree:
    """A private copy of the checkout in which one fault at a time is put."""

    def __init__(self, folder: Path) -> None:
        """Copy every file that git knows or does not ignore."""
        self.folder = folder
        self.limit_seconds: float | None = None
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            source, target = ROOT / name, folder / name
            if source.is_file() or source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        # Tests ask git which files belong to the project.
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
        (folder / ".venv").symlink_to(ROOT / ".venv")

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Put the fault in for the block; the file's time goes back too, for Python's caches."""
        path = self.folder / mutant.file
        text, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def pytest(self, tests: Sequence[str], *options: str) -> tuple[int | None, str]:
        """Run tests; return the exit code, None past the limit, and the output."""
        sources = sorted(str(each) for each in self.folder.glob("*/src"))
        paths = [*sources, str(self.folder / "tests"), str(self.folder)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),  # before the checkout's own, which is installed
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-q", "-x", *options]
        command += ["-p", "no:cacheprovider", "--hypothesis-profile=mutants", "--tb=line", *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=self.limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout + done.stderr


def judge(tree: Tree, mutant: Mutant) -> Result:
    """Run the tests of a mutant in a tree that has it."""
    began = time.monotonic()
    with tree.mutated(mutant):
        code, output = tree.pytest(mutant.tests)
    return Result(mutant, *verdict(code, output), seconds=time.monotonic() - began)


def verdict(code: int | None, output: str) -> tuple[Verdict, str]:
    """Return the verdict by pytest's exit code (None past the limit) and output, and the reason.

    Only a test that ran notices a fault: it failed, or its fixture did, or it crashed or hung. Code
    that cannot be imported is found by any test, so such a mutant proves nothing.
    """
    match code:
        case None:
            return "noticed", "the tests did not end"
        case 0:
            return "survived", "every test passed"
        case 1 if failed := re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", output, re.MULTILINE):
            return "noticed", failed[1]
        case int() if code < 0:
            return "noticed", f"signal {-code}"
        case _:
            return "invalid", f"the tests could not load: pytest ended with {code}"


def run(mutants: Sequence[Mutant], at_once: int) -> list[Result]:
    """Judge every mutant, some at a time; print each result as it comes."""
    trees: SimpleQueue[Tree] = SimpleQueue()
    printing = Lock()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(at_once):
            trees.put(Tree(Path(folder) / str(number)))
        limit_seconds = refuse_failing_tests(trees, mutants)

        def work(mutant: Mutant) -> Result:
            tree = trees.get()
            tree.limit_seconds = limit_seconds
            try:
                result = judge(tree, mutant)
            finally:
                trees.put(tree)
            with printing:
                shown = result.verdict if result.verdict == "noticed" else result.verdict.upper()
                say(f"{shown:8} {result.seconds:5.1f} s  {mutant.name} ({result.how})")
            return result

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(work, mutants))


def refuse_failing_tests(trees: "SimpleQueue[Tree]", mutants: Sequence[Mutant]) -> float:
    """Return how many seconds a mutant's tests may take.

    Raise RuntimeError if a named test fails without any fault: it would prove nothing.
    """
    tree = trees.get()
    began = time.monotonic()
    named = sorted({test for mutant in mutants for test in mutant.tests})
    say(f"Without a fault: {len(named)} test files and folders ...")
    code, output = tree.pytest(named, "-n", str(os.cpu_count() or 1))
    trees.put(tree)
    if code != _PASSED:
        raise RuntimeError(f"The tests fail without any fault:\n{output[-6000:]}")
    return max(_LEAST_LIMIT_SECONDS, _LIMIT_TIMES * (time.monotonic() - began))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if too many kept faults survive or one is invalid."""
    chosen = parser().parse_args(arguments)
    mutants = select(chosen)
    unfit = problems(mutants, ROOT)
    if unfit:
        say("\n".join(unfit))
        return 2
    if chosen.check:
        return 0
    results = run(mutants, chosen.at_once)
    text, code = summary(results, chosen.survivors)
    say(f"\n{text}")
    return code if chosen.random is None else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    found.add_argument("names", nargs="*", help="only mutants whose name contains one of these")
    found.add_argument("--list", type=Path, help="only this list (default: both kept lists)")
    found.add_argument("--check", action="store_true", help="only check that the lists fit")
    found.add_argument("--random", type=int, metavar="N", help="run N random faults instead")
    found.add_argument("--seed", type=int, default=1, help="of the random faults (default: 1)")
    found.add_argument(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="only the K-th of N parts, as 2/5"
    )
    found.add_argument("--at-once", type=int, default=2, help="how many to run at once")
    found.add_argument("--survivors", type=int, default=3, help="how many may survive")
    return found


def select(chosen: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that the options choose."""
    if chosen.random is not None:
        say(f"seed {chosen.seed}")
        mutants = random_mutants(ROOT, chosen.random, chosen.seed)
    else:
        mutants = read_mutants(*([chosen.list] if chosen.list else LISTS))
    if chosen.names:
        mutants = [each for each in mutants if any(name in each.name for name in chosen.names)]
    part, parts = chosen.part
    return mutants[part - 1 :: parts]


def _part(text: str) -> tuple[int, int]:
    """Return the number of a part and how many parts there are."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: write 2/5 for the second of five")
    return int(part), int(parts)


def summary(results: Sequence[Result], most_survivors: int) -> tuple[str, int]:
    """Return what to print about all mutants, and 1 if too many survived or one is invalid."""
    by_verdict: dict[Verdict, list[Mutant]] = {"noticed": [], "survived": [], "invalid": []}
    for result in results:
        by_verdict[result.verdict].append(result.mutant)
    survived, invalid = by_verdict["survived"], by_verdict["invalid"]
    lines = [f"{len(by_verdict['noticed'])} of {len(results)} faults were noticed."]
    lines += [f"  survived: {each.name}: {each.description}" for each in survived]
    lines += [
        f"  invalid: {each.name}: {each.file} cannot be loaded with it. Replace the mutant by a "
        "fault of behaviour."
        for each in invalid
    ]
    return "\n".join(lines), int(bool(invalid) or len(survived) > most_survivors)


if __name__ == "__main__":
    sys.exit(main())
