"""Each kind of run ends right whichever write the operator dies after."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cluster.control_plane import ControlPlane
from support.crash_courses import COURSES, Course
from support.crash_walk import CrashWalk
from support.fake_kubelet import FakeKubelet
from support.fault_proxy import FaultProxy
from support.stage import a_stage

_AT_ONCE = 3
_MOST_WRITES = 60


@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.name)
def test_an_operator_that_is_killed_after_any_write_is_replaced_without_harm(
    api_server: ControlPlane,
    kubelet: FakeKubelet,
    tmp_path: Path,
    course: Course,
) -> None:
    """For every n: killed after the n-th write, another one ends the run; nothing is done twice."""

    def crashed_after(number: int) -> bool:
        (folder := tmp_path / str(number)).mkdir()
        proxy = FaultProxy(api_server, folder)
        try:
            with a_stage(api_server, kubelet, folder) as stage:
                return CrashWalk(stage, proxy).crash_after(course, number)
        finally:
            proxy.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for first in range(1, _MOST_WRITES, _AT_ONCE):
            crashed = list(pool.map(crashed_after, range(first, first + _AT_ONCE)))
            if not all(crashed):
                assert first > 1, f"A {course.name} run was killed after {sum(crashed)} writes."
                return
    raise AssertionError(f"A {course.name} run takes more than {_MOST_WRITES} writes.")


@pytest.mark.parametrize("course", COURSES[1:], ids=lambda course: course.name)
def test_an_operator_that_is_killed_after_every_write_ends_the_run_right(
    api_server: ControlPlane,
    kubelet: FakeKubelet,
    tmp_path: Path,
    course: Course,
) -> None:
    """Each operator writes once; `make test` has the launched run."""
    proxy = FaultProxy(api_server, tmp_path)
    try:
        with a_stage(api_server, kubelet, tmp_path) as stage:
            assert CrashWalk(stage, proxy).crash_after_every_write(course) >= 4
    finally:
        proxy.close()
