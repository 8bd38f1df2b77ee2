"""The explorer compares the granularities with which bricks of the same models were timed."""

import csv
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from inferometer_api.layers.split import split
from inferometer_api.layers.timings import LayerTimings
from inferometer_results.layers.granularities import granularity_rows
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api import machine_schema
from inferometer_results.service.app import create_app
from inferometer_results.store.layer_timings import keep_timings
from inferometer_results.store.store import Store
from support.layer_graphs import brick_timings, layer_graph, timing

GRAPH = layer_graph(("a", [0], [1]), ("b", [1], [2]), ("c", [2], [3]), model="net")


def _run(granularity: int, brick_ns: int, measured_ns: int) -> LayerTimings:
    """Return what `bricks run --granularity G --reference` keeps."""
    keys = {use.key for use in split(GRAPH, granularity)}
    bricks = {key: timing(brick_ns) for key in keys}
    found = brick_timings(bricks, {"net": timing(measured_ns)})
    return found.model_copy(update={"graphs": [GRAPH]})


SINGLE = _run(1, 1_100, 2_100)
"""3 bricks of 1,000 ns and a call of 100 ns: 3,100 are predicted."""
CHAINS = _run(3, 2_000, 2_500)
"""One brick: 2,000 are predicted."""


def test_each_granularity_is_compared_with_the_latency_of_its_own_rounds() -> None:
    """The errors are 3,100 by 2,100 and 2,500 by 2,000; the models are the same."""
    for documents in ([SINGLE, CHAINS], [CHAINS, SINGLE]):
        rows = granularity_rows(documents)
        assert [each.granularity for each in rows] == [1, 3]
        assert {each.models for each in rows} == {("net",)}
        assert [each.error for each in rows] == pytest.approx([1_000 / 2_100, 0.25])
        assert [each.speed_up for each in rows] == pytest.approx([2_100 / 3_300, 2_500 / 2_000])


def test_granularities_that_cut_alike_are_one() -> None:
    """The chain has three layers: 3 to 10 are the same bricks, and alone there is no comparison."""
    assert granularity_rows([CHAINS]) == []
    assert granularity_rows([SINGLE]) == []
    assert granularity_rows([SINGLE, CHAINS], "other") == []


def test_a_model_without_a_latency_or_a_brick_is_not_compared() -> None:
    """Nothing says how far its prediction is off."""
    unmeasured = [each.model_copy(update={"models": {}}) for each in (SINGLE, CHAINS)]
    assert granularity_rows(unmeasured) == []
    zero = {"models": {"net": timing(0)}}
    assert granularity_rows([SINGLE, CHAINS.model_copy(update=zero)])[1].spread == 0.0
    assert granularity_rows([each.model_copy(update=zero) for each in (SINGLE, CHAINS)]) == []
    bricks = dict(list(SINGLE.bricks.items())[:2])
    assert granularity_rows([SINGLE.model_copy(update={"bricks": bricks}), CHAINS]) == []


def test_models_share_rows_if_they_have_the_same_granularities() -> None:
    """A model without chains of three has other granularities, and rows of its own."""
    pair = layer_graph(("d", [0], [1]), ("e", [1], [2]), model="pair")
    keys = [use.key for granularity in (1, 2) for use in split(pair, granularity)]
    other = brick_timings({key: timing(1_100) for key in keys}, {"pair": timing(2_100)})
    documents = [SINGLE, CHAINS, other.model_copy(update={"graphs": [pair]})]
    found = [(each.models, each.granularity) for each in granularity_rows(documents)]
    assert found == [(("pair",), 1), (("pair",), 2), (("net",), 1), (("net",), 3)]


def test_the_page_shows_granularities_or_how_to_time_another(tmp_path: Path) -> None:
    """With one granularity a sentence names the command; with two there is a table."""
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        assert "--granularity" not in client.get("/bricks").text
        keep_timings(store, SINGLE, "2026-01-01T00:00:00Z", "layers")
        command = "inferometer bricks run MODEL --granularity N --reference"
        assert command in client.get("/bricks").text
        assert client.get("/api/v1/granularities").json() == []
        keep_timings(store, CHAINS, "2026-01-02T00:00:00Z", "layers")
        page = client.get("/bricks").text
        assert command not in page
        assert "<td>25.0 %</td>" in page
        assert "<td>1.25 x</td>" in page
        rows = client.get("/api/v1/granularities", params={"model": "net"}).json()
        assert [each["granularity"] for each in rows] == [1, 3]
        for row in rows:
            machine_schema.GranularityRow.model_validate(row, strict=True)
        table = client.get("/api/v1/granularities", params={"format": "csv"})
        assert len(list(csv.DictReader(table.text.splitlines()))) == 2
        assert client.get("/api/v1/granularities", params={"machine": "other"}).json() == []
