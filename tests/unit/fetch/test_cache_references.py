"""Tests of the reconciliation of references with the mounts of a node."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_fetch.cache.mounter import LinuxMounter, parse_mounts
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
    assert parse_mounts(text, Path("/var/cache/entries")) == {
        "/": NodeMount(None, read_only=False),
        "/pods/a b": NodeMount(key, read_only=True),
        "/pods/c": NodeMount(key, read_only=False),
        "/pods/d": NodeMount(None, read_only=True),
    }


@pytest.mark.parametrize("name", ["a\x0cb", "a\x85b", "a\u2028b", "a\udcffb", ""])
def test_a_pods_folder_of_any_name_is_read_as_a_mount(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No tenant can keep the cache from reading the mounts of the node, and so of others."""
    pod = f"24 21 0:20 /{name} /pods/{name} rw - ext4 /dev/a rw\n"
    entry = f"25 21 0:20 {tmp_path}/entries/{'0f' * 32}/files /pods/model ro - ext4 /dev/a rw\n"
    text = f"21 1 0:20 / / rw - ext4 /dev/a rw\n{pod}{entry}"
    monkeypatch.setattr(Path, "read_bytes", lambda _: os.fsencode(text))
    assert LinuxMounter(tmp_path).mounts() == {
        "/": NodeMount(None, read_only=False),
        f"/pods/{name}": NodeMount(None, read_only=False),
        "/pods/model": NodeMount("0f" * 32, read_only=True),
    }


_KEY = "a" * 64
_CONTAINER = (
    "21 1 0:90 / / rw - overlay overlay rw\n"
    "22 21 8:1 /var/lib/models /cache rw - ext4 /dev/sda1 rw\n"
    "23 21 8:1 /var/lib/kubelet /var/lib/kubelet rw shared:1 - ext4 /dev/sda1 rw\n"
)
_OF_A_POD = f"/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v/entries/{_KEY}/files"


@pytest.mark.parametrize(
    ("device", "root", "is_entry"),
    [
        ("8:1", f"/var/lib/models/entries/{_KEY}/files", True),
        ("8:1", _OF_A_POD, False),
        ("8:1", f"/var/lib/models/entries/{_KEY}/files/w", False),
        ("8:1", f"/var/lib/models/entries/{_KEY}", False),
        ("8:2", f"/var/lib/models/entries/{_KEY}/files", False),
        ("0:90", f"/cache/entries/{_KEY}/files", False),
    ],
)
@pytest.mark.parametrize("options", ["rw", "ro"])
def test_a_mount_of_a_pods_own_folder_is_none_of_the_cache(
    device: str, root: str, options: str, *, is_entry: bool
) -> None:
    """A subPath that is called like an entry is neither unmounted nor a use of that entry."""
    mount = f"24 23 {device} {root} /var/lib/kubelet/pods/u/s {options} - ext4 /dev/sda1 rw\n"
    found = reconcile({}, parse_mounts(_CONTAINER + mount, Path("/cache/entries")))
    assert bool(found.kept or found.unmounted) == is_entry


def test_a_later_mount_hides_an_earlier_one() -> None:
    """The cache's folder is in the file system that was mounted last at its path."""
    hidden = "20 1 8:3 /old /cache rw - ext4 /dev/sdc rw\n"
    mount = f"24 23 8:1 /var/lib/models/entries/{_KEY}/files /t ro - ext4 /dev/sda1 rw\n"
    found = parse_mounts(hidden + _CONTAINER + mount, Path("/cache/entries"))
    assert found["/t"] == NodeMount(_KEY, read_only=True)
