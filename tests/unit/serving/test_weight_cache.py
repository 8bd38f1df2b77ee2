"""The bookkeeping of a GPU's weights: references, quota, what leaves; their places in memory."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.gpu.broker.layout import ALIGNMENT_BYTES, Extent, lay_out, windows
from inferometer_serving.gpu.broker.payoff import SharingConstants
from inferometer_serving.gpu.broker.weight_cache import WeightCache

_EXTENTS = st.lists(
    st.builds(Extent, offset=st.integers(0, 5000), length=st.integers(1, 3000)),
    min_size=1,
    max_size=20,
)


def _loaded(cache: WeightCache, key: str, size: int, now: float) -> None:
    assert cache.reserve(key, size, now) is not None
    cache.finish(key, 1.0, now)


def test_a_full_cache_gives_up_the_model_that_was_used_longest_ago_and_no_used_one() -> None:
    """A reference protects its model, however old it is."""
    cache = WeightCache(300, "LRU")
    for now, key in enumerate("abc"):
        _loaded(cache, key, 100, float(now))
    cache.acquire("a", 3.0)
    assert cache.reserve("d", 150, 4.0) == ("b", "c")
    assert cache.used_bytes == 250
    assert cache.is_loaded("d") is False
    assert cache.is_loaded("b") is None


def test_a_model_without_room_changes_nothing() -> None:
    """Models in use or being loaded stay, and so do unused ones that would not suffice."""
    cache = WeightCache(300, "LRU")
    _loaded(cache, "used", 100, 0.0)
    cache.acquire("used", 0.0)
    assert cache.reserve("loading", 100, 1.0) == ()
    _loaded(cache, "unused", 100, 2.0)
    assert cache.reserve("large", 150, 3.0) is None
    assert set(cache.keys) == {"used", "loading", "unused"}


def test_a_released_model_may_leave_and_a_failed_load_frees_its_room() -> None:
    """Both give their bytes back."""
    cache = WeightCache(100, "CostAware")
    _loaded(cache, "a", 100, 0.0)
    cache.acquire("a", 0.0)
    assert cache.reserve("b", 100, 1.0) is None
    cache.release("a", 2.0)
    assert cache.references == 0
    assert cache.reserve("b", 100, 3.0) == ("a",)
    cache.discard("b")
    assert cache.used_bytes == 0


def test_cost_aware_eviction_keeps_what_was_slow_to_load_and_is_used_often() -> None:
    """The policy of the node's cache holds here too."""
    cache = WeightCache(200, "CostAware")
    for key, load_seconds, uses in (("slow", 5.0, 3), ("fast", 0.1, 1)):
        assert cache.reserve(key, 100, 0.0) is not None
        cache.finish(key, load_seconds, 0.0)
        for _ in range(uses):
            cache.acquire(key, 1.0)
            cache.release(key, 1.0)
    assert cache.reserve("new", 100, 2.0) == ("fast",)


@given(_EXTENTS, st.sampled_from([256, 1024, 1 << 20]))
def test_every_byte_of_a_layout_is_copied_once_and_to_its_place(
    extents: list[Extent], window_bytes: int
) -> None:
    """Windows follow one another, and their pieces put each tensor at its aligned place."""
    content = bytes(itertools.islice(itertools.cycle(range(251)), 8000))
    layout = lay_out(extents)
    memory = bytearray(layout.size_bytes)
    end = 0
    for window in windows(layout, window_bytes):
        assert window.place == end
        assert window.length <= window_bytes
        end += window.length
        for piece in window.pieces:
            place = window.place + piece.place
            assert piece.place + piece.length <= window.length
            read = content[piece.file_offset : piece.file_offset + piece.length]
            memory[place : place + piece.length] = read
    assert end == layout.size_bytes
    for extent, place in zip(extents, layout.places, strict=True):
        assert place % ALIGNMENT_BYTES == 0
        found = memory[place : place + extent.length]
        assert found == content[extent.offset : extent.offset + extent.length]


def test_sharing_pays_if_a_load_takes_longer_than_export_and_opening() -> None:
    """The rule of TrIMS: rho = b / q - n (o + s)."""
    constants = SharingConstants(
        load_bytes_per_second=10e9, export_seconds=0.0001, open_seconds=0.0004
    )
    assert constants.seconds_saved(300_000_000) == pytest.approx(0.0295)
    assert constants.seconds_saved(300_000_000, objects=2) == pytest.approx(0.029)
    assert constants.seconds_saved(1_000_000) == pytest.approx(-0.0004)
