"""The page shows every measurement, whatever its result."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.measure import measure
from bench.page import PageError, render, replaced
from bench.suite import CASES, ON_REQUEST, PAGE

OURS, THEIRS = Source("ours", "cost"), Source("theirs", "cost")
COST = Unit(" µs", 1, scale=1e6)
GOAL = (Bound("ratio", "at most", 1.25),)
NEW_TEXTS = {"peak"}
"""Cases that have not been measured since what they do was changed."""


def absent() -> None:
    """Stand for a peer that is not installed."""
    raise PeerMissingError("It is not installed: install it.")


def case(figures: Mapping[str, Iterator[float]], *, peer_is_here: bool = True) -> Case:
    """Return a case of two sides whose turns give these figures one after the other."""

    @contextmanager
    def stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
        assert place.folder.is_dir()

        def turn(side: str) -> Turn:
            def take() -> Figures:
                return {"cost": next(figures[side])}

            return take

        yield {side: turn(side) for side in sides}

    return Case(
        name="cost",
        title="What it costs",
        text="How it is measured.",
        commands=("bench/run.py --case cost",),
        sides=(Side("ours"), Side("theirs") if peer_is_here else Side("theirs", absent)),
        stage=stage,
        rows=(Row("a request", OURS, COST, THEIRS, GOAL),),
        minutes=1,
        rounds=3,
    )


def place(folder: Path) -> Place:
    """Return a place without any cores to choose."""
    return Place(None, None, folder, turn_seconds=1)


def test_a_repeat_is_the_median_of_its_rounds(tmp_path: Path) -> None:
    """Each repeat gives one figure a side, from turns that are taken in turn."""
    log_lines: list[str] = []
    measured = measure(
        case({"ours": iter([3.0, 1.0, 2.0, 8.0, 9.0, 7.0]), "theirs": iter([1.0] * 6)}),
        place(tmp_path),
        2,
        log_lines.append,
    )
    assert measured.taken == {OURS: (2.0, 8.0), THEIRS: (1.0, 1.0)}
    assert not measured.missing
    turns = [line.split(": ")[1] for line in log_lines if "cost" in line]
    assert turns[:6] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_a_missing_peer_is_named_and_the_rest_measured(tmp_path: Path) -> None:
    """A peer that is not here costs its column, not the case; the page says why."""
    one = case({"ours": iter([2e-5] * 3)}, peer_is_here=False)
    measured = measure(one, place(tmp_path), 1, lambda _: None)
    section = render(one, measured.taken, measured.missing, [])
    assert measured.taken == {OURS: (2e-5,)}
    assert "| a request | **20.0** µs (20.0 to 20.0) | theirs: not run | - |" in section
    assert "| not known |" in section
    assert "Not run: theirs. It is not installed: install it." in section


def test_a_figure_that_a_side_does_not_have_is_not_known(tmp_path: Path) -> None:
    """A side that was run without that figure, or with it in some repeats, is not "not run"."""
    some: list[Figures] = [{"cost": 1.0, "energy": 2.0}, {"cost": 1.0}]

    @contextmanager
    def stage(_: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
        figures = some.pop(0)
        yield dict.fromkeys(sides, lambda: figures)

    energy = Row("energy", Source("ours", "energy"), COST, Source("theirs", "energy"))
    one = replace(case({}, peer_is_here=False), stage=stage, rows=(energy,), rounds=1)
    measured = measure(one, place(tmp_path), 2, lambda _: None)
    assert measured.taken == {OURS: (1.0, 1.0)}
    section = render(one, measured.taken, measured.missing, [])
    assert "| energy | not known | theirs: not run | - |" in section


@pytest.mark.parametrize(("peer", "reached"), [(2.5e-5, "yes"), (0.7e-5, "**no**")])
def test_a_table_has_figure_peer_ratio_and_goal(peer: float, reached: str) -> None:
    """A goal that was missed stands in the table as plainly as one that was reached."""
    taken = {OURS: (2e-5, 1e-5, 3e-5), THEIRS: (peer, peer, peer)}
    section = render(case({}), taken, {}, ["On a Monday."])
    [row] = [line for line in section.splitlines() if line.startswith("| a request")]
    assert "**20.0** µs (10.0 to 30.0)" in row
    assert f"theirs: **{peer * 1e6:.1f}** µs" in row
    assert f"**{2e-5 / peer:.3f}** ({1e-5 / peer:.3f} to {3e-5 / peer:.3f})" in row
    assert row.endswith(f"| ≤ 1.25 x peer | {reached} |")
    assert "On a Monday." in section


def test_a_peer_of_0_has_no_ratio() -> None:
    """Its figure stands in the table."""
    section = render(case({}), {OURS: (2e-5,), THEIRS: (0.0,)}, {}, [])
    assert "theirs: **0.0** µs (0.0 to 0.0) | - |" in section


def test_repeats_that_disagree_are_reported() -> None:
    """A goal that was reached in some repeats only says in how many."""
    taken = {OURS: (1.0, 1.2, 1.3, 1.4, 1.1), THEIRS: (1.0,) * 5}
    assert "| yes (3 of 5) |" in render(case({}), taken, {}, [])
    taken[OURS] = (1.0, 1.2, 1.3, 1.4, 1.5)
    assert "| **no** (2 of 5) |" in render(case({}), taken, {}, [])


def test_a_section_takes_its_own_place_and_no_more() -> None:
    """What people wrote round the marks, and other cases' sections, stay as they are."""
    page = (
        "# Title\n<!-- bench a: begin -->\nold\n<!-- bench a: end -->\nwords\n"
        "<!-- bench b: begin -->\nother\n<!-- bench b: end -->\n"
    )
    once = replaced(page, "a", "new\nlines")
    assert once == page.replace("old", "new\nlines")
    assert replaced(once, "a", "new\nlines") == once


@pytest.mark.parametrize("page", ["", "<!-- bench a: end -->\n<!-- bench a: begin -->\n"])
def test_a_page_without_marks_is_refused(page: str) -> None:
    """A page without marks gets no section."""
    with pytest.raises(PageError, match="bench a: begin"):
        replaced(page, "a", "new")


def test_the_text_of_each_section_is_that_of_its_case() -> None:
    """A run of a case would write the same; only figures change without a change of the code."""
    page = PAGE.read_text(encoding="utf-8")
    other = set()
    for each in (*CASES, *ON_REQUEST):
        begin = f"<!-- bench {each.name}: begin -->\n## {each.title}\n\n{each.text}\n\n|"
        if page.count(begin) != 1:
            other.add(each.name)
    assert other == NEW_TEXTS


def test_long_lines_below_a_table_are_wrapped() -> None:
    """They stand in a page that people read."""
    section = render(case({}), {OURS: (1.0,)}, {"theirs": "why " * 50}, ["word " * 50])
    below = section.partition("| a request")[2].splitlines()[1:]
    assert max(map(len, below)) <= 120
    assert " ".join(below).count("word") == 50


def test_every_case_has_its_section_and_sides() -> None:
    """Each case has its place on the page, and its rows name sides that it has."""
    page = PAGE.read_text(encoding="utf-8")
    for each in (*CASES, *ON_REQUEST):
        replaced(page, each.name, "section")
        names = {side.name for side in each.sides}
        for row in each.rows:
            assert row.ours.side in names
            assert row.peer is None or row.peer.side in names
