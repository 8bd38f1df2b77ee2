"""A search finds what its condition says, and refuses what it cannot understand."""

import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import event

from inferometer_results.explore.prices import read_prices
from inferometer_results.store import find_ids
from inferometer_results.store import store as store_module
from inferometer_results.store.condition import read_condition
from inferometer_results.store.database import NoSuchResultError
from inferometer_results.store.index_rows import JournalRow, best_figures
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import FIELDS, SORTING, SearchError
from inferometer_results.store.store import Store
from inferometer_results.store.tables import FIGURES
from support.stored_results import (
    CLUSTER,
    LOCAL,
    ORIGIN,
    a_document,
    fill_with_equals,
    pages_backwards,
    pages_forwards,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store with a result of a laptop and one of a cluster, which is tagged."""
    path: Path = tmp_path_factory.mktemp("store") / "results.db"
    run = LOCAL["run"] | {"metadata": LOCAL["run"]["metadata"] | {"labels": {"team": "a b"}}}
    with Store(str(path)) as opened:
        opened.add(a_document(1, LOCAL, run=run), ORIGIN, source="x")
        id_ = opened.add(a_document(2, CLUSTER), ORIGIN, source="x").id
        opened.note(id_, JournalRow("2026-02-01T00:00:00.000Z", "ann", "tag", "baseline"))
        yield opened


FOUND: list[tuple[str, set[str]]] = [
    ("", {"every-part", "test"}),
    ("model=oracle", {"test"}),
    ("model!=oracle", {"every-part"}),
    ("model~NET", {"every-part"}),
    ("model~%", set()),
    ("not model=oracle", {"every-part"}),
    ("model=oracle or run=every-part", {"every-part", "test"}),
    ("not (model=oracle or run=every-part)", set()),
    ("p99<50ms and scenario=s0", {"test"}),
    ("p99<1us", set()),
    ("model=oracle and p99<1us", set()),
    ("model=oracle and p99<50ms", {"test"}),
    ("p99<50000us", {"every-part", "test"}),
    ("scenario=s1 and scenario.verdict=VALID", set()),
    ("scenario=s1 and scenario.verdict=INVALID", {"test"}),
    ("qps>0.4k", {"every-part", "test"}),
    ('engine="onnxruntime 1.31.1"', {"every-part"}),
    ("tag=baseline", {"test"}),
    ("tag!=baseline", {"every-part"}),
    ('label.team="a b"', {"every-part"}),
    ("started>=2026-11-23T23", {"test"}),
    ("p99<50000\u00b5s", {"every-part", "test"}),
    ("p99<50000\u03bcs", {"every-part", "test"}),
    ("reason~clientstarved", {"every-part"}),
]


@pytest.mark.parametrize(("where", "found"), FOUND)
def test_a_condition_finds_the_results_that_it_describes(
    store: Store, where: str, found: set[str]
) -> None:
    """All conditions on figures hold for one measurement."""
    search = Search(where)
    assert {row["name"] for row in store.find(search)} == found
    assert store.count(search) == len(found)


@pytest.mark.parametrize("few", [0, 2000])
def test_a_result_without_measurements_is_found_by_an_alternative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """A figure that it lacks meets no condition, and rules out no other one."""
    monkeypatch.setattr(find_ids, "_FEW", few)
    with Store(str(tmp_path / "results.db")) as store:
        whole = store.add(a_document(1), ORIGIN, source="x").id
        empty = store.add(a_document(2, scenarios=[]), ORIGIN, source="x").id
        store.note(empty, JournalRow("2026-02-01T00:00:00.000Z", "ann", "tag", "failed"))
        for where, expected in (
            ("model=oracle or p99<1ns", {whole, empty}),
            ("p99<10s or (tag=failed and model=oracle)", {whole, empty}),
            ("model=oracle and (p99<1ns or tag=failed)", {empty}),
            ("not (model!=oracle and p99<1ns)", {whole, empty}),
            ("not (model=oracle and p99<1ns)", {whole}),
            ("model=oracle or p99<1ns and tag=failed", {whole, empty}),
            ("p99<1ns or p50<1ns", set()),
            ("p99<10s or p50<1ns", {whole}),
            ("(model=oracle or p99<1ns) and p50<10s", {whole}),
            ("not p99<1ns and model=oracle", {whole}),
        ):
            assert set(store.find_ids(Search(where))) == expected, where
            assert store.count(Search(where)) == len(expected), where


@pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", [0.5, 1.0, 1.5, 4.0, 1e300, -1e300])
def test_whole_numbers_are_compared_with_any_number(store: Store, sign: str, value: float) -> None:
    """As arithmetic has it, also between two of them and beyond the largest."""
    compare = _COMPARE[sign]
    expected = {
        row["name"]
        for row in store.find(Search())
        if any(compare(each["batch_size"], value) for each in row["measurements"])
    }
    assert {row["name"] for row in store.find(Search(f"batch{sign}{value}"))} == expected


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("few", [0, 1])
@pytest.mark.parametrize("sort", ["-started", "p99", "-qps", "energy", "model"])
def test_many_and_few_matches_are_found_alike(
    store: Store, monkeypatch: pytest.MonkeyPatch, few: int, sort: str
) -> None:
    """However a search goes about it: by IDs, by result, or in the order of a figure."""

    def find_all() -> list[list[str]]:
        searches = [Search(where, sort) for where, _ in FOUND] + [Search("", sort, text="or")]
        return [[row["name"] for row in store.find(each)] for each in searches]

    usual = find_all()
    monkeypatch.setattr(find_ids, "_FEW", few)
    assert find_all() == usual


def test_letters_beyond_ascii_are_found_in_any_case(tmp_path: Path) -> None:
    """By `~` as by words; SQLite's own function leaves them as they are."""
    environment = LOCAL["environment"]
    model = environment["model"] | {"name": "ÄRGER-Net"}
    with Store(str(tmp_path / "results.db")) as store:
        document = a_document(1, LOCAL, environment=environment | {"model": model})
        store.add(document, ORIGIN, source="x")
        searches = [Search(f"model~{each}") for each in ("ÄRGER", "ärger", "RGER-n")]
        searches += [Search(text="Ärger"), Search("model~Ö")]
        assert [store.count(each) for each in searches] == [1, 1, 1, 1, 0]


def test_every_word_of_a_search_counts(store: Store) -> None:
    """More than can be looked for are refused; a repeated one is one."""
    assert store.count(Search(text="oracle " * 11)) == 1
    with pytest.raises(SearchError, match="at most 10 words, and this one has 11"):
        store.count(Search(text=" ".join(f"word{number}" for number in range(11))))


def test_a_condition_is_not_counted_without_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is; of a condition the page says that there are more."""
    monkeypatch.setattr(store_module, "MOST_COUNTED", 1)
    assert [(store.page(each).total, store.page(each).is_exact) for each in _PAGES] == [
        (2, True),
        (1, True),
        (1, False),
        (1, False),
    ]


def test_few_matches_are_counted_as_they_are_found(store: Store) -> None:
    """Without a query of its own, unless a condition on a figure is left."""
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert [store.page(Search(each)).total for each in ("model=oracle", "model=none")] == [1, 0]
    assert not any("count(*)" in each for each in statements)
    assert store.page(Search("model=oracle and p99<10s")).total == 1
    assert any("count(*)" in each for each in statements)


_PAGES = (Search(), Search("model=oracle"), Search("p99<10s"), Search(text="cpu"))


@pytest.mark.parametrize(("most", "is_counted_there"), [(1000, True), (1, False)])
def test_results_of_many_measurements_are_counted_by_the_index_of_these(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, *, is_counted_there: bool
) -> None:
    """Each once; if the measurements are too many, result by result."""
    monkeypatch.setattr(find_ids, "_FEW", 0)
    monkeypatch.setattr(find_ids, "_MOST_MEASURED", most)
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    found = [row["measurements"] for row in store.find(Search())]
    quick = sum(any((each["p99_nanoseconds"] or 1e99) < 1e10 for each in row) for row in found)
    assert [store.page(Search(each)).total for each in ("p99<10s", "batch>=1")] == [
        quick,
        sum(map(bool, found)),
    ]
    counted = [each for each in statements if "EXISTS" in each and "count(*)" in each]
    assert (not counted) == is_counted_there


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("modle=x", "There is no field 'modle'. Did you mean model?"),
        ("model", "The condition ends where one of = != < <= > >= ~ was expected."),
        ("model=", "The condition ends where a value was expected."),
        ("model x", "After 'model' one of = != < <= > >= ~ was expected."),
        ("(model=x", "A bracket is not closed."),
        ("model=x model=y", "'model' stands where and, or, or the end was expected."),
        ("p99<50", "p99 is compared with 50ms, with its unit: ns, us, ms or s; '50' is not that."),
        ("qps>1m", "qps is compared with 100, 2.5k or 1M; '1m' is not that."),
        ("energy<1Mj", "energy is compared with 80mJ, with its unit: uJ, mJ or J; '1Mj' is"),
        ("started>yesterday", "started is compared with a date or a time in UTC, such as 2026-"),
        ("started=2026-99-99", "started is compared with a date or a time in UTC, such as 2026-"),
        ("started=2026-11T08", "started is compared with a date or a time in UTC, such as 2026-"),
        ("started=0000", "started is compared with a date or a time in UTC, such as 2026-"),
        ("qps~5", "qps is a figure: compare it with = != < <= > or >=."),
        ("tag>x", "Tags and labels are compared with = and !=, not with >."),
        ('model="x', "Cannot read the condition from '\"x' on."),
    ],
)
def test_a_condition_that_cannot_be_understood_is_refused_with_what_to_do(
    store: Store, where: str, message: str
) -> None:
    """The message names the place."""
    with pytest.raises(SearchError) as raised:
        store.find(Search(where))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("energy<1mJ", 1e3),
        ("energy<1mj", 1e3),
        ("energy<1MJ", 1e12),
        ("energy<2kJ", 2e9),
        ("energy<1\u00b5J", 1),
        ("energy<1\u03bcJ", 1),
        ("qps<1M", 1e6),
        ("qps<1K", 1e3),
        ("qps<1e-2k", 10.0),
    ],
)
def test_the_case_of_a_unit_counts(where: str, value: float) -> None:
    """A megajoule is no millijoule; both signs of micro are one."""
    _, (condition,) = read_condition(where)
    assert list(condition.compile().params.values()) == [value]


_STARTED = "2026-11-24T08:30:15.250Z"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store with one result, which started at that time."""
    with Store(str(tmp_path_factory.mktemp("started") / "results.db")) as opened:
        opened.add(a_document(1, LOCAL, startedAt=_STARTED), ORIGIN, source="x")
        yield opened


@pytest.mark.parametrize(
    ("earlier", "same", "later"),
    [
        ("2025", "2026", "2027"),
        ("2026-10", "2026-11", "2026-12"),
        ("2026-11-23", "2026-11-24", "2026-11-25"),
        ("2026-11-24T07", "2026-11-24T08", "2026-11-24T09"),
        ("2026-11-24T08:29", "2026-11-24T08:30", "2026-11-24T08:31"),
        ('"2026-11-24 08:29"', '"2026-11-24 08:30Z"', '"2026-11-24 08:31"'),
        ("2026-11-24T08:30:14", "2026-11-24T08:30:15", "2026-11-24T08:30:16"),
        ("2026-11-24T08:30:14Z", "2026-11-24T08:30:15Z", "2026-11-24T08:30:16Z"),
        ("2026-11-24T08:30:15.1", "2026-11-24T08:30:15.2", "2026-11-24T08:30:15.3"),
        ("2026-11-24T08:30:15.249Z", _STARTED, "2026-11-24T08:30:15.251Z"),
        ("2026-02", "2026-11", "2027-02"),
    ],
)
def test_a_time_is_compared_with_a_span(
    started: Store, earlier: str, same: str, later: str
) -> None:
    """A day has all results that started on it: <= includes them, and > leaves them out."""
    results = {
        f"{sign}{span}": started.count(Search(f"started{sign}{span}"))
        for span in (earlier, same, later)
        for sign in ("=", "!=", "<", "<=", ">", ">=")
    }
    assert {each for each, found in results.items() if found} == {
        *(f"{sign}{earlier}" for sign in ("!=", ">", ">=")),
        *(f"{sign}{same}" for sign in ("=", "<=", ">=")),
        *(f"{sign}{later}" for sign in ("!=", "<", "<=")),
    }


@pytest.mark.parametrize(
    ("time", "kept"),
    [
        ("2026-11-24T08:30:15.250+01:00", "2026-11-24T07:30:15.250Z"),
        ("2026-11-24T07:30:15.250999Z", "2026-11-24T07:30:15.250Z"),
        *(
            (none, ORIGIN.received_at)
            for none in (
                "2026-99-99T99:99:99Z",
                "2026-12-31T23:59:60Z",
                "0001-01-01T00:00:00+14:00",
                "9999-12-31T23:59:59.999999-12:00",
            )
        ),
    ],
)
def test_a_time_of_another_form_is_kept_in_utc(tmp_path: Path, time: str, kept: str) -> None:
    """Another program may write it; instead of one that does not exist, when it was received."""
    with Store(str(tmp_path / "results.db")) as opened:
        opened.add(a_document(1, LOCAL, startedAt=time, finishedAt=time), ORIGIN, source="x")
        (row,) = opened.find(Search(sort="started"))
        assert (row["started_at"], row["finished_at"]) == (kept, kept)
        assert opened.count(Search(f'started="{kept}"')) == 1
        assert opened.count(Search(f'started<"{kept}"')) == 0


@pytest.mark.parametrize("sort", ["started", "-started", "run", "-run"])
def test_pages_go_on_between_results_of_one_millisecond(tmp_path: Path, sort: str) -> None:
    """Each is listed once, also if its time has microseconds."""
    with Store(str(tmp_path / "results.db")) as opened:
        for number in range(5):
            time = f"2026-11-24T07:30:15.25010{number}Z"
            opened.add(a_document(number, LOCAL, startedAt=time), ORIGIN, source="x")
        found: list[str] = []
        for _ in range(5):
            page = opened.page(Search(sort=sort, limit=1, after=found[-1] if found else ""))
            found += [row["id"] for row in page.rows]
        assert found == opened.find_ids(Search(sort=sort))
        assert len(set(found)) == 5


def test_a_condition_takes_a_time_of_another_zone(tmp_path: Path) -> None:
    """It is compared as the same time in UTC."""
    with Store(str(tmp_path / "results.db")) as opened:
        opened.add(a_document(1, LOCAL, startedAt="2026-11-24T07:30:15Z"), ORIGIN, source="x")
        assert opened.count(Search('started="2026-11-24T08:30:15+01:00"')) == 1
        assert opened.count(Search('started>"2026-11-24T08:30:15+01:00"')) == 0
        with pytest.raises(SearchError, match="is not that"):
            opened.count(Search('started>"0001-01-01T00:00:00+14:00"'))


@pytest.mark.parametrize(
    ("where", "count"),
    [("started<9999", 2), ("started<=9999-12", 2), ("started>9999-12-31", 0), ("started=9999", 0)],
)
def test_the_last_year_is_an_open_end(store: Store, where: str, count: int) -> None:
    """Nothing follows it."""
    assert store.count(Search(where)) == count


_WORDS = st.sampled_from(
    [*FIELDS, "tag", "label.a", "and", "or", "not", "(", ")", "=", "<", "~", "50ms", "x", '"a b"']
)


@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=12).map(" ".join)))
@example("(" * 500)
@example("not " * 500 + "model=x")
@example("\x00=1")
def test_no_condition_breaks_a_search(store: Store, where: str) -> None:
    """It is answered, or refused with a sentence."""
    with suppress(SearchError):
        assert len(store.find(Search(where))) <= 2


ORDERS = [f"{sign}{name}" for name in SORTING for sign in ("", "-")]


@pytest.mark.parametrize("sort", ORDERS)
def test_results_are_sorted_by_any_field(store: Store, sort: str) -> None:
    """Either way all are there."""
    assert len(store.find(Search("", sort))) == 2


def test_sorting_by_a_figure_takes_the_best_scenario(store: Store) -> None:
    """The highest rate, the lowest latency; an INVALID one never ranks, and comes last."""
    assert [row["name"] for row in store.find(Search("", "-qps"))] == ["test", "every-part"]
    assert [row["name"] for row in store.find(Search("", "p50", limit=1))] == ["test"]
    later = Search("", "p50", limit=1, offset=1)
    assert [row["name"] for row in store.find(later)] == ["every-part"]


def test_the_best_of_several_scenarios_is_the_lowest_latency_and_the_highest_rate() -> None:
    """Only VALID scenarios count, by the step that stands for them."""
    columns = dict.fromkeys(FIGURES.values())
    rows = [
        columns | {"headline": headline, "verdict": verdict, "p99_nanoseconds": ns, "qps": qps}
        for headline, verdict, ns, qps in (
            (True, "VALID", 5, 10.0),
            (True, "VALID", 7, 30.0),
            (True, "INVALID", 1, 99.0),
            (False, "VALID", 2, 88.0),
        )
    ]
    best = best_figures(rows)
    assert (best["best_p99"], best["best_qps"], best["best_energy"]) == (5, 30.0, None)


@pytest.mark.parametrize("sort", ["p99", "-qps"])
def test_results_that_users_stored_come_last_in_the_order_of_a_figure(
    tmp_path: Path, sort: str
) -> None:
    """Whatever their figures say: they are ranked apart."""
    with Store(str(tmp_path / "results.db")) as found:
        for number, source in enumerate(("operator", "user", "run")):
            found.add(a_document(number), replace(ORIGIN, source=source), source="x")
        rows = found.find(Search("", sort))
    assert rows[-1]["source"] == "user"


@pytest.mark.parametrize("sort", ["p99", "-qps"])
def test_incomplete_results_come_last_in_the_order_of_a_figure(tmp_path: Path, sort: str) -> None:
    """Their scenarios may be VALID: the run failed later."""
    with Store(str(tmp_path / "results.db")) as found:
        for number, state in enumerate(("Complete", "Failed", "Complete")):
            outcome = CLUSTER["outcome"] | {"state": state}
            found.add(a_document(number, outcome=outcome), ORIGIN, source="x")
        rows = found.find(Search("", sort))
    assert [each["outcome"] for each in rows] == ["Complete", "Complete", "Failed"]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store with many equal results, some without any figure."""
    path: Path = tmp_path_factory.mktemp("store") / "results.db"
    with Store(str(path)) as opened:
        fill_with_equals(opened)
        yield opened


@pytest.mark.parametrize("sort", ORDERS)
@pytest.mark.parametrize("where", ["", "p99<10s or model=oracle"])
def test_a_list_continues_after_any_of_its_results(long: Store, sort: str, where: str) -> None:
    """Page by page, forwards and backwards, each result comes once, in the order of the list."""
    whole = long.find_ids(Search(where, sort))
    assert len(whole) == long.count(Search(where))
    assert pages_forwards(long, where, sort) == whole
    assert pages_backwards(long, where, sort) == whole


def test_results_without_a_figure_come_last_in_either_order(long: Store) -> None:
    """The opposite order is the exact reverse of the results that have it."""
    up, down = (long.find(Search("", sort)) for sort in ("p99", "-p99"))
    has = [_has_p99(each) for each in up]
    assert has == sorted(has, reverse=True)
    assert {True, False} == set(has)
    count = sum(has)
    assert [each["id"] for each in up[:count]][::-1] == [each["id"] for each in down[:count]]
    assert up[count:] == down[count:]


@pytest.fixture
def costly(long: Store) -> Iterator[Store]:
    """Have the nodes of some of the results cost something."""
    long.price = read_prices(PRICES, "prices").of_node_set
    yield long
    long.price = None


PRICES = """
currency: EUR
nodes: [{node: node-7, perHour: 0.36}]
"""


@pytest.mark.parametrize("sort", ["cost", "-cost"])
def test_a_list_in_the_order_of_cost_continues_anywhere(costly: Store, sort: str) -> None:
    """The order is that of the cost, which the rate and the price of the nodes give."""
    whole = costly.find_ids(Search("", sort))
    assert pages_forwards(costly, "", sort) == whole
    assert pages_backwards(costly, "", sort) == whole
    priced = costly.find_ids(Search("cost>0", sort))
    assert 0 < len(priced) < len(whole)
    assert set(whole[: len(priced)]) == set(priced)


def test_a_cost_is_the_price_over_the_rate(costly: Store) -> None:
    """0.36 an hour are 100 for a million at one a second; other nodes cost nothing known."""
    rows = costly.find(Search("node=node-7 and samples>0"))
    cost = 100 / max(each["samples_per_second"] for row in rows for each in row["measurements"])
    assert costly.count(Search(f"cost<{cost * 0.999}")) == 0
    assert costly.count(Search(f"cost<{cost * 1.001}")) == len(rows)
    assert costly.count(Search("cost<1000 and node=vm")) == 0


def test_a_search_by_cost_needs_a_price_list(long: Store) -> None:
    """In a condition and as an order."""
    for search in (Search("cost<1"), Search(sort="-cost")):
        with pytest.raises(SearchError, match="cost needs a price list"):
            long.find_ids(search)


def _has_p99(result: dict[str, Any]) -> bool:
    return any(
        each["p99_nanoseconds"] and each["headline"] and each["verdict"] == "VALID"
        for each in result["measurements"]
    )


def test_a_list_continues_only_after_a_result_that_is_there(long: Store) -> None:
    """The beginning of its ID is enough; it may be none of the list itself."""
    (first, *_) = long.find_ids(Search("", "started"))
    assert long.find_ids(Search("model=oracle", "started", 1, after=first[:12]))
    with pytest.raises(NoSuchResultError, match="No result has an ID"):
        long.find_ids(Search(after="f" * 32))
    with pytest.raises(NoSuchResultError, match="is not the ID of a result"):
        long.find_ids(Search(before="x"))
