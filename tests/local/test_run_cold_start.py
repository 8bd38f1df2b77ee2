"""Cold starts of real servers: every phase has its evidence, its own delay, and a proven state."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from inferometer_api.results.cold_start import ColdStartRecord
from support.local_runs import Done, done, together
from support.requirements import cannot_run

_DELAY_SECONDS = 2
_Place = tuple[str, str, str]
"""A program, a module of it, and what the module calls; without a call the import of the module."""
_OWN_PHASES = [
    "processStarted",
    "imported",
    "listening",
    "modelRead",
    "engineImported",
    "sessionCreated",
    "warmUp",
    "ready",
    "firstAnswer",
]
PLANTED = {
    "fetcherStarted": ("inferometer_fetch", "", ""),
    "modelFetched": ("inferometer_fetch", "inferometer_fetch.model", "fetch_model"),
    "processStarted": ("inferometer_serving", "", ""),
    "imported": ("inferometer_serving", "inferometer_serving.main", ""),
    "listening": ("inferometer_serving", "inferometer_serving.main", "HttpServer"),
    "modelRead": ("inferometer_serving", "inferometer_serving.model.loading", "read_graph"),
    "engineImported": ("inferometer_serving", "inferometer_serving.model.loading", "import_engine"),
    "sessionCreated": ("inferometer_serving", "inferometer_serving.model.loading", "open_session"),
    "warmUp": ("inferometer_serving", "inferometer_serving.request_router", "warm_up"),
    "ready": ("inferometer_serving", "inferometer_serving.server_state", "keep_freed_memory"),
    "firstAnswer": (
        "inferometer_serving",
        "inferometer_serving.request_router",
        "RequestRouter.runs_inline",
    ),
}
"""Where to delay a start, by phase."""
_ANNOUNCEMENT = ("inferometer_serving", "inferometer_serving.main", "_print_event")
_GAP = ("inferometer", "inferometer_cli.local.cold_start", "start_server")
_AFTER_READY = (
    "inferometer_serving",
    "inferometer_serving.request_router",
    "RequestRouter.report_start_up",
)
_SITE = """
import sys
import time
from importlib.machinery import PathFinder

PROGRAM, SLOW = {program!r}, {slow!r}


def delayed(call, seconds):
    calls = iter(seconds)

    def slow(*args, **more):
        time.sleep(next(calls, 0))
        return call(*args, **more)

    return slow


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in SLOW:
            return None
        called, seconds = SLOW[name]
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def run_and_patch(module):
            if not called:
                time.sleep(seconds[0])
            run(module)
            holder = module
            *holders, last = called.split(".")
            for each in holders:
                holder = getattr(holder, each)
            if last:
                setattr(holder, last, delayed(getattr(holder, last), seconds))

        spec.loader.exec_module = run_and_patch
        return spec


words = sys.orig_argv
is_module = "-m" in words and words[words.index("-m") + 1] == PROGRAM
is_command = PROGRAM == "inferometer" and any(each.endswith("/inferometer") for each in words[:2])
if is_module or is_command:
    if "" in SLOW:
        time.sleep(SLOW[""][1][0])
    sys.meta_path.insert(0, Finder)
"""
"""Delays calls, or imports, of one program: by module what is called, and each call's seconds."""
STATES = ("ImagePresent", "ModelCached", "ModelInMemory")


def _run(folder: Path, *planted: _Place, call: int = 1, **cold: object) -> Done:
    """Run a cold start, in which the given call of what is planted is slow."""
    env = {}
    if planted:
        site = folder / "site"
        site.mkdir(parents=True)
        (site / "sitecustomize.py").write_text(
            _SITE.format(
                program=planted[0][0],
                slow={
                    module: (called, [*[0] * (call - 1), _DELAY_SECONDS])
                    for _, module, called in planted
                },
            )
        )
        env["PYTHONPATH"] = str(site)
    return done(folder, {"coldStart": {"repeats": 1, **cold}}, env=env)


@pytest.fixture(scope="module")
def runs(
    require_quiet_module: Callable[[], None],  # Its window begins before the runs.
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[Done]]]:
    """Return a run without a delay, one for each planted delay, and one for each state."""
    folder = tmp_path_factory.mktemp("cold")
    works = {"plain": partial(_run, folder / "plain")}
    works |= {name: partial(_run, folder / name, where) for name, where in PLANTED.items()}
    works["gap"] = partial(_run, folder / "gap", _GAP)
    works["announcement"] = partial(_run, folder / "announcement", _ANNOUNCEMENT, call=2)
    # The load generator already waits for the second server while that opens its session.
    slow = (PLANTED["sessionCreated"], _AFTER_READY)
    works["after ready"] = partial(_run, folder / "after", *slow, repeats=2)
    works |= {state: partial(_run, folder / state, state=state, repeats=2) for state in STATES}
    with together(works, at_once=2) as futures:
        yield futures


def _starts(run: Done) -> list[ColdStartRecord]:
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    found = [each.cold_start for each in run.result.scenarios]
    assert run.left_behind == []
    return [each for each in found if each is not None]


def _phases(run: Done) -> dict[str, float]:
    (start,) = _starts(run)
    return {each.name: each.duration_nanoseconds / 1e9 for each in start.phases}


@pytest.mark.parametrize("phase", PLANTED)
def test_a_delay_is_in_its_own_phase(runs: dict[str, Future[Done]], phase: str) -> None:
    """Of 2 s that are planted in a phase, at least 95 % are in that phase and in the total."""
    run = runs[phase].result()
    assert _phases(run)[phase] >= 0.95 * _DELAY_SECONDS
    assert all(each.cold_start is not None for each in run.result.scenarios) if run.result else 0
    (start,) = _starts(run)
    assert start.total_nanoseconds >= 0.95e9 * _DELAY_SECONDS


def test_a_delay_that_no_phase_sees_is_invalid(runs: dict[str, Future[Done]]) -> None:
    """It is in the gap, and the verdict says so."""
    run = runs["gap"].result()
    (start,) = _starts(run)
    assert start.gap_nanoseconds >= 0.95e9 * _DELAY_SECONDS
    assert run.result is not None
    rules = [each.rule for each in run.result.scenarios[0].verdict.reasons]
    assert "ColdStartGap" in rules


def test_the_announcement_is_part_of_the_phase_ready(runs: dict[str, Future[Done]]) -> None:
    """The server is ready once it has reported that, not before."""
    assert _phases(runs["announcement"].result())["ready"] >= 0.95 * _DELAY_SECONDS


def test_a_server_that_is_silent_after_its_last_phase_is_not_ready(
    require_quiet_module: Callable[[], None], runs: dict[str, Future[Done]]
) -> None:
    """The delay is in the total and in the gap, and not the load generator's."""
    run = runs["after ready"].result()
    _, start = _starts(run)
    assert start.gap_nanoseconds >= 0.95e9 * _DELAY_SECONDS
    covered = sum(each.duration_nanoseconds for each in start.phases)
    assert abs(covered + start.gap_nanoseconds - start.total_nanoseconds) <= 20_000_000
    assert run.result is not None
    rules = [each.rule for each in run.result.scenarios[1].verdict.reasons]
    assert "ColdStartGap" in rules
    require_quiet_module()
    assert start.client_delay_nanoseconds < 1e9 * _DELAY_SECONDS


@pytest.mark.parametrize("state", STATES)
def test_each_start_is_of_a_new_server_in_a_proven_state(
    runs: dict[str, Future[Done]], state: str
) -> None:
    """Each repeat has all phases in order, its first queries, and the share that was in memory."""
    starts = _starts(runs[state].result())
    assert len(starts) == 2
    fetched = ["fetcherStarted", "modelFetched"] if state == "ImagePresent" else []
    for start in starts:
        assert [each.name for each in start.phases] == fetched + _OWN_PHASES
        covered = sum(each.duration_nanoseconds for each in start.phases)
        assert abs(covered + start.gap_nanoseconds - start.total_nanoseconds) <= 20_000_000
        assert start.resident_share == (1.0 if state == "ModelInMemory" else 0.0)
        assert len(start.first_queries_nanoseconds) == 20
        assert start.steady_median_nanoseconds
        session = next(each for each in start.phases if each.name == "sessionCreated")
        assert set(session.parts) == {"parse", "initialise"}
        read = next(each for each in start.phases if each.name == "modelRead")
        assert read.bytes
        assert start.unavailable == {}


def test_the_table_and_the_report_have_the_phases(runs: dict[str, Future[Done]]) -> None:
    """A row for each phase in the terminal, and a chart in the report."""
    run = runs["ModelCached"].result()
    assert "sessionCreated" in run.ended.stdout
    assert "From its creation to its first answer" in run.ended.stdout
    assert "Start of the server by phase" in (run.directory / "report.html").read_text()


def test_a_model_on_tmpfs_is_never_cold(tmp_path: Path) -> None:
    """Its pages cannot be evicted, and the verdict says so."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own below
    if not memory.is_dir():
        cannot_run("There is no /dev/shm.")
    folder = memory / f"inferometer-{tmp_path.name}"
    try:
        run = _run(folder, state="ModelCached")
        assert run.result is not None, run.ended.stderr
        (scenario,) = run.result.scenarios
        assert "ColdStartState" in [each.rule for each in scenario.verdict.reasons]
        assert scenario.cold_start is not None
        assert scenario.cold_start.resident_share == 1.0
    finally:
        for each in sorted(folder.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        folder.rmdir()
