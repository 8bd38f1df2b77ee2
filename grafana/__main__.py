"""Checks or writes the dashboards and rules that Grafana and Prometheus load.

`python -m grafana` writes them into the checkout; with `--check` it only compares.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docgen.files import stale, write

from grafana import dashboards, rules

CHECKOUT = Path(__file__).resolve().parents[1]


def generated_files() -> dict[str, str]:
    """Return the text of each generated file by its path in the checkout."""
    return rules.files() | dashboards.files()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the generated files; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m grafana", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file is stale")
    options = parser.parse_args(arguments)
    if options.check:
        sentences = stale(generated_files(), CHECKOUT, "grafana/ says")
        sys.stderr.writelines(f"{sentence}\n" for sentence in sentences)
        return 1 if sentences else 0
    write(generated_files(), CHECKOUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
