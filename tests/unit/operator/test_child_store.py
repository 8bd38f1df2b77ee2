"""The store holds the newest that was heard of each child, in whatever order it is heard."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_operator.cluster.child_store import ChildStore

History = list[tuple[str, dict[str, Any]]]


def _object(uid: str, version: int, **members: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {RUN_UID_LABEL: "run"},
            "ownerReferences": [{"uid": "run", "controller": True}],
        },
        **members,
    }


@st.composite
def _heard(draw: st.DrawFn) -> tuple[History, History]:
    """Return what happens to one name, and how it is heard: late, twice, in any order."""
    history: History = []
    version = 0
    for life in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 3))):
            version += 1
            history.append(("PUT", _object(f"uid-{life}", version)))
        version += 1
        history.append(("DELETED", _object(f"uid-{life}", version)))
    if draw(st.booleans()):
        history.pop()
    again = draw(st.lists(st.sampled_from(history), max_size=8))
    return history, draw(st.permutations([*history, *again]))


@given(_heard())
def test_what_is_held_in_the_end_is_what_there_is(heard: tuple[History, History]) -> None:
    """Whatever the order of events and answers, no older version replaces a newer one."""
    history, order = heard
    store = ChildStore()
    newest = 0
    for kind, found in order:
        version = int(found["metadata"]["resourceVersion"])
        if kind == "PUT":
            store.put("Job", found)
        else:
            store.remove("Job", found, version)
        held = store.get("Job", "ns", "a", "run")
        before, newest = newest, 0 if held is None else int(held["metadata"]["resourceVersion"])
        assert held is None or newest >= before
    last_kind, last = history[-1]
    assert store.get("Job", "ns", "a", "run") == (last if last_kind == "PUT" else None)
    assert store.run_uids("Job") == ({"run"} if last_kind == "PUT" else set())


@given(
    listed=st.sets(st.integers(0, 5)), held=st.dictionaries(st.integers(0, 5), st.integers(1, 20))
)
def test_a_list_removes_what_it_lacks_unless_it_is_newer(
    listed: set[int], held: dict[int, int]
) -> None:
    """What the operator created after the list was made is still there."""
    store = ChildStore()
    for number, version in held.items():
        found = _object(f"uid-{number}", version)
        found["metadata"]["name"] = f"n{number}"
        store.put("Job", found)
    gone = store.retain("Job", {f"uid-{number}" for number in listed}, "10")
    lost = {number for number, version in held.items() if number not in listed and version <= 10}
    assert {each["metadata"]["name"] for each in gone} == {f"n{number}" for number in lost}
    assert len(store) == len(held) - len(lost)


def test_a_deletion_of_ones_own_is_final() -> None:
    """An event that was on its way brings nothing back, and another object of the name counts."""
    store = ChildStore()
    store.put("Job", _object("uid-0", 1))
    assert store.remove("Job", _object("uid-0", 1))
    assert not store.put("Job", _object("uid-0", 2))
    assert store.of_run("Job", "ns", "run") == ()
    assert store.put("Job", _object("uid-1", 3))
    assert not store.remove("Job", _object("uid-0", 1))
    assert store.get("Job", "ns", "a", "run") == _object("uid-1", 3)


def test_the_content_of_a_config_map_stays_until_it_changes() -> None:
    """The watch delivers metadata alone; what was created or read is known with its data."""
    store = ChildStore()
    assert store.put("ConfigMap", _object("uid-0", 1))
    assert store.put("ConfigMap", _object("uid-0", 1, data={"plan": "x"}))
    assert not store.put("ConfigMap", _object("uid-0", 1))
    assert store.of_run("ConfigMap", "ns", "run") == (_object("uid-0", 1, data={"plan": "x"}),)
    assert store.put("ConfigMap", _object("uid-0", 2))
    assert store.of_run("ConfigMap", "ns", "run") == (_object("uid-0", 2),)


def test_only_objects_of_runs_are_held_and_without_what_nobody_reads() -> None:
    """A child of another owner is not the run's, though it has its label."""
    store = ChildStore()
    foreign = _object("uid-0", 1)
    foreign["metadata"] |= {"ownerReferences": [], "managedFields": [{"manager": "x"}]}
    store.put("Job", foreign)
    assert store.get("Job", "ns", "a", "run") is None
    (held,) = store.of_run("Job", "ns", "run")
    assert "managedFields" not in held["metadata"]
    unlabelled = _object("uid-0", 2)
    unlabelled["metadata"]["labels"] = {}
    store.put("Job", unlabelled)
    assert len(store) == 0
