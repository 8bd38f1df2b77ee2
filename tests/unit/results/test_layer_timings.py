"""Timings of layers are documents of their own kind, which results do not see."""

import json
from pathlib import Path

from inferometer_analysis.bound import Timing
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.layer_timings import TimingConditions, keep_timings, known_timings
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes, keep_outcome
from inferometer_results.store.transfer import archive_lines, archive_part, import_archive
from support.results import a_result
from support.suite_results import SUITE, a_suite_outcome

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


def test_an_archive_carries_timings_and_outcomes_of_suites(tmp_path: Path) -> None:
    """To another store, once; a line that is damaged is named, and the rest is kept."""
    timing = Timing("a", "onnxruntime", "FP32", 10.0)
    with Store(str(tmp_path / "r.db")) as store, Store(str(tmp_path / "other.db")) as other:
        keep_timings(store, HERE, [timing], "2026-01-01")
        keep_outcome(store, a_suite_outcome("first", "PASS"), Origin("operator", "2026-01-01"))
        lines = list(archive_lines(store))
        assert lines == list(archive_part(store, "", 1))
        fields = json.loads(lines[0])
        damaged = json.dumps(fields | {"other": fields["other"] | {"sha256": "0" * 64}})
        first, *others = import_archive(other, [damaged, *lines], source="x")
        assert first.fault == "x:1 is not a line of an archive."
        assert [each.is_new for each in others] == [True, True]
        assert not any(each.is_new for each in import_archive(other, lines, source="x"))
        assert known_timings(other, HERE) == [timing]
        assert find_outcomes(other, SUITE) == find_outcomes(store, SUITE)
        assert other.count(Search()) == 0
