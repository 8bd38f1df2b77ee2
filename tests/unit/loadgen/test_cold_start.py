"""A cold start's record: phases from several witnesses, the gap, and the verdict about them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.plan.load_plan import ObservedPhase, StartEvidence
from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.spec.scenario import ColdStartState
from inferometer_loadgen.run.cold_start import FirstQueries, compose_record, read_phases
from inferometer_loadgen.server.readiness import ReadinessCalls
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import ScenarioConditions

T0 = 1_700_000_000_000_000
QUERIES = FirstQueries(T0 + 1_500_000, [9_000_000, 3_000_000], 2_000_000)


def _phase(name: str, start: int, end: int, **more: object) -> ObservedPhase:
    return ObservedPhase(
        name=name,
        start_microseconds=T0 + start,
        end_microseconds=T0 + end,
        evidence="a test",
        **more,  # type: ignore[arg-type]
    )


FETCH = _phase("modelFetched", 0, 400_000, bytes=40_000_000)
OWN = [
    _phase("imported", 600_000, 900_000),
    _phase("sessionCreated", 900_000, 1_000_000, parts={"parse": 30_000}),
    _phase("ready", 1_000_000, 1_001_000),
]


def _record(
    *own: ObservedPhase, launched: int | None = 410_000, **evidence: object
) -> ColdStartRecord:
    found = StartEvidence(
        created_microseconds=T0,
        launched_microseconds=None if launched is None else T0 + launched,
        phases=[FETCH],
        **evidence,  # type: ignore[arg-type]
    )
    return compose_record("ImagePresent", found, own, QUERIES)


def test_phases_of_all_witnesses_are_one_start() -> None:
    """The fetch, the process until its first line, the server's own phases and the first answer.

    The total has no time of the load generator; the gap is what lies between two witnesses.
    """
    found = _record(*OWN)
    assert [
        (each.name, each.start_nanoseconds, each.duration_nanoseconds) for each in found.phases
    ] == [
        ("modelFetched", 0, 400_000_000),
        ("processStarted", 410_000_000, 190_000_000),
        ("imported", 600_000_000, 300_000_000),
        ("sessionCreated", 900_000_000, 100_000_000),
        ("ready", 1_000_000_000, 1_000_000),
        ("firstAnswer", 1_001_000_000, 9_000_000),
    ]
    assert found.total_nanoseconds == 1_010_000_000
    assert found.gap_nanoseconds == 10_000_000
    assert found.client_delay_nanoseconds == 499_000_000
    assert found.phases[0].bytes_per_second == 100_000_000
    assert found.phases[3].parts == {"parse": 30_000_000}
    assert found.first_queries_nanoseconds == [9_000_000, 3_000_000]
    assert found.unavailable == {}


def test_a_fetch_without_bytes_says_so() -> None:
    """The states of a pod's containers have the times of its fetcher alone."""
    fetch = _phase("modelFetched", 0, 400_000)
    evidence = StartEvidence(created_microseconds=T0, phases=[fetch])
    found = compose_record("ImagePresent", evidence, OWN, QUERIES)
    assert found.phases[0].bytes_per_second is None
    assert "do not have them" in found.unavailable["bytes of modelFetched"]


@given(st.lists(st.integers(0, 50_000), min_size=6, max_size=6), st.integers(0, 5))
def test_phases_and_gap_are_the_total(lengths: list[int], delayed: int) -> None:
    """Whatever the phases last, they and the gap make the total; a delay is in its own phase."""
    lengths[delayed] += 2_000_000
    times = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    # The third is time that no one saw.
    own = [_phase(f"p{at}", times[at], times[at + 1]) for at in (3, 4, 5)]
    evidence = StartEvidence(
        created_microseconds=T0,
        phases=[_phase(f"p{at}", times[at], times[at + 1]) for at in (0, 1)],
    )
    found = compose_record("ModelCached", evidence, own, QUERIES)
    covered = sum(each.duration_nanoseconds for each in found.phases)
    assert covered + found.gap_nanoseconds == found.total_nanoseconds
    by_name = {each.name: each.duration_nanoseconds for each in found.phases}
    by_name["p2"] = found.gap_nanoseconds
    assert by_name[f"p{delayed}"] >= 2_000_000_000


def test_a_server_without_phases_has_one() -> None:
    """From its process's start until it is seen ready, at the resolution of the polls."""
    found = _record(ready_microseconds=T0 + 1_000_000)
    last = found.phases[-2]
    assert (last.name, last.duration_nanoseconds) == ("serverStarted", 590_000_000)
    assert last.resolution_nanoseconds == 100_000_000
    assert "phases of the server" in found.unavailable
    unseen = _record()
    assert unseen.phases[-2].duration_nanoseconds == 1_090_000_000  # until the first query


def _observed(
    *, first: int, refused: int | None, called: int, answered: int, **evidence: object
) -> ColdStartRecord:
    """Return the record of a start whose phases end at 1,001,000 µs."""
    times = [None if each is None else T0 + each for each in (first, refused, called, answered)]
    calls = ReadinessCalls(*times)  # type: ignore[arg-type]
    found = StartEvidence(created_microseconds=T0, **evidence)  # type: ignore[arg-type]
    queries = FirstQueries(T0 + 4_000_000, [9_000_000], 2_000_000, calls)
    own = [_phase("imported", 0, 900_000), _phase("ready", 900_000, 1_001_000)]
    return compose_record("ModelCached", found, own, queries)


@pytest.mark.parametrize(
    ("calls", "gap"),
    [
        # One call waits for its answer from before the server reports its last phase.
        ({"first": 500_000, "refused": None, "called": 500_000, "answered": 3_001_000}, 2_000),
        # The server refuses calls for 1 s, then an answer takes 0.5 s; the pause is the caller's.
        ({"first": 0, "refused": 2_001_000, "called": 2_021_000, "answered": 2_521_000}, 1_500),
        # The first call comes later: what the server did before is not known.
        ({"first": 3_000_000, "refused": None, "called": 3_000_000, "answered": 3_500_000}, 500),
        # A quick answer proves nothing.
        ({"first": 3_000_000, "refused": None, "called": 3_000_000, "answered": 3_100_000}, 0),
        ({"first": 0, "refused": 990_000, "called": 1_010_000, "answered": 1_015_000}, 0),
    ],
)
def test_a_server_that_does_not_answer_is_not_ready(calls: dict[str, int], gap: int) -> None:
    """Time in which the load generator waits for an answer is in total and gap, not its own."""
    found = _observed(**calls)
    assert found.gap_nanoseconds == gap * 1_000_000
    assert found.total_nanoseconds == 1_010_000_000 + gap * 1_000_000
    assert found.client_delay_nanoseconds == (2_999 - gap) * 1_000_000
    assert found.phases[-1].start_nanoseconds == 1_001_000_000 + gap * 1_000_000


@pytest.mark.parametrize(("ready", "gap"), [(3_001_000, 0), (3_002_000, 2_001_000), (900_000, 0)])
def test_a_pod_that_becomes_ready_late_is_not_ready(ready: int, gap: int) -> None:
    """What the cluster sees counts beyond its resolution: a probe a second, and whole seconds."""
    found = _observed(
        first=3_500_000,
        refused=None,
        called=3_500_000,
        answered=3_501_000,
        ready_microseconds=T0 + ready,
        launched_microseconds=T0,
        launched_resolution_microseconds=1_000_000,
    )
    assert found.gap_nanoseconds == gap * 1000
    assert found.total_nanoseconds == 1_010_000_000 + gap * 1000


@pytest.mark.parametrize("text", ["", "nonsense", json.dumps([{"name": "x"}])])
def test_phases_that_cannot_be_read_are_none(text: str) -> None:
    """A server that reports something else reports nothing."""
    assert read_phases(text) == []


def _rules(record: ColdStartRecord) -> tuple[list[str], list[str]]:
    verdict = judge([], ScenarioConditions(kind="coldStart", cold_start=record))
    return [each.rule for each in verdict.reasons], [each.rule for each in verdict.cautions]


@pytest.mark.parametrize(
    ("state", "resident", "reasons"),
    [
        ("ImagePresent", 10, []),
        ("ImagePresent", 11, ["ColdStartState"]),
        ("ModelCached", 11, ["ColdStartState"]),
        ("ModelInMemory", 989, ["ColdStartState"]),
        ("ModelInMemory", 990, []),
    ],
)
def test_a_state_that_does_not_hold_is_invalid(
    state: str, resident: int, reasons: list[str]
) -> None:
    """More than 1 % in memory is not cold, and less than 99 % is not warm."""
    found = _record(*OWN, launched=400_000, model_bytes=1000, resident_bytes=resident)
    assert _rules(found.model_copy(update={"state": state})) == (reasons, [])


@pytest.mark.parametrize(
    ("state", "words"), [("ModelCached", "at most 1 %"), ("ModelInMemory", "at least 99 %")]
)
def test_a_state_that_does_not_hold_is_named_with_its_limit(state: str, words: str) -> None:
    """The message has the share that was in memory and the share that the state has."""
    found = _record(*OWN, launched=400_000, model_bytes=1000, resident_bytes=500)
    found = found.model_copy(update={"state": state})
    (reason,) = judge([], ScenarioConditions(kind="coldStart", cold_start=found)).reasons
    assert reason.message.startswith(
        f"Before the start 50.0 % of the model's files were in memory; the state {state} has "
        f"{words}. "
    )


def test_files_that_were_not_there_are_cold() -> None:
    """A model that the start itself fetches was nowhere before."""
    found = _record(*OWN, launched=400_000, model_bytes=0, resident_bytes=0)
    assert _rules(found) == ([], [])


def test_a_gap_of_more_than_a_twentieth_is_invalid() -> None:
    """The message has the gap, the total and the share."""
    known = {"model_bytes": 0, "resident_bytes": 0}
    assert _rules(_record(*OWN, launched=450_000, **known)) == ([], [])  # 50 of 1,010 ms
    assert _rules(_record(*OWN, launched=460_000, **known)) == (["ColdStartGap"], [])


def test_an_unknown_state_is_a_caution() -> None:
    """The reason is in the message."""
    found = _record(*OWN, launched=400_000, residency_unknown="it belongs to another user")
    verdict = judge([], ScenarioConditions(kind="coldStart", cold_start=found))
    (caution,) = verdict.cautions
    assert caution.rule == "ColdStartUnproven"
    assert "it belongs to another user" in caution.message


_PULLED = StartEvidence(
    created_microseconds=T0,
    phases=[_phase("imagePulled", 0, 400_000)],
    model_bytes=0,
    resident_bytes=0,
)


@pytest.mark.parametrize(
    ("state", "unknown", "rules"),
    [
        ("ImagePresent", "", (["ColdStartState"], [])),
        ("ImagePresent", "it is pulled each time", ([], ["ColdStartUnproven"])),
        ("Nothing", "", ([], [])),
        ("Nothing", "it is pulled each time", ([], [])),
    ],
)
def test_an_image_that_is_pulled_was_not_present(
    state: ColdStartState, unknown: str, rules: tuple[list[str], list[str]]
) -> None:
    """Unless the kubelet reports a pull in any case: then it is not known."""
    evidence = _PULLED.model_copy(update={"image_unknown": unknown})
    own = [_phase("imported", 400_000, 1_000_000)]
    assert _rules(compose_record(state, evidence, own, QUERIES)) == rules


def test_a_pulled_image_is_named_with_the_state_that_has_it() -> None:
    """And the caution has its reason."""
    record = compose_record("ImagePresent", _PULLED, OWN, QUERIES)
    (reason,) = [
        each
        for each in judge([], ScenarioConditions(kind="coldStart", cold_start=record)).reasons
        if each.rule == "ColdStartState"
    ]
    assert reason.message.startswith(
        "The state ImagePresent has the image on the node before the start, and the pod pulled it."
    )
    unknown = _PULLED.model_copy(update={"image_unknown": "it is pulled each time"})
    record = compose_record("ImagePresent", unknown, OWN, QUERIES)
    (caution,) = judge([], ScenarioConditions(kind="coldStart", cold_start=record)).cautions
    assert "whether the image was on the node before the start: it is pulled each" in (
        caution.message
    )
