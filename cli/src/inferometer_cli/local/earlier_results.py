"""Earlier results of the same run on this machine: next to its result, and in the database."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.digest import spec_digest
from inferometer_cli.exits import FailedError
from inferometer_cli.result_file import RESULT_NAME, show_notice
from inferometer_cli.result_store import open_store
from inferometer_cli.terminal import print_error
from inferometer_results.compare.run_to_run import name_spread

_MOST_READ = 30
"""So many of the latest results of each place are read: that takes less than a second."""


def with_run_to_run_spread(
    document: ResultDocument, directory: Path, *, is_stored: bool = True
) -> ResultDocument:
    """Return a result that is about to be saved, with its spread over earlier results.

    Those are next to the directory, in it if an earlier result was renamed there, and in this
    machine's database if `is_stored`. Results of another run, of another machine or of another
    model file do not count.
    """
    is_single = document.run.spec.validity.repeats == 1
    if document.outcome.state != "Complete" or document.environment is None or not is_single:
        return document
    try:
        return _with_spread(document, directory, is_stored=is_stored)
    except Exception as error:  # noqa: BLE001 - what is in old files loses no measurement
        print_error(
            "The spread over earlier results is unknown, because one of them cannot be used: "
            f"{type(error).__name__}: {error}"
        )
        return document


def _with_spread(document: ResultDocument, directory: Path, *, is_stored: bool) -> ResultDocument:
    identity = _identity(json.loads(document.model_dump_json(exclude_none=True)))
    found = {each.run_id: each for each in _in_folder(identity, directory)}
    folder = "the current directory" if directory.parent == Path() else str(directory.parent)
    places = [folder] if found else []
    stored = {
        each.run_id: each
        for each in (_in_database(identity, document) if is_stored else ())
        if each.run_id not in found
    }
    places += ["the database"] if stored else []
    earlier = [*found.values(), *stored.values()]
    return name_spread(document, earlier, f"in {' and '.join(places)}") if earlier else document


def _in_folder(identity: Any, directory: Path) -> Iterator[ResultDocument]:
    stem, suffix = Path(RESULT_NAME).stem, Path(RESULT_NAME).suffix
    found = [
        *directory.parent.glob(f"*/{RESULT_NAME}"),
        *directory.glob(f"{stem}-*{suffix}"),
    ]
    for path in sorted(found, key=_modification_time, reverse=True)[:_MOST_READ]:
        try:
            content = path.read_bytes()
        except OSError:
            continue
        if (earlier := _of_same_run(identity, content, str(path))) is not None:
            yield earlier


def _in_database(identity: Any, document: ResultDocument) -> Iterator[ResultDocument]:
    # Slow to import.
    from inferometer_results.store.query import Search

    where = f"spec={spec_digest(document.run.spec)} and outcome=Complete"
    try:
        with open_store(None) as store:
            for row in store.find(Search(where, limit=_MOST_READ)):
                stored = store.read(row["id"])
                if (earlier := _of_same_run(identity, stored.content, row["id"])) is not None:
                    yield earlier
    except (FailedError, OSError, ValueError):
        # The command reports what is wrong with the database when it keeps the result.
        return


def _of_same_run(identity: Any, content: bytes, source: str) -> ResultDocument | None:
    """Return the result in a document; None if it is of another run, or no result."""
    try:
        if _identity(json.loads(content)) == identity:
            return show_notice(read_result(content, source=source))
    except (ValueError, RecursionError):
        # Another program's file, one of a newer version, or one that is nested too deeply.
        pass
    return None


def _identity(document: Any) -> Any:
    """Return what earlier results must have in common with a result."""
    try:
        environment = document["environment"]
        node, model = environment["node"], environment["model"]
        place = (environment["place"], node["hostname"], node["cpuModel"], node["cpuCount"])
        return document["outcome"]["state"], document["run"]["spec"], place, model.get("sha256")
    except (AttributeError, KeyError, TypeError):
        return None


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
