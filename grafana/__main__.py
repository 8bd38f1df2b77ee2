"""Are the dashboards and rules that Grafana and Prometheus load fresh, and who writes them?

`python -m grafana` writes them into the checkout; with `--check` it only compares.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grafana import dashboards, rules

CHECKOUT = Path(__file__).resolve().parents[1]


def generated_files() -> dict[str, str]:
    """Return the text of each generated file by its path in the checkout."""
    return rules.files() | dashboards.files()


def stale_files(root: Path) -> tuple[str, ...]:
    """Return a sentence for each generated file that is absent or not what the code says."""
    return tuple(
        f"{name} is {'not what grafana/ says' if (root / name).is_file() else 'missing'}:"
        " run make generate and commit the change."
        for name, text in generated_files().items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the generated files; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m grafana", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file is stale")
    options = parser.parse_args(arguments)
    if options.check:
        sentences = stale_files(CHECKOUT)
        sys.stderr.writelines(f"{sentence}\n" for sentence in sentences)
        return 1 if sentences else 0
    for name, text in generated_files().items():
        path = CHECKOUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
