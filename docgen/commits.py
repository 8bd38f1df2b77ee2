"""Judge of the subjects of the newest commits: `area: imperative summary`, at most 72 columns.

`python -m docgen.commits` prints one line per finding and exits with 1 if there is any.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_NEWEST = 20
_SINCE_SECONDS = 1795907521
"""Unix time of the last commit before the rule was checked; older ones stay as they are."""
_COLUMNS = 72
_SUBJECT = re.compile(r"[a-z][\w./-]*(, [a-z][\w./-]*)*: \S")


def findings(log: str) -> Iterator[str]:
    """Yield a line for each violation in a log.

    Each line of the log has a commit's Unix time, hash, parents and subject between tabs.
    """
    for line in log.splitlines():
        seconds, commit, parents, subject = line.split("\t", 3)
        if int(seconds) <= _SINCE_SECONDS:
            continue
        if len(parents.split()) > 1:
            yield f"{commit}: a merge commit: rebase instead"
            continue
        if not _SUBJECT.match(subject):
            yield f'{commit}: "{subject}": begin with the area and a colon, as in "docs: ..."'
        if len(subject) > _COLUMNS:
            yield f'{commit}: "{subject}": {len(subject)} columns, at most {_COLUMNS}'


def newest(checkout: Path) -> str:
    """Return the log of the newest commits; raises OSError or CalledProcessError without any."""
    command = ("git", "log", f"-{_NEWEST}", "--format=%ct%x09%h%x09%p%x09%s")
    done = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout


def main(checkout: Path = CHECKOUT) -> int:
    """Judge the newest commits and return the exit code.

    With `CI=true` none is judged: a checkout there may be a merge that its host has made.
    """
    if os.environ.get("CI") == "true":
        print("commits: left out, because CI checks out merges of its own")  # noqa: T201 - output
        return 0
    try:
        found = list(findings(newest(checkout)))
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "").strip() or error
        print(f"commits: left out, because there is no history here: {why}")  # noqa: T201 - output
        return 0
    print("\n".join(found) or "commits: no findings")  # noqa: T201 - a command's output
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
