"""Tests of the choice of what leaves a full model cache."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_models.cache_eviction import (
    HALF_LIFE_SECONDS,
    CachedModel,
    EvictionPolicy,
    choose_victims,
    decayed,
)

NOW = 1e9
_MODELS = st.lists(
    st.builds(
        CachedModel,
        key=st.uuids().map(str),
        size_bytes=st.integers(1, 1000),
        fetch_seconds=st.floats(0, 1000),
        popularity=st.floats(0, 100),
        last_used=st.floats(NOW - 1e6, NOW),
    ),
    max_size=12,
    unique_by=lambda model: model.key,
)
_POLICIES: st.SearchStrategy[EvictionPolicy] = st.sampled_from(["CostAware", "LRU"])


@given(_MODELS, st.integers(-10, 20_000), _POLICIES)
def test_enough_is_freed_and_no_more(
    models: list[CachedModel], missing: int, policy: EvictionPolicy
) -> None:
    """The victims free the missing bytes, and without the last of them they would not."""
    sizes = {each.key: each.size_bytes for each in models}
    found = choose_victims(models, missing, policy=policy, now=NOW)
    if found is None:
        assert sum(sizes.values()) < missing
        return
    assert len(set(found)) == len(found)
    assert sum(sizes[key] for key in found) >= missing
    assert not found or sum(sizes[key] for key in found[:-1]) < missing


def _model(key: str, **facts: float) -> CachedModel:
    known = {"size_bytes": 100, "fetch_seconds": 10.0, "popularity": 1.0, "last_used": NOW}
    return CachedModel(key=key, **{**known, **facts})  # type: ignore[arg-type]  # named above


def test_the_least_recently_used_goes_first() -> None:
    """LRU looks at the last use alone."""
    models = [_model("new", popularity=0), _model("old", last_used=NOW - 1, popularity=99)]
    assert choose_victims(models, 1, policy="LRU", now=NOW) == ("old",)


def test_what_costs_least_to_fetch_again_goes_first() -> None:
    """Cost-aware eviction prefers quick, unpopular and large models, one factor at a time."""
    for other in ({"fetch_seconds": 9.0}, {"popularity": 0.9}, {"size_bytes": 101}):
        models = [_model("kept"), _model("gone", **other)]
        assert choose_victims(models, 1, policy="CostAware", now=NOW) == ("gone",)


def test_popularity_fades() -> None:
    """A mount counts half after each half-life, and a new one counts one."""
    model = _model("m", popularity=4.0)
    assert decayed(model, NOW + 2 * HALF_LIFE_SECONDS) == 1.0
    used = model.used_at(NOW + HALF_LIFE_SECONDS)
    assert (used.popularity, used.last_used) == (3.0, NOW + HALF_LIFE_SECONDS)
