"""The results service of a cluster, which the API server authenticates callers for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from inferometer_api.results.service_paths import (
    EXPLORER,
    PAGE_TYPE,
    SERVICE_GROUP,
    SERVICE_VERSION,
    ingest_path,
)
from inferometer_cli.cluster.api import Cluster, Downloaded, NotThereError
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name

if TYPE_CHECKING:
    from inferometer_results.store.query import Search

_API = f"{EXPLORER}/api/v1"
MOST_RESULTS = 500
"""Of one answer."""
_FORWARDED = ("accept", "if-none-match")


class ResultsService:
    """Reads and pushes results with the caller's own rights."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def check(self) -> None:
        """Raise RefusedError if the cluster has no such service, or it does not answer."""
        self._read("/fields")

    def search(self, search: "Search") -> dict[str, Any]:
        """Return the results of a search, and how many there are without the limit."""
        query = {"where": search.where, "sort": search.sort, "limit": str(search.limit)}
        query |= {"after": search.after} if search.after else {"offset": str(search.offset)}
        query["retracted"] = str(search.with_retracted).lower()
        found: dict[str, Any] = self._read("/results", query)
        return found

    def result(self, id_: str) -> dict[str, Any]:
        """Return the result whose ID begins so, with its measurements and labels."""
        found: dict[str, Any] = self._read(f"/results/{quote(id_, safe='')}")
        return found

    def document(self, id_: str) -> bytes:
        """Return the document of the result whose ID begins so."""
        return self._read_bytes(f"/results/{quote(id_, safe='')}/document")

    def every(self, where: str) -> Iterator[dict[str, Any]]:
        """Yield all results that match a condition, in the order of their IDs."""
        from inferometer_results.store.query import Search

        search = Search(where, "id", MOST_RESULTS)
        while True:
            found = self.search(search)["items"]
            if not found:
                return
            yield from found
            search = replace(search, after=found[-1]["id"])

    def archive(self) -> Iterator[str]:
        """Yield the lines of every document that the caller may read, and of the journal."""
        last = ""
        while lines := self._read_bytes("/archive", {"after": last}).decode().splitlines():
            yield from lines
            found = [json.loads(line).get("document") for line in lines]
            documents = [each for each in found if each]
            if not documents:
                return
            last = documents[-1]

    def journal(self, where: str) -> list[dict[str, str]]:
        """Return the entries of the journal of the newest results that match a condition."""
        found: list[dict[str, str]] = self._read("/journal", {"where": where})
        return found

    def annotate(self, id_: str, action: str, text: str) -> None:
        """Add an entry to the journal of the result whose ID begins so."""
        path = f"{_API}/results/{quote(id_, safe='')}/journal"
        self._cluster.create(path, {"action": action, "text": text})

    def delete(self, id_: str) -> None:
        """Delete the result whose ID begins so."""
        self._cluster.delete(f"{_API}/results/{quote(id_, safe='')}")

    def push(self, namespace: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a result document for a namespace; return its ID, page, and whether it is new."""
        return self._cluster.create(f"{EXPLORER}{ingest_path(namespace)}", document)

    def page(self, path: str, headers: Mapping[str, str]) -> Downloaded:
        """Return what the service answers to a request of a browser, also an error."""
        sent = {name: value for name, value in headers.items() if name.lower() in _FORWARDED}
        status, found, body = self._cluster.download(f"{EXPLORER}{path}", sent)
        kind = {
            name: value.replace(PAGE_TYPE, "text/html", 1)
            for name, value in found.items()
            if name.lower() == "content-type"
        }
        return status, found | kind, body

    def _read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return json.loads(self._read_bytes(path, query))

    def _read_bytes(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        target = f"{_API}{path}" + (f"?{urlencode(query)}" if query else "")
        status, _, text = self._cluster.download(target, {"Accept": "application/json"})
        if status < 300:
            return text
        if status == 503 and not text.startswith(b"{"):
            raise FailedError(
                "The cluster's results service does not answer. Check its pods, and: kubectl "
                f"describe apiservice {SERVICE_VERSION}.{SERVICE_GROUP}"
            )
        try:
            self._cluster.parse(status, text)
        except NotThereError as error:
            if "does not serve this resource" not in str(error):
                raise
            raise RefusedError(
                f"The cluster {self._cluster.host} has no results service. Its admin installs one "
                "with the chart inferometer-results; without it, use "
                f"`{program_name()} result NAME`."
            ) from error
        raise FailedError(f"The results service answered with status {status}.")
