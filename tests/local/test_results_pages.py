"""The explorer in a real browser: light, dark, narrow, by keyboard, and accessible."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import uvicorn

from inferometer_results.explore.prices import read_prices
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.browser import Theme, browsing, find_chromium
from support.explored_results import MODEL, PRICES, SUITE, fill_store
from support.page_faults import WIDTHS, page_faults
from support.requirements import cannot_run
from support.waiting import wait_until

_PICTURES = os.environ.get("INFEROMETER_PICTURES")
"""A folder for pictures of the pages, as docs/images has them."""
_SETTLED = """[...document.querySelectorAll('[hx-trigger=load]')].every(
  (part) => part.querySelector('#facet-groups, #together-text'))"""
"""Whether all parts that a page loads later are there."""


class _Explorer:
    """A served store, and the addresses of its pages by a short name."""

    def __init__(self, store: Store) -> None:
        self.ids = fill_store(store)
        (row,) = store.find(Search(f'model="{MODEL}"', limit=1))
        spec = row["spec_digest"]
        app = create_app(
            store, AccessRules(), "0.1.0", time.perf_counter, read_prices(PRICES, "prices")
        )
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "The service")
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        several = "&".join(f"id={self.ids[number]}" for number in (3, 4, 18))
        self.pages = {
            "runs": "/?limit=8",
            "run": f"/results/{self.ids[18]}",
            "pair": f"/compare?id={self.ids[3]}&id={self.ids[18]}",
            "compare": f"/compare?{several}",
            "models": "/models",
            "model": f"/model?model={MODEL}&scenario=sizes&mixed=true",
            "refused": f"/model?model={MODEL}&scenario=latency",
            "trends": "/trends",
            "trend": f"/trend?spec={spec}&node=bench-1&step=latency&figure=p50",
            "places": "/nodes",
            "nodes": f"/node-figures?spec={spec}&step=latency&figure=p50",
            "facets": "/facets",
            "suites": "/suites",
            "suite": f"/suites/{SUITE}",
        }

    def stop(self) -> None:
        """Stop the service."""
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Explorer]:
    """Return a service over a store of real documents."""
    with Store(str(tmp_path_factory.mktemp("store") / "results.db")) as store:
        found = _Explorer(store)
        yield found
        found.stop()


@pytest.fixture(scope="module")
def chromium() -> str:
    """Return the path of a browser."""
    found = find_chromium()
    if found is None:
        cannot_run("Chromium is not installed.")
    return found


def test_pages_are_whole_in_any_width_and_theme(explorer: _Explorer, chromium: str) -> None:
    """Nothing overflows or is foreign, no policy is broken, and axe finds nothing serious."""

    async def look() -> list[tuple[str, Any]]:
        faults: list[tuple[str, Any]] = []
        async with browsing(chromium) as page:
            for name, path in explorer.pages.items():
                for theme in get_args(Theme):
                    for width in WIDTHS:
                        found = await page_faults(
                            page, explorer.address + path, theme, width, settled=_SETTLED
                        )
                        faults += [(f"{name} {theme} {width}", each) for each in found]
                        if _PICTURES and theme == "light" and width == 1280:
                            _save(f"{name}.png", await page.screenshot())
            foreign = [each for each in page.requests if not _is_own(each, explorer.address)]
        return faults + [("foreign", each) for each in foreign]

    assert asyncio.run(look()) == []


def _save(name: str, picture: bytes) -> None:
    Path(_PICTURES or "", name).write_bytes(picture)


def _is_own(url: str, address: str) -> bool:
    return url.startswith((f"{address}/", "data:"))


def test_the_list_changes_in_place_and_its_address_with_it(
    explorer: _Explorer, chromium: str
) -> None:
    """By keyboard: a condition and the Enter key; the address reproduces what is shown."""
    shown = "document.querySelector('#list [role=status]').textContent"

    async def look() -> tuple[str, str, str, bool]:
        async with browsing(chromium) as page:
            await page.open(explorer.address)
            await page.evaluate("window.stays = true; document.getElementById('where').focus()")
            await page.call("Input.insertText", text="node=bench-2")
            for kind in ("keyDown", "keyUp"):
                await page.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key="Enter",
                    code="Enter",
                    text="\r",
                    windowsVirtualKeyCode=13,
                )
            await page.wait_until(f"{shown}.includes('of 3')")
            first = await page.evaluate(shown)
            address = await page.evaluate("location.href")
            stays = await page.evaluate("window.stays === true")
            await page.open(address)
            return first, await page.evaluate(shown), address, stays

    first, second, address, stays = asyncio.run(look())
    assert first == second == "1\N{EN DASH}3 of 3"
    assert "where=node%3Dbench-2" in address
    assert stays
