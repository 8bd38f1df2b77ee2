"""A run ends right whatever the time of the operator's node is."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN
from inferometer_api.timestamps import parse_time
from support.cluster.control_plane import ControlPlane
from support.fake_kubelet import FakeKubelet
from support.operator_process import OperatorProcess
from support.shifted_clock import ShiftedClock
from support.stage import Stage, a_stage

_SKEWS_SECONDS = (-310, 310)
_RESOLUTION = timedelta(seconds=2)
"""A `Date` header and a creationTimestamp have whole seconds each."""
_Played = tuple[Stage, ShiftedClock, OperatorProcess]


@pytest.fixture
def skewed_stages(
    api_server: ControlPlane, kubelet: FakeKubelet, tmp_path: Path
) -> Iterator[list[_Played]]:
    """Start an operator whose node is five minutes behind the API server, and one ahead of it."""
    with ExitStack() as stack:
        started = []
        for seconds in _SKEWS_SECONDS:
            (folder := tmp_path / str(seconds)).mkdir()
            stage = stack.enter_context(a_stage(api_server, kubelet, folder))
            stage.play(LOADGEN, stage.loads.follow)
            clock = ShiftedClock(folder, seconds)
            operator = stage.begin_operator(environment=clock.environment)
            stage.apply(server={"runtime": "OnnxRuntime", "readyDeadlineSeconds": 300})
            started.append((stage, clock, operator))
        yield started


def test_a_skew_and_a_step_of_the_operators_clock_end_no_run(skewed_stages: list[_Played]) -> None:
    """Five minutes either way, set to the other side in mid-run; times are the API server's."""
    for stage, clock, operator in skewed_stages:
        load = stage.load()
        load.show("Measuring", load.scenarios[0])
        stage.wait("Measuring")
        clock.set(310 if clock.seconds < 0 else -310)
        load.judge(load.scenarios[0])
        load.end()
        status = stage.finished()
        assert stage.condition("Complete")["status"] == "True", status
        assert operator.exit_code is None
        later = stage.api.create("ConfigMap", stage.namespace, {"metadata": {"name": "later"}})
        times = [
            stage.run()["metadata"]["creationTimestamp"],
            status["startTime"],
            later["metadata"]["creationTimestamp"],
        ]
        created, began, ended = (parse_time(each) for each in times)
        assert created is not None
        assert began is not None
        assert ended is not None
        # The order of the API server's clock, whose times are whole seconds.
        assert created - _RESOLUTION <= began <= ended + _RESOLUTION, times


def test_the_shifted_clock_shifts_a_process(tmp_path: Path) -> None:
    """The test above would show nothing with a clock that is not shifted."""
    clock = ShiftedClock(tmp_path, 310)
    script = "import datetime; print(datetime.datetime.now().timestamp())"
    words = [sys.executable, "-c", script]
    ahead = float(
        subprocess.run(words, capture_output=True, check=True, env=clock.environment).stdout
    )
    here = float(subprocess.run(words, capture_output=True, check=True).stdout)
    assert ahead > here + 200
