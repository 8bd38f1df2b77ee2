"""What CUPTI records is taken run by run; each level of a GPU's profile has its own process."""

import sys
from collections.abc import Callable
from ctypes import c_size_t
from pathlib import Path
from threading import get_native_id
from time import monotonic_ns, perf_counter_ns, time_ns
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.session import EngineSettings, Interrupt
from inferometer_serving.options import Device
from inferometer_serving.profile import gpu_process, run_recorder
from inferometer_serving.profile.gpu_process import GpuProfiledSession
from inferometer_serving.profile.occupancy import peaks
from inferometer_serving.profile.run_recorder import RunRecorder, engine_clock, read_candidates
from support.onnx_models import busy, identity, save
from support.recorded_kernels import H200, PEAKS, recorded
from support.waiting import DEADLINE_SECONDS

_INPUTS: dict[str, Array] = {"x": np.ones((1, 4), np.float32)}


class _Cupti:
    """What cupti-python offers, with recorded activities for each flush."""

    class ActivityThreadIdType:
        SYSTEM = 1

    def __init__(self, flushes: list[list[dict[str, Any]]]) -> None:
        self.flushes = flushes
        self._completed: Callable[[list[Any]], None] = print
        self.enabled: set[int] = set()
        self.dropped = 0

    def set_thread_id_type(self, kind: int) -> None:
        assert kind == self.ActivityThreadIdType.SYSTEM

    def activity_register_callbacks(
        self, requested: Callable[[], tuple[int, int]], completed: Callable[[list[Any]], None]
    ) -> None:
        assert requested()[0] > 0
        self._completed = completed

    def activity_enable(self, kind: int) -> None:
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.discard(kind)

    def activity_flush_all(self, _: int) -> None:
        if self.flushes:
            self._completed([SimpleNamespace(**each) for each in self.flushes.pop(0)])

    def get_timestamp(self) -> int:
        return time_ns()

    def activity_get_num_dropped_records(self, context: int, stream: int, address: int) -> None:
        assert (context, stream) == (0, 0)
        c_size_t.from_address(address).value = self.dropped


def _with(monkeypatch: pytest.MonkeyPatch, cupti: object) -> None:
    monkeypatch.setitem(sys.modules, "cupti", cupti)
    for module in (run_recorder, gpu_process):
        monkeypatch.setattr(module, "read_gpu", lambda: (H200, PEAKS))


def test_a_run_keeps_its_executions_and_their_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that launched nothing are forgotten, and CUPTI is switched off at the end."""
    activities = recorded()["activities"]
    idle = {"kind": 5, "correlation_id": -7, "start": 1, "end": 2, "thread_id": 3}
    other = {"kind": 38}
    cupti = _Cupti([[*activities, idle, other], []])
    _with(monkeypatch, SimpleNamespace(cupti=cupti))
    recorder = RunRecorder()
    assert cupti.enabled == {1, 2, 4, 5, 10}
    before = recorder.read_clocks(time_ns)
    recorder.end_run()
    recorder.end_run()
    assert recorder.runs == 2
    found = recorder.trace(before, recorder.read_clocks(time_ns), 0)
    assert len(found.executions) == 309
    assert {each.correlation for each in found.launches} == {
        each.correlation for each in found.executions
    }
    recorder.stop()
    assert cupti.enabled == set()


def test_records_that_cupti_dropped_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUPTI writes their number to an address; the profile's notes have it."""
    cupti = _Cupti([recorded()["activities"]])
    cupti.dropped = 4
    _with(monkeypatch, SimpleNamespace(cupti=cupti))
    recorder = RunRecorder()
    before = recorder.read_clocks(time_ns)
    recorder.end_run()
    assert recorder.trace(before, recorder.read_clocks(time_ns), 0).dropped == 4


def test_old_runs_are_forgotten_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long profile keeps its last runs, and at least one."""
    monkeypatch.setattr(run_recorder, "_MOST_ACTIVITIES", 400)
    activities = recorded()["activities"]
    _with(monkeypatch, SimpleNamespace(cupti=_Cupti([activities] * 3)))
    recorder = RunRecorder()
    for _ in range(3):
        recorder.end_run()
    assert recorder.runs == 1


def test_clocks_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading lies within the time that it took, in each clock."""
    _with(monkeypatch, SimpleNamespace(cupti=_Cupti([])))
    began, began_ours = time_ns(), perf_counter_ns()
    found = RunRecorder().read_clocks(time_ns)
    assert began <= found.engine_ns <= found.cupti_ns <= time_ns()
    assert began_ours <= found.ours_ns <= perf_counter_ns()


def test_the_clock_of_the_engine_is_found() -> None:
    """It is the one that showed the start of the profile when it started."""
    before = read_candidates()
    shown = (time_ns(), monotonic_ns())
    after = read_candidates()
    assert [engine_clock(each, before, after) for each in shown] == [time_ns, monotonic_ns]
    with pytest.raises(ValueError, match="another clock"):
        engine_clock(0, before, after)


def test_layers_come_from_another_process(tmp_path: Path) -> None:
    """It times itself, gets the inputs once, and ends with the profile."""
    file = save(identity(), tmp_path / "model.onnx")
    settings = EngineSettings(device=Device.CPU)
    interrupt = Interrupt()
    session = GpuProfiledSession(str(file), settings, interrupt, has_kernels=False)
    assert all(session.run([], _INPUTS) > 0 for _ in range(3))
    found = session.finish(2)
    assert [len(each.durations_ns) for each in found.layers] == [2]
    assert "serialized" in found.notes[0]
    session.close()
    interrupt.set()


def test_a_session_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The reason of the other process arrives: no provider for GPUs, or no such model."""
    file = save(identity(), tmp_path / "model.onnx")
    with pytest.raises(ModelRefusedError, match="device GPU was requested"):
        GpuProfiledSession(
            str(file), EngineSettings(device=Device.GPU), Interrupt(), has_kernels=False
        )
    with pytest.raises(ModelRefusedError, match="cupti-python is not installed"):
        GpuProfiledSession(
            str(file), EngineSettings(device=Device.CPU), Interrupt(), has_kernels=True
        )


def test_an_interrupt_ends_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that ends does not wait for a profile, which leaves no temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = save(identity(), tmp_path / "model.onnx")
    interrupt = Interrupt()
    session = GpuProfiledSession(
        str(file), EngineSettings(device=Device.CPU), interrupt, has_kernels=False
    )
    assert len(list(tmp_path.iterdir())) == 2
    interrupt.set()
    with pytest.raises(ModelRefusedError, match="ended before its time"):
        session.finish(1)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("use", ["run", "finish"])
def test_a_process_that_was_killed_says_so(use: str, tmp_path: Path) -> None:
    """Whether it is to run or to finish: the layers of the other process are kept then."""
    file = save(identity(), tmp_path / "model.onnx")
    session = GpuProfiledSession(
        str(file), EngineSettings(device=Device.CPU), Interrupt(), has_kernels=False
    )
    session._process.kill()
    session._process.join(DEADLINE_SECONDS)
    assert not session._process.is_alive(), "the killed process did not end"
    with pytest.raises(ModelRefusedError, match="ended before its time"):
        session.run([], _INPUTS) if use == "run" else session.finish(1)


def _launched(session: gpu_process._Kernels, cupti: _Cupti, number: int) -> int:
    """Run once, as if a kernel had been launched in the middle of the run."""
    began = time_ns()
    took = session.run([], {"x": np.ones((1, 64), np.float32)} if number == 0 else None)
    middle = began + took // 2
    common = {"correlation_id": number, "start": middle, "end": middle + 10}
    launch = {**common, "kind": 5, "thread_id": get_native_id()}
    copy = {**common, "kind": 1, "copy_kind": 1, "bytes": 8, "graph_id": 0, "stream_id": 7}
    cupti.flushes.append([launch, copy])
    session._recorder.end_run()
    return took


def test_launches_get_the_layer_that_ran_at_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On this process's clock: a copy in the middle of a loop belongs to it or a node within."""
    cupti = _Cupti([])
    _with(monkeypatch, SimpleNamespace(cupti=cupti))
    file = save(busy(), tmp_path / "model.onnx")
    session = gpu_process._Kernels(str(file), EngineSettings(device=Device.CPU))
    assert all(_launched(session, cupti, number) > 0 for number in range(3))
    found = session.finish(3)
    assert all(each.layer is not None for each in found.kernels)
    assert sum(len(each.durations_ns) for each in found.kernels) == 3
    assert {each.execution.name for each in found.kernels} == {"Memcpy HtoD"}
    assert found.gpu == PEAKS


def test_runs_without_a_launch_have_no_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That is an error, which says why there is no kernel level."""
    _with(monkeypatch, SimpleNamespace(cupti=_Cupti([])))
    file = save(identity(), tmp_path / "model.onnx")
    session = gpu_process._Kernels(str(file), EngineSettings(device=Device.CPU))
    assert session.run([], _INPUTS) > 0
    assert session.run([], None) > 0
    with pytest.raises(ValueError, match="no kernel was launched"):
        session.finish(2)


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "expected"),
    [
        (256, 18, 0, 1.0),
        (32, 18, 0, 0.5),  # 32 blocks of one warp
        (32, 80, 0, 0.375),  # 6 warps in each quarter of the registers
        (128, 32, 7168, 0.75),  # 12 blocks, as each has 1 KiB more
        (1024, 65, 0, 0.0),  # more registers than there are
    ],
)
def test_occupancy_is_bound_by_what_is_scarcest(
    threads: int, registers: int, shared_bytes: int, expected: float
) -> None:
    """Blocks, registers in quarters, or shared memory with what the system reserves."""
    assert H200.occupancy(threads, registers, shared_bytes, 102_400) == expected


def test_peaks_follow_from_clocks_and_widths() -> None:
    """An H200's: 132 multiprocessors at 1,980 MHz, and 6,144 bits at 3,201 MHz twice a cycle."""
    assert PEAKS.fp32_flops_per_second == 2 * 128 * 132 * 1_980_000_000
    assert PEAKS.tf32_flops_per_second == 8 * PEAKS.fp32_flops_per_second
    assert PEAKS.bytes_per_second == 4_916_736_000_000
    unknown = peaks(
        "?", capability=(99, 0), multiprocessors=1, clock_khz=1, memory_clock_khz=1, bus_bits=8
    )
    assert "fp32FlopsPerSecond" not in unknown.to_json()
