"""Reads results from the store of this machine, or from the results service of a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from inferometer_cli.cluster.options import ClusterOptions
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import is_plugin
from inferometer_cli.result_store import entry, open_store, text_arguments
from inferometer_results.store.scenario_rows import without_number

if TYPE_CHECKING:
    from inferometer_api.results.result import ResultDocument
    from inferometer_cli.cluster.results_service import ResultsService
    from inferometer_results.store.index_rows import JournalRow
    from inferometer_results.store.query import Search
    from inferometer_results.store.store import Page, Store

ClusterOption = Annotated[
    bool,
    typer.Option(
        "--cluster",
        help="Use the results service of the cluster instead of this machine's store; "
        "`kubectl inferometer` and the options of a cluster imply it.",
    ),
]


class ResultSource(Protocol):
    """Results to find and to read."""

    def search(self, search: "Search") -> "Page":
        """Return the results of a search, and how many there are without its limit."""
        ...

    def resolve(self, prefix: str) -> str:
        """Return the one ID that begins so."""
        ...

    def document(self, prefix: str) -> bytes:
        """Return the document of the result whose ID begins so."""
        ...

    def retraction(self, prefix: str) -> str | None:
        """Return why the result whose ID begins so is retracted, None if it is not."""
        ...

    def every(self, where: str) -> list[dict[str, Any]]:
        """Return all results that match a condition, in the order of their start."""
        ...

    def archive(self) -> Iterator[str]:
        """Yield the lines of `results export --all`."""
        ...

    def journal(self, where: str) -> list[tuple[str, "JournalRow"]]:
        """Return what people added to the results that match a condition, with their IDs."""
        ...

    def annotate(self, prefix: str, action: str, text: str) -> None:
        """Add an entry to the journal of the result whose ID begins so."""
        ...

    def delete(self, prefixes: Sequence[str]) -> int:
        """Delete the results whose IDs begin so; return how many there were."""
        ...


@dataclass(frozen=True, slots=True)
class _Local:
    store: "Store"

    def search(self, search: "Search") -> "Page":
        from inferometer_results.store.store import Page

        rows = map(without_number, self.store.find(search))
        return Page(list(rows), self.store.count(search), is_exact=True)

    def resolve(self, prefix: str) -> str:
        return self.store.resolve(prefix)

    def document(self, prefix: str) -> bytes:
        return self.store.read(self.store.resolve(prefix)).content

    def retraction(self, prefix: str) -> str | None:
        return self.store.retraction(self.store.resolve(prefix))

    def every(self, where: str) -> list[dict[str, Any]]:
        from inferometer_results.store.query import Search

        return list(map(without_number, self.store.find(Search(where, "started"))))

    def archive(self) -> Iterator[str]:
        from inferometer_results.store.transfer import archive_lines

        return archive_lines(self.store)

    def journal(self, where: str) -> list[tuple[str, "JournalRow"]]:
        from inferometer_results.store.query import Search

        return self.store.journal(self.store.find_ids(Search(where, with_retracted=True)))

    def annotate(self, prefix: str, action: str, text: str) -> None:
        _check(action, text)
        self.store.note(self.store.resolve(prefix), entry(action, text))

    def delete(self, prefixes: Sequence[str]) -> int:
        return self.store.delete([self.store.resolve(each) for each in prefixes])


@dataclass(frozen=True, slots=True)
class _Cluster:
    service: "ResultsService"
    namespace: str | None

    def search(self, search: "Search") -> "Page":
        where = search.where
        if self.namespace is not None:
            from inferometer_results.store.condition import quoted

            inside = f"namespace={quoted(self.namespace)}"
            where = f"({where}) and {inside}" if where.strip() else inside
        from dataclasses import replace

        from inferometer_cli.cluster.results_service import MOST_RESULTS
        from inferometer_results.store.store import Page

        found: list[dict[str, Any]] = []
        wanted, after = search.limit or 0, search.after
        while True:
            limit = min(MOST_RESULTS, wanted - len(found))
            page = self.service.search(replace(search, where=where, limit=limit, after=after))
            found += page["items"]
            if len(found) >= wanted or len(page["items"]) < MOST_RESULTS:
                return Page(found, page["total"], is_exact=page["total_is_exact"])
            after = found[-1]["id"]

    def resolve(self, prefix: str) -> str:
        return str(self.service.result(prefix)["id"])

    def document(self, prefix: str) -> bytes:
        return self.service.document(prefix)

    def retraction(self, prefix: str) -> str | None:
        reason = self.service.result(prefix)["retracted"]
        return None if reason is None else str(reason)

    def every(self, where: str) -> list[dict[str, Any]]:
        return sorted(self.service.every(where), key=lambda each: (each["started_at"], each["id"]))

    def archive(self) -> Iterator[str]:
        return self.service.archive()

    def journal(self, where: str) -> list[tuple[str, "JournalRow"]]:
        from inferometer_results.store.index_rows import JournalRow

        found = self.service.journal(where)
        return [(each.pop("id"), JournalRow(**each)) for each in found]

    def annotate(self, prefix: str, action: str, text: str) -> None:
        _check(action, text)
        self.service.annotate(prefix, action, text)

    def delete(self, prefixes: Sequence[str]) -> int:
        for each in prefixes:
            self.service.delete(each)
        return len(prefixes)


def _check(action: str, text: str) -> None:
    from inferometer_results.annotation import AnnotationError, check_annotation

    try:
        check_annotation(action, text)
    except AnnotationError as error:
        raise RefusedError(str(error)) from error


def read_stored(source: ResultSource, id_: str) -> "ResultDocument":
    """Return a kept result. Raises RefusedError if there is none, or it cannot be read."""
    from inferometer_cli.result_file import parse_result

    return parse_result(source.document(id_), source=f"Result {id_}")


@contextmanager
def opened_source(
    database: str | None, options: ClusterOptions, *, in_cluster: bool
) -> Iterator[ResultSource]:
    """Open the source that the options of a command name."""
    if database is not None and (in_cluster or options.is_given):
        raise RefusedError("--database is a store of this machine: leave it or the cluster away.")
    if in_cluster or options.is_given or (is_plugin() and database is None):
        from inferometer_cli.cluster.api import connect
        from inferometer_cli.cluster.results_service import ResultsService

        with text_arguments():
            yield _Cluster(ResultsService(connect(options)), options.namespace)
        return
    with open_store(database, must_exist=True) as store:
        yield _Local(store)
