"""Earlier results of the same run on this machine, from the folder of the results."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_cli.result_file import RESULT_NAME
from inferometer_results.compare.run_to_run import name_spread

_MOST_READ = 30
"""So many of the latest files are looked at: reading them takes less than a second."""


def with_run_to_run_spread(document: ResultDocument, directory: Path) -> ResultDocument:
    """Return a result that is about to be saved, with its spread over earlier results.

    Those are next to the directory, and in it if an earlier result was renamed there. Results of
    another run, of another machine or of another model file do not count.
    """
    is_single = document.run.spec.validity.repeats == 1
    if document.outcome.state != "Complete" or document.environment is None or not is_single:
        return document
    earlier = list(_earlier(document, directory))
    folder = directory.parent
    where = "the current directory" if folder == Path() else str(folder)
    return name_spread(document, earlier, f"in {where}") if earlier else document


def _earlier(document: ResultDocument, directory: Path) -> Iterator[ResultDocument]:
    identity = _identity(json.loads(document.model_dump_json(exclude_none=True)))
    stem, suffix = Path(RESULT_NAME).stem, Path(RESULT_NAME).suffix
    found = [
        *directory.parent.glob(f"*/{RESULT_NAME}"),
        *directory.glob(f"{stem}-*{suffix}"),
    ]
    for path in sorted(found, key=_modified, reverse=True)[:_MOST_READ]:
        try:
            text = path.read_text(encoding="utf-8")
            if _identity(json.loads(text)) == identity:
                yield read_result(text, source=str(path)).document
        except (OSError, ValueError):
            # Another program's file, or one of a newer version: no earlier result.
            continue


def _identity(document: Any) -> Any:
    """Return what earlier results must have in common with a result."""
    try:
        environment = document["environment"]
        node, model = environment["node"], environment["model"]
        place = (environment["place"], node["hostname"], node["cpuModel"], node["cpuCount"])
        return document["outcome"]["state"], document["run"]["spec"], place, model.get("sha256")
    except (AttributeError, KeyError, TypeError):
        return None


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
