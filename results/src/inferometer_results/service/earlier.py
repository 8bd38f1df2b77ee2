"""Earlier results of the same run: equal specification, started before."""

from typing import Any

from inferometer_api.results.reading import UnreadableResultError, read_result
from inferometer_api.results.result import ResultDocument
from inferometer_results.service.run_list import ListedRun, listed_run
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store

_MOST_READ = 10
"""Documents are large: this many results of the run are looked at."""
_OF_NO_FIGURE = {"retention", "suspend", "cancel"}


def earlier_results(store: Store, row: dict[str, Any], document: ResultDocument) -> list[ListedRun]:
    """Return results of a run with the same name and specification, newest first."""
    name, started = row["name"], row["started_at"]
    if '"' in name or "\0" in name:
        return []
    search = Search(f'run="{name}" and started<"{started}"', limit=_MOST_READ)
    wanted = _spec(document)
    found = []
    for each in store.find(search):
        try:
            other = read_result(store.read(each["id"]).content, source=each["id"]).document
        except UnreadableResultError:
            continue
        if _spec(other) == wanted:
            found.append(listed_run(each))
    return found


def _spec(document: ResultDocument) -> dict[str, Any]:
    return document.run.spec.model_dump(mode="json", exclude=_OF_NO_FIGURE)
