"""Tests of the reconciliation of references with the mounts of a node."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_fetch.cache.mounter import parse_mounts
from inferometer_fetch.cache.references import (
    MOUNTED,
    MOUNTING,
    NodeMount,
    Reference,
    count_references,
    reconcile,
)

_TARGETS = st.sampled_from([f"/pods/{index}" for index in range(6)])
_KEYS = st.sampled_from(["a", "b"])
_REFERENCES = st.dictionaries(
    _TARGETS, st.tuples(_KEYS, st.sampled_from([MOUNTING, MOUNTED])), max_size=6
).map(lambda found: {target: Reference(target, *rest) for target, rest in found.items()})
_MOUNTS = st.dictionaries(
    _TARGETS, st.builds(NodeMount, st.none() | _KEYS, st.booleans()), max_size=6
)


@given(_REFERENCES, _MOUNTS)
def test_mounts_are_the_truth(
    references: dict[str, Reference], mounts: dict[str, NodeMount]
) -> None:
    """After it, exactly the whole mounts of the cache have references; a second pass is idle."""
    found = reconcile(references, mounts)
    kept = {each.target: each for each in found.kept}
    left = {target: each for target, each in mounts.items() if target not in found.unmounted}
    assert set(kept) <= set(left)
    assert set(kept).isdisjoint(found.dropped)
    for target, mount in left.items():
        assert target in kept or (mount.key is None and target not in references)
    assert all(each.phase == MOUNTED for each in kept.values())
    again = reconcile(kept, left)
    assert (set(again.kept), again.dropped, again.unmounted) == (set(kept.values()), (), ())
    assert sum(count_references(kept).values()) == len(kept)


def test_a_restart_of_the_node_ends_all_references() -> None:
    """Without mounts no reference holds."""
    references = {"/t": Reference("/t", "a", MOUNTED), "/u": Reference("/u", "a", MOUNTING)}
    found = reconcile(references, {})
    assert (found.kept, found.dropped, found.unmounted) == ((), ("/t", "/u"), ())


def test_an_interrupted_mount_is_undone() -> None:
    """A mount whose end is not on record, or that is writable, is unmounted."""
    found = reconcile(
        {"/t": Reference("/t", "a", MOUNTING)},
        {"/t": NodeMount("a", read_only=True), "/u": NodeMount("a", read_only=False)},
    )
    assert found.unmounted == ("/t", "/u")
    assert found.dropped == ("/t",)


def test_mountinfo_is_read() -> None:
    """Mounts of entries are known by their place in the cache; escapes are resolved."""
    key = "0f" * 32
    text = (
        "21 1 0:20 / / rw - ext4 /dev/a rw\n"
        f"30 21 0:20 /var/cache/entries/{key}/files /pods/a\\040b ro,nosuid - ext4 /dev/a rw\n"
        f"31 21 0:20 /var/cache/entries/{key}/files /pods/c rw - ext4 /dev/a rw\n"
        "32 21 0:20 /var/cache/entries/short/files /pods/d ro - ext4 /dev/a rw\n"
    )
    assert parse_mounts(text) == {
        "/": NodeMount(None, read_only=False),
        "/pods/a b": NodeMount(key, read_only=True),
        "/pods/c": NodeMount(key, read_only=False),
        "/pods/d": NodeMount(None, read_only=True),
    }
