"""Where results are read: the store of this machine, or the results service of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from inferometer_cli.cluster.options import ClusterOptions
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import is_plugin
from inferometer_cli.result_store import opened

if TYPE_CHECKING:
    from inferometer_cli.cluster.results_service import ResultsService
    from inferometer_results.store.query import Search
    from inferometer_results.store.store import Store

ClusterOption = Annotated[
    bool,
    typer.Option(
        "--cluster",
        help="Read the results service of the cluster instead of this machine's store; "
        "`kubectl inferometer` and the options of a cluster imply it.",
    ),
]


class ResultSource(Protocol):
    """Results to find and to read."""

    def search(self, search: "Search") -> tuple[list[dict[str, Any]], int]:
        """Return the results of a search, and how many there are without its limit."""
        ...

    def document(self, prefix: str) -> bytes:
        """Return the document of the result whose ID begins so."""
        ...


@dataclass(frozen=True, slots=True)
class _Local:
    store: "Store"

    def search(self, search: "Search") -> tuple[list[dict[str, Any]], int]:
        return self.store.find(search), self.store.count(search)

    def document(self, prefix: str) -> bytes:
        return self.store.read(self.store.resolve(prefix)).content


@dataclass(frozen=True, slots=True)
class _Cluster:
    service: "ResultsService"
    namespace: str | None

    def search(self, search: "Search") -> tuple[list[dict[str, Any]], int]:
        where = search.where
        if self.namespace is not None:
            inside = f'namespace="{self.namespace}"'
            where = f"({where}) and {inside}" if where.strip() else inside
        limit = search.limit or 0
        return self.service.search(
            where, search.sort, limit, search.offset, retracted=search.with_retracted
        )

    def document(self, prefix: str) -> bytes:
        return self.service.document(prefix)


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

        yield _Cluster(ResultsService(connect(options)), options.namespace)
        return
    with opened(database) as store:
        yield _Local(store)
