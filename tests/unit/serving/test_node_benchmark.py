"""The parts of the node benchmark that need no quiet machine: what they compute and say."""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from inferometer_api.nodes.benchmark import PRIMITIVE_FAMILIES, unknown_begins
from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_api.nodes.fitness import load_generation_faults
from inferometer_serving.node import __main__ as node_main
from inferometer_serving.node import (
    host_memory,
    machine,
    pointer_chase,
    punctuality,
    storage,
    stream,
)
from inferometer_serving.node.__main__ import UnknownPrimitiveError, main, measure
from inferometer_serving.node.samples import Findings, NodeProbe, NotMeasurableError
from support.node_documents import recorded_gpu_node


def test_a_copy_counts_its_bytes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of memcpy is the size of the copy over the time of a call."""

    def quarter_second(copy: Callable[[int], object]) -> float:
        copy(3)
        return 0.25

    monkeypatch.setattr(host_memory, "seconds_per_repeat", quarter_second)
    monkeypatch.setattr(host_memory, "_LOG2_SIZES", (12, 16))
    found = next(host_memory.memory_probes()).measure()
    assert [set(each.samples) for each in found] == [{4 * (1 << 12)}, {4 * (1 << 16)}]


@pytest.fixture
def eight_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe 64 CPUs, of which 8 each share 32 MiB of cache."""
    for cpu in range(64):
        first = cpu // 8 * 8
        for index, size, shared in ((2, "1024K", f"{cpu}"), (3, "32768K", f"{first}-{first + 7}")):
            cache = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            (cache / "size").write_text(f"{size}\n")
            (cache / "shared_cpu_list").write_text(f"{shared}\n")
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(stream, "available_bytes", lambda: 1 << 40)


@pytest.mark.usefixtures("eight_caches")
@pytest.mark.parametrize(("threads", "caches"), [(1, 1), (8, 1), (16, 2), (64, 8)])
def test_arrays_of_stream_exceed_all_caches_in_use(threads: int, caches: int) -> None:
    """Each is four times the sum of them, so that no thread's part stays in a cache."""
    assert stream.array_bytes(range(threads)) == 4 * caches * (32 << 20)


@pytest.mark.parametrize(
    ("own_seconds", "expected"),
    [
        pytest.param(1.0, 0.25, id="150 of 200 ticks were busy, 100 of them with this process"),
        pytest.param(1.5, 0.0, id="all of them with this process"),
        pytest.param(1.6, 0.0, id="more than all of them: the ticks are coarse"),
    ],
)
def test_the_cpu_time_of_others_is_what_this_process_did_not_take(
    own_seconds: float, expected: float
) -> None:
    """The kernel counts 100 ticks a second on each CPU, here during a second on two of them."""
    before = machine.CpuTimes(total=1_000, busy=300, stolen=0)
    after = machine.CpuTimes(total=1_200, busy=450, stolen=0)
    assert machine.other_cpu_share(before, after, own_seconds) == pytest.approx(expected)


@pytest.mark.usefixtures("eight_caches")
def test_the_ladder_ends_at_four_times_the_cache_of_its_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One chain of loads is in one cache; the machine is described by all of them."""
    monkeypatch.setattr(pointer_chase, "available_bytes", lambda: 1 << 40)
    assert pointer_chase.working_sets()[-1] == 128 << 20
    assert machine.machine_identity().last_level_cache_bytes == 256 << 20


@pytest.mark.parametrize("name", ["stream (1 threads)", "pageFault"])
def test_what_does_not_fit_below_a_memory_limit_is_unavailable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would end the process."""
    monkeypatch.setattr(machine, "memory_left_bytes", lambda: 60 << 20)
    document = measure(tmp_path, (name,), 60)
    assert "do not fit in the free memory" in document.unavailable[name]


def test_memory_limits_bound_the_ladder_and_the_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both end at the sizes that fit."""
    monkeypatch.setattr(machine, "memory_left_bytes", lambda: 1 << 20)
    assert pointer_chase.working_sets()[-1] == 1 << 17
    copies = next(iter(host_memory.memory_probes())).measure()
    assert [each.setting["bytes"] for each in copies] == ["4096", "65536"]


def test_a_chain_visits_every_line_once() -> None:
    """The pointers are one cycle through all cache lines of the working set."""
    chain = pointer_chase.pointer_chain(1 << 14)
    lines = (1 << 14) // 64
    base, at, seen = chain.ctypes.data, chain.ctypes.data, set()
    for _ in range(lines):
        seen.add(at)
        at = int(chain[(at - base) // 8])
    assert at == base
    assert len(seen) == lines


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the loop is for x86-64")
def test_the_loop_follows_the_pointers() -> None:
    """Machine code and interpreter arrive at the same place."""
    chain = pointer_chase.pointer_chain(1 << 14)
    chase = pointer_chase.compile_chase()
    base = chain.ctypes.data
    assert chase(base, 1) == int(chain[0])
    assert chase(base, (1 << 14) // 64) == base


def test_each_sample_of_the_ladder_goes_on_where_the_one_before_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise all but the first would read 8 MiB that a large cache holds by now."""
    walked: list[tuple[int, int]] = []

    def chase(start: int, count: int) -> int:
        walked.append((start, start + count))
        return start + count

    monkeypatch.setattr(pointer_chase, "compile_chase", lambda: chase)
    monkeypatch.setattr(pointer_chase, "working_sets", lambda: [1 << 14])
    (probe,) = pointer_chase.latency_probes()
    (measured,) = probe.measure()
    assert measured.setting == {"bytes": "16384"}
    assert len(walked) == 6
    assert [start for start, _ in walked[1:]] == [end for _, end in walked[:-1]]


def test_what_cannot_be_measured_has_its_reason() -> None:
    """Other primitives go on."""

    def refused() -> Sequence[NodeFigure]:
        raise NotMeasurableError("the kernel does not let it")

    findings = Findings()
    findings.add(NodeProbe("a", refused))
    findings.add(NodeProbe("b", lambda: [figure("b", "ns", [1.0, 2.0])]))
    assert findings.unavailable == {"a": "the kernel does not let it"}
    assert [each.name for each in findings.figures] == ["b"]


def test_the_best_of_a_rate_is_its_highest_and_of_a_time_its_lowest() -> None:
    """The value is the geometric mean, within its interval."""
    rate, time = figure("a", "bytes/s", [1.0, 4.0]), figure("b", "ns", [1.0, 4.0])
    assert (rate.best, time.best) == (4.0, 1.0)
    assert rate.value == pytest.approx(2.0)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 2.0 < rate.high


def test_a_disk_that_is_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose pages stay in memory are refused, as on tmpfs; no file is left."""
    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "evict", lambda _: None)
    findings = Findings()
    for probe in storage.storage_probes(tmp_path):
        findings.add(probe)
    assert "stay in memory" in findings.unavailable["storage"]
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_of_some_primitives_is_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has their figures, the machine and the steal.

    Each primitive is reported before it, and its figures after it.
    """
    document = measure(tmp_path, ("pageFault",), 60)
    assert [each.name for each in document.figures] == ["pageFault", "steal"]
    assert document.machine.cpu_count == len(os.sched_getaffinity(0))
    assert document.unavailable == {}
    began, progress, measured = map(json.loads, capsys.readouterr().out.splitlines())
    assert began["names"] == ["pageFault"]
    assert began["document"]["id"] == document.id
    assert progress == {"event": "progress", "done": 0, "total": 1, "name": "pageFault"}
    assert [NodeFigure.model_validate(each) for each in measured["figures"]] == document.figures[:1]


def test_a_document_of_many_gpus_is_printed_within_the_bounds_of_a_config_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its figures of GPUs lose their samples; those of the CPU have them."""
    many = [figure("peer", "ns", [1.5] * 7, {"gpu": each}) for each in range(4000)]
    found = [figure("pageFault", "ns", [1.5] * 7), *many]
    probe = NodeProbe("all", lambda: found)
    monkeypatch.setattr(node_main, "_probes", lambda *_: iter([probe]))
    document = measure(tmp_path, (), 60)
    assert len(document.figures) == len(found) + 1
    assert [len(each.samples) for each in document.figures[:2]] == [7, 0]


@pytest.mark.parametrize("begin", ["disk", "pageCache/read", "storage"])
def test_a_primitive_is_selected_by_its_figures_too(
    begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of the table selects what measures it."""
    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "evict", lambda _: None)
    document = measure(tmp_path, (begin,), 60)
    assert list(document.unavailable) == ["storage"]


def test_steal_can_be_measured_alone(tmp_path: Path) -> None:
    """It is a figure of every measurement."""
    assert [each.name for each in measure(tmp_path, ("steal",), 60).figures] == ["steal"]


def test_a_name_that_begins_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured, although another name is right, and the names are listed."""
    with pytest.raises(UnknownPrimitiveError, match=r"begins with 'dsk'.*disk/read.*stream/triad"):
        measure(tmp_path, ("pageFault", "dsk"), 60)
    assert main(["--only", "dsk"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("refused: There is no primitive")


@pytest.mark.parametrize(
    ("limit", "caution"),
    [(0.2, "to the time of 0.2 of 2 CPUs"), (2.0, ""), (None, "")],
)
def test_a_quota_below_the_cpus_is_a_caution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float | None, caution: str
) -> None:
    """The figures are then those of the quota."""
    monkeypatch.setattr(node_main, "cpu_limit", lambda: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    cautions = " ".join(measure(tmp_path, ("steal",), 60).cautions)
    assert ("A quota limits" in cautions) == bool(caution)
    assert caution in cautions


@pytest.mark.parametrize(("share", "is_caution"), [(0.82, True), (0.01, False)])
def test_a_process_that_stands_still_is_a_caution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, *, is_caution: bool
) -> None:
    """Jitter says that others, or a quota, had the CPU."""
    pause = round(share * punctuality._SPIN_NS)
    watch = punctuality._Watch(still_ns=pause, longest_ns=pause)
    monkeypatch.setattr(punctuality, "_watch_clock", lambda: watch)
    cautions = " ".join(measure(tmp_path, ("jitter",), 60).cautions)
    assert (f"stood still for {share:.0%} of the time" in cautions) == is_caution


def test_a_quiet_window_does_not_hide_the_standstills_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share is all standstills over all time, with a caution; the longest is that of all."""
    still, windows = 90_000_000, [0, 1, 1, 1, 1]
    watches = iter(punctuality._Watch(each * still, each * still) for each in windows)
    monkeypatch.setattr(punctuality, "_watch_clock", lambda: next(watches))
    document = measure(tmp_path, ("jitter",), 60)
    share, longest = document.figure("jitter/share"), document.figure("jitter/longest")
    assert share is not None
    assert longest is not None
    assert share.value == pytest.approx(0.24)
    assert share.best == 0.0
    assert longest.value == pytest.approx(still)
    assert list(load_generation_faults([document]))
    assert any("stood still for 24%" in each for each in document.cautions)


def test_a_standstill_counts_as_long_as_its_window_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No share is above 1; the longest standstill is whole."""
    end = punctuality._SPIN_NS
    times = iter([0, 10, end // 2, 3 * end])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(times))
    assert punctuality._watch_clock() == (end - 10, 3 * end - end // 2)


def test_shares_of_zero_are_zero() -> None:
    """Their interval is that of an arithmetic mean, within 0 and 1."""
    none, one = figure("a", "share", [0.0] * 5), figure("a", "share", [0.0])
    assert (none.value, none.low, none.high) == (0.0, 0.0, 0.0)
    assert (one.value, one.low) == (0.0, None)
    some = figure("a", "share", [0.0, 0.0, 0.9, 0.9, 0.9])
    assert some.value == pytest.approx(0.54)
    assert (some.low, some.high) == (0.0, 1.0)


def test_what_comes_too_late_is_not_measured(tmp_path: Path) -> None:
    """Past its time the benchmark says what is left."""
    document = measure(tmp_path, ("pageFault",), 0)
    assert "were over" in document.unavailable["pageFault"]


def test_cpus_of_numa_nodes_are_those_of_this_process() -> None:
    """Lists and ranges are read, and CPUs that it may not use are left out."""
    allowed = os.sched_getaffinity(0)
    assert frozenset().union(*machine.numa_cpus().values()) <= allowed


def test_a_kernel_without_numa_has_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel describes neither NUMA nodes nor caches, copies and STREAM run all the same.

    All CPUs are one node, and the caches are taken to have the usual size.
    """
    monkeypatch.setattr(machine, "_NODES", tmp_path / "node")
    monkeypatch.setattr(machine, "_CPUS", tmp_path / "cpu")
    assert machine.numa_cpus() == {0: frozenset(os.sched_getaffinity(0))}
    assert machine.last_level_cache_bytes([0]) == machine.USUAL_CACHE_BYTES
    assert machine.machine_identity().numa_nodes == 1


def test_the_api_knows_how_the_names_of_all_primitives_begin(tmp_path: Path) -> None:
    """So that a file is refused before a node is measured: with this list, and on a GPU node's."""
    with pytest.raises(UnknownPrimitiveError) as refused:
        measure(tmp_path, ("nix",), 10)
    names = str(refused.value).partition("There are ")[2].rstrip(".").split(", ")
    assert unknown_begins(names) == []
    of_gpus = recorded_gpu_node()
    assert unknown_begins({each.name for each in of_gpus.figures}) == []
    found = {re.split("[/_ (]", each)[0] for each in names}
    assert set(PRIMITIVE_FAMILIES) - found == {"podToPod"}


@pytest.mark.parametrize(
    ("busy", "stolen", "words"),
    [
        (90_010, 0, "During the measurement other processes took 90% of the machine's CPU time"),
        (90_010, 90_000, "The hypervisor gave 89.1% of the CPU time to other guests."),
        (5_000, 0, ""),
    ],
)
def test_what_other_processes_take_during_a_measurement_is_a_caution(
    busy: int, stolen: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They begin after the look at the idle machine; the hypervisor's share is not theirs."""
    idle = (machine.CpuTimes(0, 0, 0), machine.CpuTimes(1_000, 10, 0))
    after = machine.CpuTimes(101_000, busy, stolen)
    monkeypatch.setattr(node_main, "_idle_times", lambda: idle)
    monkeypatch.setattr(node_main, "cpu_times", lambda: after)
    monkeypatch.setattr(node_main, "_GOVERNOR", tmp_path / "none")
    cautions = measure(tmp_path, ("steal",), 60).cautions
    assert cautions == ([] if not words else cautions[:1])
    assert "".join(cautions).startswith(words)


@pytest.mark.parametrize(
    ("governor", "cautions", "unavailable"),
    [
        ("performance\n", 0, False),
        ("powersave\n", 1, False),
        (None, 0, True),
    ],
)
def test_a_governor_that_saves_power_is_a_caution(
    governor: str | None,
    cautions: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    unavailable: bool,
) -> None:
    """One that cannot be read is unavailable, with the reason."""
    file = tmp_path / "scaling_governor"
    if governor is not None:
        file.write_text(governor)
    monkeypatch.setattr(node_main, "_GOVERNOR", file)
    monkeypatch.setattr(node_main, "_probes", lambda *_: iter(()))
    document = measure(tmp_path, (), 60)
    assert len([each for each in document.cautions if "governor is powersave" in each]) == cautions
    assert ("governor" in document.unavailable) == unavailable
