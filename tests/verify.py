"""Runs the groups of `make verify`, and repeats only tests that have not passed.

The outcome of each test is kept for the commit and what differs from it. Exit codes: 0 every test
passed, 1 some failed, 3 some were inconclusive, 130 interrupted.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from support.outcomes import OUTCOMES_VARIABLE, Outcome, read_outcomes
from tiers import GROUPS, ROOT, files_of, groups_for

STATE = ROOT / ".cache" / "verify"
"""One folder per state of the checkout: the outcomes of each group, and a mark if it passed."""
_PASSED, _NO_TESTS = 0, 5
_FAILURE, _INCONCLUSIVE, _INTERRUPTED = 1, 3, 130

Verdict = Literal["passed", "inconclusive", "failed"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested groups; return the exit code."""
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--changed-since", metavar="BASE", help="only groups that changes call for")
    parser.add_argument("--again", action="store_true", help="repeat tests that passed as well")
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
            _outcomes(state, group).unlink(missing_ok=True)
    verdicts: dict[str, Verdict] = {}
    interrupted = False
    try:
        for group in groups:
            verdicts[group] = finish(group, state)
    except KeyboardInterrupt:
        interrupted = True
    outcomes = [each for group in groups for each in _last_outcomes(state, group)]
    if left := summary(groups, verdicts, outcomes):
        say(left)
    return _INTERRUPTED if interrupted else exit_code(verdicts.values())


def finish(group: str, state: Path) -> Verdict:
    """Run the tests of a group that have not passed yet in this state of the checkout."""
    mark = state / group
    if mark.exists():
        say(f"{group}: passed before in this state of the checkout ({mark.read_text().strip()}).")
        return "passed"
    began = time.monotonic()
    say(f"\n== {group} ==")
    code = run_tests(group, _outcomes(state, group))
    minutes = (time.monotonic() - began) / 60
    verdict = judge(code, _last_outcomes(state, group))
    say(f"{group}: {verdict}, {minutes:.1f} min")
    if verdict == "passed":
        mark.write_text(f"{minutes:.1f} min\n")
    return verdict


def run_tests(group: str, outcomes: Path) -> int:
    """Run the tests of a group that its outcomes do not hold as finished; return pytest's code.

    Ctrl-C reaches pytest as well, which first removes what its tests started.
    """
    interrupted = False
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--durations=10", *files_of(GROUPS[group])],
        cwd=ROOT,
        env=os.environ | {OUTCOMES_VARIABLE: str(outcomes)},
    ) as process:
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    return process.returncode


def judge(code: int, outcomes: Iterable[Outcome]) -> Verdict:
    """Return the verdict on a group by pytest's exit code and the last outcome of each test."""
    states = {each.state for each in outcomes}
    ran = code == _PASSED or (code == _NO_TESTS and bool(states))  # no test was left to run
    if not ran or "failed" in states:
        return "failed"
    return "inconclusive" if "inconclusive" in states else "passed"


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return the exit code for the verdicts on all groups."""
    found = set(verdicts)
    if "failed" in found:
        return _FAILURE
    return _INCONCLUSIVE if "inconclusive" in found else 0


def summary(
    groups: Iterable[str], verdicts: Mapping[str, Verdict], outcomes: Iterable[Outcome]
) -> str:
    """Return what was skipped, is inconclusive, failed or left to run, and how to go on."""
    outcomes = list(outcomes)
    lines = []
    skipped = Counter(each.reason for each in outcomes if each.state == "skipped")
    if skipped:
        lines.append("\nSkipped, so not verified here:")
        lines += [f"  {number} x {reason}" for reason, number in skipped.items()]
    inconclusive = [
        f"  {each.test}: {each.reason}" for each in outcomes if each.state == "inconclusive"
    ]
    if inconclusive:
        lines += ["\nThe machine was not quiet. Leave it alone and repeat: make verify"]
        lines += inconclusive
    failed = [group for group, verdict in verdicts.items() if verdict == "failed"]
    if failed:
        lines.append(f"\nFailed: {_listed(failed)}. Repeat one: make verify GROUP={failed[0]}")
    left = [group for group in groups if group not in verdicts]
    if left:
        lines.append(f"\nInterrupted. Not finished: {_listed(left)}. Go on: make verify")
    return "\n".join(lines)


def state_folder() -> Path:
    """Return the folder for what is checked out now."""
    names = _git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    untracked = {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}
    commit = _git("rev-parse", "HEAD").strip()
    folder = STATE / state_name(commit, _git("diff", "--binary", "HEAD"), untracked)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def state_name(commit: str, difference: str, untracked: Mapping[str, bytes]) -> str:
    """Return a name for a commit, what differs from it, and files that git does not know."""
    if not difference and not untracked:
        return commit[:12]
    digest = sha256(difference.encode(errors="surrogateescape"))
    for name, content in sorted(untracked.items()):
        digest.update(sha256(name.encode()).digest() + sha256(content).digest())
    return f"{commit[:12]}-{digest.hexdigest()[:8]}"


def changed_files(base: str) -> list[str]:
    """Return the files that changed since HEAD left a branch, old names and new files included."""
    left_at = _git("merge-base", base, "HEAD").strip()
    tracked = _git("diff", "-z", "--name-only", "--no-renames", left_at)
    new = _git("ls-files", "-z", "--others", "--exclude-standard")
    return sorted({*tracked.split("\0"), *new.split("\0")} - {""})


def _outcomes(state: Path, group: str) -> Path:
    return state / f"{group}.outcomes"


def _last_outcomes(state: Path, group: str) -> list[Outcome]:
    return list(read_outcomes(_outcomes(state, group)).values())


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(re.sub(r"^fatal: ", "git: ", done.stderr.strip()))
    return done.stdout


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no group"


def say(text: str) -> None:
    """Print a text at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
