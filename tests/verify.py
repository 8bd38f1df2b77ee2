"""Runs the groups of `make verify`, remembers the finished ones, and lists inconclusive tests."""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from tiers import GROUPS, ROOT, files_of, groups_for

STATE = ROOT / ".cache" / "verify"
"""One folder per commit, with a file for each finished group."""
INCONCLUSIVE_VARIABLE = "INFEROMETER_INCONCLUSIVE"
"""Names the file to which tests/conftest.py writes inconclusive tests."""
_NO_TESTS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested groups; return 1 if one fails."""
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--changed-since", metavar="BASE", help="only groups that changes call for")
    parser.add_argument("--again", action="store_true", help="repeat groups that are finished")
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"Unknown group: {', '.join(sorted(unknown))}. Groups: {', '.join(GROUPS)}.")
    groups = options.groups or list(GROUPS)
    if options.changed_since:
        changed = changed_files(options.changed_since)
        groups = [group for group in groups_for(changed) if group in groups]
        say(f"{len(changed)} files changed since {options.changed_since}: {_listed(groups)}.")
    state = state_folder()
    if options.again:
        for group in groups:
            (state / group).unlink(missing_ok=True)
    failed = [group for group in groups if not finish(group, state)]
    inconclusive = [line for group in groups for line in inconclusive_tests(state, group)]
    if inconclusive:
        say("\nInconclusive, because the machine was not quiet. Repeat these alone on the machine:")
        say("\n".join(f"  {line}" for line in inconclusive))
    if failed:
        say(f"\nFailed: {_listed(failed)}. Repeat one: make verify GROUP={failed[0]}")
    return int(bool(failed))


def finish(group: str, state: Path) -> bool:
    """Run a group unless it has finished on this commit; return whether it passes."""
    mark = state / group
    if mark.exists():
        say(f"{group}: passed before on this commit ({mark.read_text().strip()}).")
        return True
    notes = _notes(state, group)
    notes.unlink(missing_ok=True)
    began = time.monotonic()
    say(f"\n== {group} ==")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--durations=10", *files_of(GROUPS[group])],
        cwd=ROOT,
        env=os.environ | {INCONCLUSIVE_VARIABLE: str(notes)},
        check=False,
    )
    minutes = (time.monotonic() - began) / 60
    say(f"{group}: {minutes:.1f} min")
    if done.returncode not in {0, _NO_TESTS}:
        return False
    mark.write_text(f"{minutes:.1f} min\n")
    return True


def state_folder() -> Path:
    """Return the folder for what is checked out now: the commit, and a hash of what differs."""
    commit = _git("rev-parse", "HEAD").strip()
    status = _git("status", "--porcelain")
    difference = _git("diff", "HEAD") + status
    name = commit[:12] + (f"-{sha256(difference.encode()).hexdigest()[:8]}" if status else "")
    folder = STATE / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def changed_files(base: str) -> list[str]:
    """Return the files that differ from a commit, those that git does not know yet included."""
    tracked = _git("diff", "--name-only", base)
    new = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*tracked.splitlines(), *new.splitlines()})


def inconclusive_tests(state: Path, group: str) -> list[str]:
    """Return the inconclusive tests of a group's last run, each with its figure."""
    notes = _notes(state, group)
    return notes.read_text().splitlines() if notes.exists() else []


def _notes(state: Path, group: str) -> Path:
    return state / f"{group}.inconclusive"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(re.sub(r"^fatal: ", "git: ", done.stderr.strip()))
    return done.stdout


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no group"


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
