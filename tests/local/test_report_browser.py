"""report.html in a real browser: it requests nothing, shows everything, light, dark and small."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import Finding, ResultDocument, Verdict
from inferometer_results.report import render_report
from support.browser import Page, Theme, browsing, find_chromium
from support.energies import Machine
from support.requirements import cannot_run
from support.results import (
    a_long_result,
    a_metered_result,
    a_refused_result,
    a_result,
    a_valid_result,
    an_unfinished_result,
)

_WIDTHS = (400, 820, 1280)
_SCREENS = ((1400, 900), (400, 800))
_RECORDED = Path(__file__).parents[1] / "data" / "results" / "1.1-local.json"

_LOOK = """(() => {
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
  const text = (t) => {
    const b = t.getBoundingClientRect();
    return [b.left, b.right, b.top, b.bottom];
  };
  const words = (svg) => [...svg.querySelectorAll("text, circle[r='4']")].map(text);
  const style = (e) => getComputedStyle(e);
  return {
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    background: style(document.body).backgroundColor,
    card: style(document.querySelector("section.verdict")).backgroundColor,
    charts: [...document.querySelectorAll("svg.chart")].map(box),
    outside: [...document.querySelectorAll("svg.chart text")].filter((t) => {
      const [inner, outer] = [text(t), t.closest("svg").getBoundingClientRect()];
      return inner[0] < outer.left - 2 || inner[1] > outer.right + 2
        || inner[2] < outer.top - 2 || inner[3] > outer.bottom + 2;
    }).map((t) => t.textContent),
    words: [...document.querySelectorAll("svg.chart")].map(words),
    small: Math.min(...[...document.querySelectorAll("svg.chart text")].map((t) => {
      const svg = t.closest("svg");
      return parseFloat(style(t).fontSize) * svg.getBoundingClientRect().width / 480;
    })),
    heading: document.querySelector("#verdict").textContent,
  };
})()"""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one page looked like at one width in one theme."""

    look: dict[str, Any]
    requests: tuple[str, ...]
    complaints: tuple[str, ...]


def _recorded_result() -> ResultDocument:
    """Return a run of every kind, with repeats, searches and sweeps, on a busy machine."""
    return read_result(_RECORDED.read_bytes(), source=_RECORDED.name).document


def _crowded_search() -> ResultDocument:
    """Return a search with a whole probe next to one of the same latency that ended early."""
    document = _recorded_result()
    search = next(each for each in document.scenarios if each.peak is not None)
    assert search.peak is not None
    rates, latency = (40.0, 41.0, 42.5), search.steps[0].latency
    labels = [probe.step for probe in search.peak.probes[:3]]
    steps = [
        step.model_copy(update={"latency": latency}) if step.label in labels else step
        for step in search.steps
    ]
    probes = [
        probe.model_copy(update={"target_qps": rate, "ran_to_completion": rate == rates[1]})
        for probe, rate in zip(search.peak.probes[:3], rates, strict=True)
    ]
    peak = search.peak.model_copy(update={"probes": probes})
    crowded = search.model_copy(update={"steps": steps, "peak": peak})
    return document.model_copy(update={"scenarios": [crowded]})


def _many_scenarios() -> ResultDocument:
    """Return a run of as many scenarios as a spec may have, each INVALID by both reasons."""
    document = a_result()
    traffic = document.scenarios[1]
    return document.model_copy(
        update={
            "scenarios": [
                traffic.model_copy(update={"name": f"traffic-{number}-of-sixteen"})
                for number in range(1, 17)
            ]
        }
    )


def _hostile_result() -> ResultDocument:
    document = a_valid_result()
    attack = (
        "<img src=http://127.0.0.1:9/x onerror=alert(1)><script>document.title='taken'</script>"
    )
    finding = Finding(rule="x" * 300, message=attack, figure=attack, limit=attack)
    verdict = Verdict(state="INVALID", reasons=[finding])
    scenario = document.scenarios[0].model_copy(update={"verdict": verdict, "name": attack})
    return document.model_copy(update={"scenarios": [scenario]})


_DOCUMENTS: dict[str, Callable[[], ResultDocument]] = {
    "three": a_result,
    "valid": a_valid_result,
    "long": a_long_result,
    "interrupted": an_unfinished_result,
    "refused": a_refused_result,
    "recorded": _recorded_result,
    "many": _many_scenarios,
    "crowded": _crowded_search,
    "hostile": _hostile_result,
    "gpus": lambda: a_metered_result(Machine(cpus=64, packages=2, gpus=8, throttles=True)),
    "nodes": lambda: a_metered_result(Machine("node-a", throttles=True, gpus=1), Machine("node-b")),
}


@pytest.fixture(scope="module")
def chromium() -> str:
    """Return the path of the browser."""
    found = find_chromium()
    if found is None:
        cannot_run("no Chromium is installed: `apt-get install chromium` lets this test look")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with every page."""
    folder = tmp_path_factory.mktemp("reports")
    for name, document in _DOCUMENTS.items():
        (folder / f"{name}.html").write_text(render_report(document()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def seen(chromium: str, folder: Path) -> dict[tuple[str, int, Theme], _Seen]:
    """Return how each page looked, at each width and in each theme, all in one browser."""

    async def look() -> dict[tuple[str, int, Theme], _Seen]:
        found: dict[tuple[str, int, Theme], _Seen] = {}
        async with browsing(chromium) as page:
            for name in _DOCUMENTS:
                for theme in get_args(Theme):
                    await page.emulate(theme=theme)
                    await page.open((folder / f"{name}.html").as_uri())
                    for width in _WIDTHS:
                        await page.emulate(width=width, theme=theme)
                        looks = await page.evaluate(_LOOK)
                        found[name, width, theme] = _taken(page, looks)
                    page.requests.clear()
                    page.complaints.clear()
        return found

    return asyncio.run(look())


def _taken(page: Page, look: dict[str, Any]) -> _Seen:
    return _Seen(look, tuple(page.requests), tuple(page.complaints))


def test_nothing_is_requested_but_the_page(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """The browser requests the file itself and nothing else, whatever a text contains."""
    for (name, _, _), each in seen.items():
        assert [url.rpartition("/")[2] for url in each.requests] == [f"{name}.html"]


def test_nothing_is_complained_of(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """No script fails, no markup is refused, no policy is broken."""
    assert {complaint for each in seen.values() for complaint in each.complaints} == set()


def test_every_chart_is_seen(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """Charts have a size at every width, and their texts are readable and within their card."""
    for (name, width, _), each in seen.items():
        assert (name == "refused") == (each.look["charts"] == [])
        for chart_width, chart_height in each.look["charts"]:
            assert chart_width > 250
            assert chart_height > 140
        assert each.look["outside"] == [], (name, width)
        if each.look["charts"]:
            assert each.look["small"] > 9


def test_words_of_charts_do_not_overlap(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """Names of lines, legends with their dots, ticks and labels stand clear of each other."""
    for (name, width, _), each in seen.items():
        for texts in each.look["words"]:
            for index, (left, right, top, bottom) in enumerate(texts):
                for other in texts[index + 1 :]:
                    apart = other[0] >= right or other[1] <= left
                    # Boxes of text have room above and below the letters: a third may be shared.
                    clear = abs(other[2] - top) > 0.6 * (bottom - top)
                    assert apart or clear, (name, width)


def test_dark_mode_changes_the_page(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """A person who prefers dark gets dark paper, and the same charts."""
    for name in _DOCUMENTS:
        light, dark = (seen[name, 1280, theme].look for theme in get_args(Theme))
        assert _brightness(light["background"]) > 0.9
        assert _brightness(dark["background"]) < 0.15
        assert light["charts"] == dark["charts"]


def test_a_phone_scrolls_down_only(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """Nothing is wider than the window, down to 400 pixels, however long a word is."""
    assert {key: each.look["overflow"] for key, each in seen.items() if each.look["overflow"]} == {}


def test_opened_folds_fit_a_phone(chromium: str, folder: Path) -> None:
    """Reasons, cautions and the pages of their rules wrap within 400 pixels."""

    async def look() -> dict[str, int]:
        async with browsing(chromium) as page:
            await page.emulate(width=400)
            found = {}
            for name in ("recorded", "three", "hostile"):
                await page.open((folder / f"{name}.html").as_uri())
                found[name] = await page.evaluate(
                    "document.querySelectorAll('.findings details')"
                    ".forEach((e) => { e.open = true; });"
                    "Math.max(...[...document.querySelectorAll('.findings p, .findings summary')]"
                    ".map((e) => e.scrollWidth - e.clientWidth))"
                )
            return found

    assert {name: wider for name, wider in asyncio.run(look()).items() if wider > 1} == {}


@pytest.mark.parametrize("media", ["screen", "print"])
def test_tables_of_all_figures_fit_into_a_window_and_on_paper(
    chromium: str, folder: Path, media: Literal["screen", "print"]
) -> None:
    """No column is cut off at 1,200 pixels, nor of any table on A4 within its margins of 14 mm."""
    tables = "details:not(.part) .scroll" if media == "screen" else ".scroll"

    async def cut_off() -> list[str]:
        async with browsing(chromium) as page:
            found: list[str] = []
            await page.emulate(width=1200 if media == "screen" else 688, media=media)
            for name in ("three", "nodes"):
                await page.open((folder / f"{name}.html").as_uri())
                found += await page.evaluate(
                    "document.querySelectorAll('details').forEach((e) => { e.open = true; });"
                    f"[...document.querySelectorAll('{tables}')]"
                    ".filter((e) => e.scrollWidth > e.clientWidth)"
                    ".map((e) => e.getAttribute('aria-label'))"
                )
            return found

    assert asyncio.run(cut_off()) == []


def test_the_verdict_is_the_heading(seen: dict[tuple[str, int, Theme], _Seen]) -> None:
    """Each page's verdict is what the run ended with."""
    headings = {name: seen[name, 1280, "light"].look["heading"] for name in _DOCUMENTS}
    assert headings == {
        "three": "INVALID",
        "valid": "VALID",
        "long": "VALID",
        "interrupted": "INTERRUPTED",
        "refused": "REFUSED",
        "recorded": "INVALID",
        "many": "INVALID",
        "crowded": "INVALID",
        "hostile": "INVALID",
        "gpus": "INVALID",
        "nodes": "INVALID",
    }


_FIRST = """(() => {
  const shown = (e) => {
    const b = e.getBoundingClientRect();
    return [e.textContent.trim(), b.width > 0 && b.left >= 0 && b.right <= innerWidth, b.bottom];
  };
  return [...document.querySelectorAll("#verdict, .card .top a, .hero, .bounds")].map(shown);
})()"""


@pytest.mark.parametrize(("width", "height"), _SCREENS)
def test_the_first_screen_answers(chromium: str, folder: Path, width: int, height: int) -> None:
    """Verdict and the figure of each scenario with its bounds are seen without scrolling."""

    async def look() -> dict[str, list[tuple[str, bool, float]]]:
        async with browsing(chromium) as page:
            await page.emulate(width=width, height=height)
            found = {}
            for name in ("three", "valid", "long", "recorded", "many", "gpus", "interrupted"):
                await page.open((folder / f"{name}.html").as_uri())
                found[name] = await page.evaluate(_FIRST)
            return found

    for name, elements in asyncio.run(look()).items():
        below = [text for text, is_shown, bottom in elements if not is_shown or bottom > height]
        assert below == [], name
        texts = [text for text, _, _ in elements]
        assert {each.name for each in _DOCUMENTS[name]().scenarios} <= set(texts)


@pytest.mark.parametrize(("width", "height"), _SCREENS)
def test_a_chart_begins_on_the_first_screen(
    chromium: str, folder: Path, width: int, height: int
) -> None:
    """Of up to three scenarios, VALID or not, below all their figures."""

    async def look() -> dict[str, float]:
        async with browsing(chromium) as page:
            await page.emulate(width=width, height=height)
            found = {}
            for name in ("three", "valid", "crowded", "gpus", "interrupted"):
                await page.open((folder / f"{name}.html").as_uri())
                found[name] = await page.evaluate(
                    "document.querySelector('svg.chart').getBoundingClientRect().top"
                )
            return found

    assert {name: top for name, top in asyncio.run(look()).items() if top > height - 40} == {}


_NAMES = """[...document.querySelectorAll('.card .top a')].map((e) => {
  const range = document.createRange();
  range.selectNodeContents(e);
  return [e.textContent, range.getBoundingClientRect().width - e.getBoundingClientRect().width];
})"""


@pytest.mark.parametrize("width", [360, 400, 500, 640, 1400])
def test_names_of_scenarios_are_whole(chromium: str, folder: Path, width: int) -> None:
    """No card cuts a name of usual length, whatever its figure."""

    async def look() -> dict[str, list[tuple[str, float]]]:
        async with browsing(chromium) as page:
            await page.emulate(width=width)
            found = {}
            for name in ("three", "recorded", "interrupted"):
                await page.open((folder / f"{name}.html").as_uri())
                found[name] = await page.evaluate(_NAMES)
            return found

    for cards in asyncio.run(look()).values():
        assert cards
        assert [name for name, cut in cards if cut > 1] == []


def test_names_stand_clear_of_points(chromium: str, folder: Path) -> None:
    """In a search, whose points may lie anywhere, no name of them is written over one."""

    async def look() -> list[int]:
        async with browsing(chromium) as page:
            await page.open((folder / "crowded.html").as_uri())
            found: list[int] = await page.evaluate(
                """[...document.querySelectorAll("svg[aria-label='Peak search']")]
                .map((svg) => {
                  const boxes = (what) => [...svg.querySelectorAll(what)]
                    .map((e) => e.getBoundingClientRect());
                  const dots = boxes("circle.dot");
                  return boxes("text.name").filter((t) => dots.some((d) => d.right > t.left
                    && d.left < t.right && d.bottom > t.top && d.top < t.bottom)).length;
                })"""
            )
            return found

    assert asyncio.run(look()) == [0]


def test_a_pointer_shows_values(chromium: str, folder: Path) -> None:
    """Over a chart the values at the pointer appear; away from it they go."""

    async def point() -> tuple[str, str, str]:
        async with browsing(chromium) as page:
            await page.open((folder / "three.html").as_uri())
            await page.evaluate("document.querySelectorAll('svg.chart')[2].scrollIntoView()")
            left, top, width, height = await page.evaluate(
                "(() => { const b = document.querySelectorAll('svg.chart')[2]"
                ".getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
            )
            await page.move_pointer(left + width / 2, top + height / 2)
            tip = "document.querySelectorAll('figure')[2].querySelector('.tip')"
            shown = await page.evaluate(f"{tip}.textContent")
            visible = await page.evaluate(f"getComputedStyle({tip}).visibility")
            await page.move_pointer(1, 1)
            hidden = await page.evaluate(f"getComputedStyle({tip}).visibility")
            return shown, visible, hidden

    shown, visible, hidden = asyncio.run(point())
    lines = shown.split("\n")
    assert lines[0].endswith(" s")
    assert [line.rsplit(" ", 2)[0] for line in lines[1:]] == ["p99 = max", "p50"]
    assert (visible, hidden) == ("visible", "hidden")


def test_a_pointer_shows_the_same_moment_in_every_chart_over_time(
    chromium: str, folder: Path
) -> None:
    """Over one chart over time, all of the scenario show that moment, and no other chart does."""

    async def point() -> list[list[str]]:
        async with browsing(chromium) as page:
            await page.open((folder / "gpus.html").as_uri())
            charts = "[...document.querySelectorAll('#scenario-1 svg.chart')]"
            await page.evaluate(f"{charts}[4].scrollIntoView()")
            left, top, width, height = await page.evaluate(
                f"(() => {{ const b = {charts}[4].getBoundingClientRect();"
                " return [b.left, b.top, b.width, b.height]; })()"
            )
            await page.move_pointer(left + 0.4 * width, top + height / 2)
            shown: list[list[str]] = await page.evaluate(
                "[...document.querySelectorAll('.tip')]"
                ".filter((tip) => tip.style.visibility === 'visible').map((tip) => "
                "[tip.closest('section').id, tip.closest('figure').firstElementChild.textContent,"
                " tip.textContent.split('\\n')[0]])"
            )
            return shown

    shown = asyncio.run(point())
    titles = [title for _, title, _ in shown]
    assert {section for section, _, _ in shown} == {"scenario-1"}
    assert titles[:5] == ["Latency over time", "Achieved rate", "CPU", "Memory", "Power"]
    assert "Latency distribution" not in titles
    moments = [float(moment.removesuffix(" s")) for _, _, moment in shown]
    assert max(moments) - min(moments) <= 1.0


def test_it_prints_on_white_paper(chromium: str, folder: Path) -> None:
    """Printed from a dark screen it is light, and all its figures are unfolded."""

    async def print_page() -> tuple[bytes, list[str], float]:
        async with browsing(chromium) as page:
            await page.emulate(theme="dark")
            await page.open((folder / "three.html").as_uri())
            printed = await page.pdf()
            await page.emulate(theme="dark", media="print")
            papers = await page.evaluate(
                "[...document.querySelectorAll('body, figure, .verdict, pre')]"
                ".map((e) => getComputedStyle(e).backgroundColor)"
            )
            unfolded = await page.evaluate(
                "document.querySelector('details table').getBoundingClientRect().height"
            )
            return printed, papers, unfolded

    printed, papers, unfolded = asyncio.run(print_page())
    assert printed.startswith(b"%PDF-")
    assert 5 <= printed.count(b"/Type /Page\n") <= 16
    assert min(map(_brightness, papers)) > 0.9
    assert unfolded > 20


def _brightness(css: str) -> float:
    """Return the mean of an rgb(...) colour's channels, from 0 to 1."""
    channels = css.removeprefix("rgb(").removesuffix(")").split(",")
    return sum(float(channel) for channel in channels) / 3 / 255
