"""The cases results-search and results-page: how fast stored results are found and shown."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection

from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.case_results_store import POSTGRESQL, SQLITE, database, require_postgresql
from bench.figures import Bound
from bench.results_data import bulk_load, first_example, scaled
from bench.results_service import (
    deep_paths,
    list_paths,
    percentile95,
    response_seconds,
    result_paths,
    results_service,
)

from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.browser import browsing, find_chromium

_STORED = scaled(100_000)
_ROUNDS = 20
_ALL, _SLOWEST, _LOAD = "p95 of all", "p95 of the slowest", "seconds of the bulk load"
_MILLISECONDS = Unit(" ms", 0, 1000)
_SECONDS = Unit(" s", 0)
_GOALS = {SQLITE: 0.150, POSTGRESQL: 0.100}

_BROWSER = "Chromium"
_PAGE_RESULTS = scaled(1_000)
_BYTES, _COMPLETE = "bytes transferred", "seconds until complete"
_LOADED = """\
(() => {
  const all = [...performance.getEntriesByType('navigation'),
    ...performance.getEntriesByType('resource')];
  return {
    bytes: all.reduce((sum, each) => sum + each.transferSize, 0),
    milliseconds: Math.max(...all.map(each => each.loadEventEnd || each.responseEnd)),
  };
})()"""


@contextmanager
def _search_stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    first_example()
    yield {side: partial(_search, side, place) for side in (SQLITE, POSTGRESQL) if side in sides}


def _search(side: str, place: Place) -> Figures:
    """Fill a database, and request every page and filter from the service."""
    with database(side, place.folder) as address:
        with Store(address) as store:
            load_seconds = bulk_load(store, _STORED)
            rows = store.find(Search("", "-started", 2))
            paths = [*list_paths(), *deep_paths(store), *result_paths(rows)]
        with results_service(address, place.folder) as (_, port):
            found = response_seconds(port, paths, _ROUNDS)
    slowest = sorted(found, key=lambda path: percentile95(found[path]), reverse=True)
    for path in slowest[:10]:
        print(f"{side}: p95 {1000 * percentile95(found[path]):.0f} ms {path}")
    return {
        _ALL: percentile95([each for times in found.values() for each in times]),
        _SLOWEST: percentile95(found[slowest[0]]),
        _LOAD: load_seconds,
    }


@contextmanager
def _page_stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # there is one
    address = str(place.folder / "results.db")
    with Store(address) as store:
        bulk_load(store, _PAGE_RESULTS)
    with results_service(address, place.folder) as (_, port):
        _get(port)
        yield {_BROWSER: partial(_page, port)}


def _get(port: int) -> None:
    """Request the page once, so that the service has loaded its templates."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()


def _page(port: int) -> Figures:
    """Open the list of runs in a browser that has never seen it."""
    return asyncio.run(_open_page(port))


async def _open_page(port: int) -> Figures:
    async with browsing(find_chromium() or "") as page:
        await page.emulate()
        began = time.monotonic()
        await page.open(f"http://127.0.0.1:{port}/")
        waited = time.monotonic() - began
        found = await page.evaluate(_LOADED)
    complete = found["milliseconds"] / 1000 or waited
    return {_BYTES: found["bytes"], _COMPLETE: complete}


def _require_chromium() -> None:
    if find_chromium() is None:
        raise PeerMissingError("Chromium is not installed: on Debian, apt-get install chromium")


def _search_rows(side: str) -> tuple[Row, ...]:
    goal = (Bound("figure", "at most", _GOALS[side]),)
    load = (Bound("figure", "at most", 300),)
    return (
        Row(f"All pages and filters, p95, {side}", Source(side, _ALL), _MILLISECONDS),
        Row(
            f"The slowest page or filter, p95, {side}",
            Source(side, _SLOWEST),
            _MILLISECONDS,
            goal=goal,
        ),
        Row(f"The bulk load, {side}", Source(side, _LOAD), _SECONDS, goal=load),
    )


RESULTS_SEARCH = Case(
    name="results-search",
    title=f"Finding results among {_STORED:,}",
    text=f"""\
`inferometer results serve` over a database of {_STORED:,} results with five measurements each: 70
models, 40 nodes, 50 namespaces, a year.

One client requests the list of runs, as a page and from the API, under {len(list_paths())}
combinations of condition and order, its pages at the beginning and in the middle of every order,
and the pages of one result and of a comparison; {_ROUNDS} times each, in turn, over one
connection. A time is from the request to the last byte of the answer. The documents are copies of
the first example's.""",
    commands=("make bench CASE=results-search",),
    sides=(Side(SQLITE), Side(POSTGRESQL, require_postgresql)),
    stage=_search_stage,
    minutes=12,
    rows=(*_search_rows(SQLITE), *_search_rows(POSTGRESQL)),
    repeats=1,
    is_pinned=False,
)

RESULTS_PAGE = Case(
    name="results-page",
    title="The first page of the explorer",
    text=f"""\
A headless Chromium with an empty profile opens the list of runs over loopback, from a service with
{_PAGE_RESULTS:,} results. The bytes are those of all answers with their headers, the time is from
the start of the navigation to the end of its load event, both as the browser reports them.""",
    commands=("make bench CASE=results-page",),
    sides=(Side(_BROWSER, _require_chromium),),
    stage=_page_stage,
    minutes=2,
    rows=(
        Row(
            "Bytes transferred",
            Source(_BROWSER, _BYTES),
            Unit(" kB", 1, 1e-3),
            goal=(Bound("figure", "at most", 100_000),),
        ),
        Row(
            "Complete after",
            Source(_BROWSER, _COMPLETE),
            _MILLISECONDS,
            goal=(Bound("figure", "at most", 0.5),),
        ),
    ),
    repeats=5,
    rounds=3,
    is_pinned=False,
)
