"""Clock offsets from exchanges of time stamps, and the identity of clocks."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.fleet.clock_sync import ClockExchange, estimate_offset
from inferometer_loadgen.fleet.messages import ClockIdentity

_NS = st.integers(0, 10**9)
_AHEAD = st.integers(-(10**15), 10**15)


@given(_AHEAD, st.lists(st.tuples(_NS, _NS, _NS), min_size=1, max_size=20))
def test_the_true_offset_lies_within_the_uncertainty(
    ahead: int, ways: list[tuple[int, int, int]]
) -> None:
    """However different both directions are, the error is within the uncertainty."""
    exchanges = []
    for begin, there, back in ways:
        sent_ns = 10**12 + begin
        exchanges.append(ClockExchange(sent_ns, sent_ns + there + ahead, sent_ns + there + back))
    found = estimate_offset(exchanges)
    assert abs(found.ahead_ns - ahead) <= found.uncertainty_ns + 1  # the middle is a whole number
    assert found.uncertainty_ns == -(-min(there + back for _, there, back in ways) // 2)


def test_equal_directions_give_the_exact_offset() -> None:
    """The middle of the exchange is then the time of the other clock's stamp."""
    assert (
        estimate_offset([ClockExchange(100, 7_150, 200), ClockExchange(0, 9_999, 1_000)]).ahead_ns
        == 7_000
    )


def test_a_clock_is_identified_by_boot_and_namespace() -> None:
    """A clock without a boot id never equals another."""
    here = ClockIdentity("b7", "time:[1]")
    assert here.is_same(ClockIdentity("b7", "time:[1]"))
    assert not here.is_same(ClockIdentity("b7", "time:[2]"))
    assert not here.is_same(ClockIdentity("c8", "time:[1]"))
    assert not ClockIdentity("", "").is_same(ClockIdentity("", ""))
