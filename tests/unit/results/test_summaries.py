"""Questions about many results at once."""

import json
from pathlib import Path

import pytest

from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import nodes
from support.stored_results import LOCAL, ORIGIN


def _keep(store: Store, node: str, model: str, day: int, cpu: str = "A CPU") -> None:
    document = json.loads(json.dumps(LOCAL))
    document["environment"]["node"] |= {"hostname": node, "cpuModel": cpu}
    document["environment"]["model"]["name"] = model
    document |= {"runId": f"{node}-{day}", "startedAt": f"2026-01-{day:02}T00:00:00.000Z"}
    store.add(json.dumps(document).encode(), ORIGIN, source="x")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store of results on two nodes; the CPU of one was replaced."""
    store = Store(str(tmp_path / "results.db"))
    _keep(store, "rare", "b", day=12, cpu="Another CPU")
    _keep(store, "rare", "a", day=2)
    for day, model in enumerate("ccabb", start=3):
        _keep(store, "busy", model, day)
    return store


def test_nodes_come_by_their_results_and_their_models_too(store: Store) -> None:
    """Of equally frequent ones, by name."""
    found = nodes(store, Search())
    listed = [(row["node"], row["count"], row["models"]) for row in found]
    assert listed == [("busy", 5, ["b", "c", "a"]), ("rare", 2, ["a", "b"])]
    assert [row["node"] for row in nodes(store, Search(), most=1)] == ["busy"]


def test_a_node_is_described_by_its_newest_result(store: Store) -> None:
    """Also if an older one is as old as the newest of another node."""
    _keep(store, "busy", "a", day=9, cpu="A newer CPU")
    _keep(store, "rare", "a", day=9, cpu="An older CPU")
    described = {row["node"]: (row["cpu"], row["newest"][:10]) for row in nodes(store, Search())}
    assert described == {
        "busy": ("A newer CPU", "2026-01-09"),
        "rare": ("Another CPU", "2026-01-12"),
    }


def test_nodes_of_a_condition_count_its_results_alone(store: Store) -> None:
    """Those without any are left out."""
    (found,) = nodes(store, Search("model=c"))
    assert (found["node"], found["count"], found["models"]) == ("busy", 2, ["c"])
