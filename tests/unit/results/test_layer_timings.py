"""Timings of layers are documents of their own kind, which results do not see."""

from pathlib import Path

from inferometer_analysis.bound import Timing
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.layer_timings import TimingConditions, keep_timings, known_timings
from inferometer_results.store.store import Store
from support.results import a_result

HERE = TimingConditions("EPYC, 2 CPUs", 1, {"onnxruntime": "1.31", "openvino": "2026.4"})


def test_timings_are_known_under_their_conditions_alone(tmp_path: Path) -> None:
    """Another machine, version or number of threads has timings of its own; the newest count."""
    old = Timing("a", "onnxruntime", "FP32", 10.0)
    new = Timing("a", "onnxruntime", "FP32", 8.0)
    other = Timing("b", "openvino", "BF16", 5.0)
    with Store(str(tmp_path / "r.db")) as store:
        assert known_timings(store, HERE) == []
        keep_timings(store, HERE, [old, other], "2026-01-01T00:00:00Z")
        keep_timings(store, HERE, [new], "2026-01-02T00:00:00Z")
        assert known_timings(store, HERE) == [new, other]
        elsewhere = TimingConditions("EPYC, 2 CPUs", 2, HERE.versions)
        newer = TimingConditions(HERE.machine, 1, {"onnxruntime": "1.32", "openvino": "2026.4"})
        assert known_timings(store, elsewhere) == []
        assert known_timings(store, newer) == [other]


def test_results_do_not_see_timings(tmp_path: Path) -> None:
    """Lists, exports and a new index of results leave the timings out and in place."""
    with Store(str(tmp_path / "r.db")) as store:
        keep_timings(store, HERE, [Timing("a", "onnxruntime", "FP32", 10.0)], "2026-01-01")
        content = a_result().model_dump_json(exclude_none=True, by_alias=True).encode()
        store.add(content, Origin("run", "2026-01-01T00:00:00Z"), source="r")
        assert len(list(store.documents())) == 1
        assert list(store.reindex())[-1] == 1
        assert len(known_timings(store, HERE)) == 1
