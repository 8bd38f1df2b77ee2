"""The pages of suites in a real browser: light, dark and narrow, in the explorer and as a file."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import uvicorn

from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.store import Store
from inferometer_results.suites.page import render_suite
from inferometer_results.suites.stored_suites import (
    engines_of,
    executions,
    stored_outcomes,
    stored_runs,
    unmeasured_runs,
)
from inferometer_results.suites.view import suite_view
from support.browser import Theme, browsing, find_chromium
from support.page_faults import WIDTHS, page_faults
from support.requirements import cannot_run
from support.suite_results import SUITE, fill_suite
from support.waiting import wait_until

_PICTURES = os.environ.get("INFEROMETER_PICTURES")
"""A folder for pictures of the pages."""
_TEXT = "document.body.innerText"
_BESTS = "[...document.querySelectorAll('td:has(.best) a')].map((each) => each.textContent)"
_HIDDEN = """[...document.querySelectorAll('.heat tbody tr:first-child td:nth-child(2)')]
  .filter((each) => each.getBoundingClientRect().right > window.innerWidth).length"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with two executions of a suite."""
    with Store(str(tmp_path / "results.db")) as found:
        fill_suite(found)
        yield found


@pytest.fixture
def explorer(store: Store) -> Iterator[str]:
    """Serve the store; return its address."""
    app = create_app(store, AccessRules(), "0.1.0", time.perf_counter)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "The service")
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def file(store: Store, tmp_path: Path) -> str:
    """Write the page of the newest execution to a file, as `inferometer run` does."""
    name, rows = next(iter(executions(store, SUITE).items()))
    outcome = stored_outcomes(store, SUITE)[name]
    runs = stored_runs(rows, engines_of(store, rows))
    view = suite_view(SUITE, name, [*runs, *unmeasured_runs(outcome, runs)], gate=outcome.gate)
    path = tmp_path / "suite.html"
    path.write_text(render_suite(view), encoding="utf-8")
    return path.as_uri()


def test_the_pages_of_suites_are_whole_in_any_width_and_theme(explorer: str, file: str) -> None:
    """Progress, gate, failed cells with reasons and the heat map are there, and axe is content."""
    chromium = find_chromium()
    if chromium is None:
        cannot_run("Chromium is not installed.")
    pages = {
        "suites": f"{explorer}/suites",
        "suite": f"{explorer}/suites/{SUITE}",
        "older": f"{explorer}/suites/{SUITE}?execution=bench/first",
        "file": file,
    }

    async def look() -> tuple[list[object], dict[str, str], list[str], int]:
        faults: list[object] = []
        texts = {}
        async with browsing(chromium) as page:
            for name, address in pages.items():
                for theme in get_args(Theme):
                    for width in WIDTHS:
                        found = await page_faults(page, address, theme, width)
                        faults += [(f"{name} {theme} {width}", each) for each in found]
                        if _PICTURES:
                            picture = Path(_PICTURES) / f"{name}-{theme}-{width}.png"
                            picture.write_bytes(await page.screenshot())
                texts[name] = await page.evaluate(_TEXT)
            # As it is left: narrow. The first figure of each map is in sight.
            hidden = await page.evaluate(_HIDDEN)
            return faults, texts, await page.evaluate(_BESTS), hidden

    faults, texts, bests, hidden = asyncio.run(look())
    assert faults == []
    assert SUITE in texts["suites"]
    for name in ("suite", "file"):
        for words in (
            "12 of 12 runs are over: 10 VALID, 1 INVALID, 1 failed.",
            "FAIL 1 of 8 figures are slower than the baseline.",
            "A slow-down of 3.1 % is found with a probability of 80 %",
            "both VALID, or were on two nodes: 4, 7 on node-a.",
            "No <b>server</b>: the pod could not be scheduled for 300 s.",
            "nightly-middle-http-16 INVALID ErrorRate",
        ):
            assert words in " ".join(texts[name].split()), texts[name]
    assert "gate FAIL" in texts["suite"]
    assert "The outcome of this execution is not in the database" in texts["older"]
    # Of the big model grpc is faster; rates are alike.
    assert bests == ["2.18 ms", "2.41 ms", "2.17 ms"]
    assert hidden == 0
