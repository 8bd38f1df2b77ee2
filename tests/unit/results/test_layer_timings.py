"""The layer database: timings are documents of their own kind, which results do not see."""

import json
from pathlib import Path

from inferometer_api.layers.timings import KernelTiming, LayerFailure, LayerTimings
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.layer_timings import all_timings, keep_timings, known_timings
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes, keep_outcome
from inferometer_results.store.transfer import archive_lines, archive_part, import_archive
from support.layer_graphs import MACHINE, brick_timings, layer_graph, timing
from support.results import a_result
from support.suite_results import SUITE, a_suite_outcome

ENGINES = MACHINE.engines


def _kernels(*rows: tuple[str, str, float]) -> LayerTimings:
    return brick_timings({}).model_copy(
        update={
            "run_nanoseconds": 0,
            "kernels": [
                KernelTiming(key=key, engine=engine, precision="FP32", nanoseconds=nanoseconds)
                for key, engine, nanoseconds in rows
            ],
        }
    )


def _keep(store: Store, timings: LayerTimings) -> bool:
    return keep_timings(store, timings, "2026-01-01T00:00:00Z", "layers")


def test_bricks_and_kernels_are_joined_and_the_newest_count(tmp_path: Path) -> None:
    """One database has both; the cost of a call is that of the last bricks."""
    with Store(str(tmp_path / "r.db")) as store:
        assert known_timings(store, MACHINE.name, 1, ENGINES) is None
        _keep(store, brick_timings({"a": timing(1_000), "b": timing(2_000)}))
        _keep(store, brick_timings({"b": timing(3_000)}))
        _keep(store, _kernels(("k", "onnxruntime", 10.0), ("k", "openvino", 7.0)))
        _keep(store, _kernels(("k", "onnxruntime", 8.0)))
        found = known_timings(store, MACHINE.name, 1, ENGINES)
    assert found is not None
    assert {key: each.nanoseconds for key, each in found.bricks.items()} == {"a": 1_000, "b": 3_000}
    assert {each.engine: each.nanoseconds for each in found.kernels} == {
        "onnxruntime": 8.0,
        "openvino": 7.0,
    }
    assert (found.run_nanoseconds, found.node_nanoseconds) == (100, 10)


def test_timings_of_a_newer_major_version_are_not_read(tmp_path: Path) -> None:
    """What their figures mean is not known; a newer minor version only adds fields."""
    for version, bricks in (("1.9", {"a"}), ("2.0", None)):
        with Store(str(tmp_path / f"{version}.db")) as store:
            timings = brick_timings({"a": timing(1_000)})
            _keep(store, timings.model_copy(update={"schema_version": version}))
            found = known_timings(store, MACHINE.name, 1, ENGINES)
        assert (found and set(found.bricks)) == bricks


def test_the_fastest_reference_is_known(tmp_path: Path) -> None:
    """It shows how fast the machine can be; timings without one say nothing about it."""
    with Store(str(tmp_path / "r.db")) as store:
        for key, reference_ns in (("a", 0), ("b", 900), ("c", 800), ("d", 1_000)):
            timings = brick_timings({key: timing(1_000)})
            reference = {
                "reference_nanoseconds": reference_ns,
                "reference_spread_nanoseconds": reference_ns / 100,
            }
            _keep(store, timings.model_copy(update=reference))
        found = known_timings(store, MACHINE.name, 1, ENGINES)
    assert found is not None
    assert found.reference_nanoseconds == 800
    assert found.reference_spread == 0.01


def test_the_models_of_known_layers_are_read_if_they_are_wanted(tmp_path: Path) -> None:
    """Times are interpolated with their layers."""
    graph = layer_graph(("a", [0], [1]))
    with Store(str(tmp_path / "r.db")) as store:
        _keep(
            store,
            brick_timings({"a": timing(1_000)}).model_copy(update={"graphs": [graph]}),
        )
        without = known_timings(store, MACHINE.name, 1, ENGINES)
        found = known_timings(store, MACHINE.name, 1, ENGINES, with_graphs=True)
    assert without is not None
    assert found is not None
    assert (without.graphs, found.graphs) == ([], [graph])


def test_timings_are_known_under_their_conditions_alone(tmp_path: Path) -> None:
    """Another machine, version or number of threads has timings of its own."""
    with Store(str(tmp_path / "r.db")) as store:
        _keep(store, brick_timings({"a": timing(1_000)}))
        _keep(store, _kernels(("k", "openvino", 7.0)))
        assert known_timings(store, "another CPU", 1, ENGINES) is None
        assert known_timings(store, MACHINE.name, 2, ENGINES) is None
        newer = known_timings(store, MACHINE.name, 1, {**ENGINES, "onnxruntime": "1.32"})
    assert newer is not None
    assert not newer.bricks
    assert [each.engine for each in newer.kernels] == ["openvino"]


def test_a_failure_is_known_until_the_layer_is_timed(tmp_path: Path) -> None:
    """Then its reason is history."""
    failed = LayerFailure(key="k", engine="onnxruntime", reason="no")
    with Store(str(tmp_path / "r.db")) as store:
        _keep(store, _kernels().model_copy(update={"failed": [failed]}))
        found = known_timings(store, MACHINE.name, 1, ENGINES)
        assert found is not None
        assert found.failed == [failed]
        _keep(store, _kernels(("k", "onnxruntime", 8.0)))
        found = known_timings(store, MACHINE.name, 1, ENGINES)
    assert found is not None
    assert found.failed == []


def test_one_document_is_kept_once_with_its_models(tmp_path: Path) -> None:
    """A measurement that arrives twice is one."""
    graph = layer_graph(("a", [0], [1]))
    timings = brick_timings({"a": timing(1_000)}).model_copy(update={"graphs": [graph]})
    with Store(str(tmp_path / "r.db")) as store:
        assert _keep(store, timings)
        assert not _keep(store, timings)
        assert list(all_timings(store)) == [timings]


def test_results_do_not_see_timings(tmp_path: Path) -> None:
    """Lists, exports and a new index of results leave the timings out and in place."""
    with Store(str(tmp_path / "r.db")) as store:
        _keep(store, brick_timings({"a": timing(1_000)}))
        content = a_result().model_dump_json(exclude_none=True, by_alias=True).encode()
        store.add(content, Origin("run", "2026-01-01T00:00:00Z"), source="r")
        assert len(list(store.documents())) == 1
        assert list(store.reindex())[-1] == 1
        assert len(list(all_timings(store))) == 1


def test_an_archive_carries_timings_and_outcomes_of_suites(tmp_path: Path) -> None:
    """To another store, once; a line that is damaged is named, and the rest is kept."""
    timings = brick_timings({"a": timing(1_000)})
    with Store(str(tmp_path / "r.db")) as store, Store(str(tmp_path / "other.db")) as other:
        _keep(store, timings)
        keep_outcome(store, a_suite_outcome("first", "PASS"), Origin("operator", "2026-01-01"))
        lines = list(archive_lines(store))
        assert lines == list(archive_part(store, "", 1))
        fields = json.loads(lines[0])
        damaged = json.dumps(fields | {"other": fields["other"] | {"sha256": "0" * 64}})
        first, *others = import_archive(other, [damaged, *lines], source="x")
        assert first.fault == "x:1 is not a line of an archive."
        assert [each.is_new for each in others] == [True, True]
        assert not any(each.is_new for each in import_archive(other, lines, source="x"))
        assert list(all_timings(other)) == [timings]
        assert find_outcomes(other, SUITE) == find_outcomes(store, SUITE)
        assert other.count(Search()) == 0
