"""Each repeat has servers of its own, which are handed over between the repeats."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from inferometer_api.plan.load_plan import LoadPlan, PlannedServer, ServerTargets
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import ResultDocument, ScenarioResult, Verdict
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_loadgen.reporting.control_requests import take_targets
from inferometer_loadgen.reporting.http_endpoint import HttpEndpoint
from inferometer_loadgen.reporting.report_writer import LastingReport
from inferometer_loadgen.run.execution import TERMINATED, PlanExecution
from inferometer_loadgen.run.executor import (
    Executor,
    RepeatExecution,
    RunContext,
    ScenarioRepeat,
    StepEnd,
)
from inferometer_loadgen.run.target_handover import TargetHandover
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription
from support.load_runs import a_plan
from support.waiting import within_deadline

SINGLE: dict[str, Any] = {"singleStream": {}}
TOKEN = "the token"  # noqa: S105 - of a load generator that lives for one test
LAUNCHED = {
    "model": {"uri": "zoo://classification/resnet50"},
    "server": {"runtime": "OnnxRuntime"},
}


def targets(repeat: int, url: str = "http://127.0.0.1:2") -> ServerTargets:
    """Return the server of a repeat."""
    return ServerTargets(repeat=repeat, servers=[PlannedServer(url=url, pod_uid=f"pod {repeat}")])


@dataclass
class Played:
    """A load generator whose executor sends nothing, and what is seen of it."""

    log: list[str] = field(default_factory=list)
    restarts_within: str = ""
    """The step in which the server is replaced by another process, as "REPEAT SCENARIO"."""
    sha256: dict[str, str] = field(default_factory=dict)
    """The model that the servers at an address serve."""
    progress: list[ProgressReport] = field(default_factory=list)
    instances: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, _: RunContext) -> AsyncIterator[Executor]:
        """Open the executor."""
        yield _Toy(self)

    def servers(self, plan: LoadPlan) -> "_Servers":
        """Return the servers of a plan."""
        return _Servers(self, plan.servers[0].url)


@dataclass
class _Sink:
    played: Played
    on_progress: Callable[[ProgressReport], None]

    def progress(self, report: ProgressReport) -> None:
        self.played.progress.append(report)
        self.on_progress(report)

    def add(self, report: LastingReport) -> None:
        pass


@dataclass
class _Servers:
    played: Played
    url: str
    addresses: str = "The server"

    async def describe(self, _: object) -> list[ServerDescription]:
        self.played.log.append(f"describe {self.url}")
        model = {"model_sha256": self.played.sha256.get(self.url, "one")}
        instance = {"instance_id": f"{self.url} {self.played.instances.get(self.url, 0)}"}
        return [ServerDescription("toy", "1", [], ["1"], [], [], {**model, **instance})]

    async def starts(self) -> list[frozenset[str]]:
        return [frozenset({f"{self.url} {self.played.instances.get(self.url, 0)}"})]


@dataclass
class _Toy:
    played: Played
    url: str = ""

    async def prepare(
        self, run: RunContext, _: Sequence[ServerDescription], __: Sequence[ScenarioRepeat]
    ) -> Sequence[str]:
        self.url = run.plan.servers[0].url
        self.played.log.append(f"prepare for {self.url}")
        return []

    def start(self, repeat: ScenarioRepeat) -> RepeatExecution:
        return _ToyRepeat(self, repeat, iter(repeat.steps))


@dataclass
class _ToyRepeat:
    toy: _Toy
    repeat: ScenarioRepeat
    planned: Any

    def next_step(self) -> StepPlan | None:
        return next(self.planned, None)

    async def run_step(self, step: StepPlan) -> StepEnd:
        del step
        played, url = self.toy.played, self.toy.url
        where = f"{self.repeat.repeat} {self.repeat.scenario.name}"
        played.log.append(f"{where} at {url}")
        if where == played.restarts_within:
            played.instances[url] = played.instances.get(url, 0) + 1
        return StepEnd(End.DONE)

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult:
        is_valid = cut_short is None and not server_restarted
        return ScenarioResult(
            name=self.repeat.scenario.name,
            kind=self.repeat.scenario.kind,
            repeat=self.repeat.repeat,
            seed=self.repeat.seed,
            steps=[],
            verdict=Verdict(state="VALID" if is_valid else "INVALID"),
        )


async def _no_samples(*_: object) -> None:
    """Stand for the sampling of outputs: the servers here have no sockets."""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Replace executor and servers of the load generator."""
    found = Played()
    rows = {name: replace(row, executor="toy") for name, row in SCENARIOS.items()}
    for module in ("executor", "session"):
        monkeypatch.setattr(f"inferometer_loadgen.run.{module}.SCENARIOS", rows)
    monkeypatch.setattr("inferometer_loadgen.run.session.Servers", found.servers)
    monkeypatch.setattr("inferometer_loadgen.run.session.sample_outputs", _no_samples)
    return found


def document(
    played: Played,
    on_progress: Callable[[PlanExecution, ProgressReport], None],
    *,
    repeats: int = 2,
    scope: str = "Server",
) -> ResultDocument:
    """Execute two scenarios with repeats; return the document."""
    validity = {"repeats": repeats, "repeatScope": scope}
    plan = a_plan("http://127.0.0.1:1", SINGLE, SINGLE, validity=validity, spec=LAUNCHED)

    async def execute() -> ResultDocument | None:
        sink = _Sink(played, lambda report: on_progress(execution, report))
        execution = PlanExecution(plan, sink, {"toy": played.open})
        async with within_deadline("the end of the run"):
            return (await execution.run()).document

    found = asyncio.run(execute())
    assert found is not None
    return found


def deliver(execution: PlanExecution, report: ProgressReport) -> None:
    """Deliver the server of each repeat that is awaited."""
    if report.stage == "WaitingForRestart":
        assert execution.deliver_targets(targets(report.repeat)) == ""


def test_each_repeat_waits_for_its_own_server(played: Played) -> None:
    """All scenarios once, then the next server is awaited, described, prepared for and measured."""
    found = document(played, deliver)
    old, new = "http://127.0.0.1:1", "http://127.0.0.1:2"
    assert played.log == [
        *(f"describe {old}", f"prepare for {old}", f"1 s0 at {old}", f"1 s1 at {old}"),
        *(f"describe {new}", f"prepare for {new}", f"2 s0 at {new}", f"2 s1 at {new}"),
    ]
    assert found.outcome.state == "Complete"
    verdicts = [(each.name, each.repeat, each.verdict.state) for each in found.scenarios]
    assert verdicts == [(name, repeat, "VALID") for name in ("s0", "s1") for repeat in (1, 2)]
    assert [(each.repeats, each.scope) for each in found.repeat_summaries] == [(2, "Server")] * 2


def test_the_document_names_each_restart(played: Played) -> None:
    """The environment describes the first server, and lists those that replaced it."""
    environment = document(played, deliver).environment
    assert environment is not None
    assert environment.server.url == "http://127.0.0.1:1"
    (restart,) = environment.restarts
    (replica,) = restart.replicas
    assert (restart.repeat, replica.url) == (2, "http://127.0.0.1:2")
    assert replica.settings == {"instance_id": "http://127.0.0.1:2 0"}


def test_the_progress_names_the_awaited_repeat_and_its_pods(played: Played) -> None:
    """While the server is awaited, and with the UIDs of its pods once it is there."""
    reports: list[ProgressReport] = []

    def note(execution: PlanExecution, report: ProgressReport) -> None:
        reports.append(report)
        deliver(execution, report)

    document(played, note)
    (waiting,) = (each for each in reports if each.stage == "WaitingForRestart")
    assert (waiting.repeat, waiting.repeat_count, waiting.scenario) == (2, 2, "")
    assert waiting.server_pods == []


def test_a_planned_restart_hides_no_other(played: Played) -> None:
    """A server that restarts within a later repeat makes that scenario INVALID, and no other."""
    played.restarts_within = "2 s1"
    found = document(played, deliver)
    verdicts = {(each.name, each.repeat): each.verdict.state for each in found.scenarios}
    assert [where for where, state in verdicts.items() if state == "INVALID"] == [("s1", 2)]


def test_another_model_ends_the_run(played: Played) -> None:
    """The repeats are of one model; what was measured until then is kept."""
    played.sha256["http://127.0.0.1:2"] = "two"
    found = document(played, deliver)
    assert (found.outcome.state, found.outcome.reason) == ("Refused", "ModelRefused")
    assert "one at the server of repeat 1 and two at that of repeat 2" in found.outcome.message
    assert [each.repeat for each in found.scenarios] == [1, 1]


def test_a_stop_ends_the_wait_and_keeps_what_was_measured(played: Played) -> None:
    """The load generator need not be given a server to be ended."""

    def stop(execution: PlanExecution, report: ProgressReport) -> None:
        if report.stage == "WaitingForRestart" and report.repeat == 3:
            execution.stop(TERMINATED)
        else:
            deliver(execution, report)

    found = document(played, stop, repeats=3)
    assert found.outcome.state == "Terminated"
    assert sorted(each.repeat for each in found.scenarios) == [1, 1, 2, 2]
    assert [each.repeats for each in found.repeat_summaries] == [2, 2]


def test_repeats_of_the_load_keep_the_server(played: Played) -> None:
    """With repeatScope Load nothing is awaited, and the scenarios take turns all the same."""
    found = document(played, lambda *_: None, scope="Load")
    at = "at http://127.0.0.1:1"
    assert played.log[2:] == [f"1 s0 {at}", f"1 s1 {at}", f"2 s0 {at}", f"2 s1 {at}"]
    assert {each.scope for each in found.repeat_summaries} == {"Load"}


def awaiting(
    act: Callable[[TargetHandover], Coroutine[Any, Any, None]], repeat: int = 2
) -> ServerTargets:
    """Act on a handover at which a repeat is awaited; return what was handed over."""

    async def run() -> ServerTargets:
        handover = TargetHandover()
        waiting = asyncio.create_task(handover.wait(repeat))
        await asyncio.sleep(0)
        await act(handover)
        async with within_deadline(f"the servers of repeat {repeat}"):
            return await waiting

    return asyncio.run(run())


def test_servers_are_taken_once_and_only_for_the_awaited_repeat() -> None:
    """The same servers may come again, since an answer may be lost; others are refused."""

    async def act(handover: TargetHandover) -> None:
        assert handover.deliver(targets(3)) == "The servers of repeat 3 are not awaited."
        assert handover.deliver(targets(1)) == "The servers of repeat 1 are not awaited."
        assert handover.deliver(targets(2)) == ""
        assert handover.deliver(targets(2)) == ""
        assert handover.deliver(targets(2, "http://other:1")) != ""

    assert awaiting(act) == targets(2)
    assert TargetHandover().deliver(targets(2)) == "The servers of repeat 2 are not awaited."


def test_only_the_token_hands_servers_over() -> None:
    """Without it, with a malformed body or for another repeat nothing is taken."""
    statuses: list[int] = []
    good = targets(2).model_dump_json()

    async def act(handover: TargetHandover) -> None:
        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            return await take_targets(request, TOKEN, handover.deliver)

        endpoint = HttpEndpoint(respond)
        url = f"http://127.0.0.1:{await endpoint.listen('127.0.0.1', 0)}/targets"
        try:
            async with aiohttp.ClientSession() as session:
                for token, body in (
                    ("", good),
                    ("another", good),
                    (TOKEN, "{}"),
                    (TOKEN, " " * 600_000),
                    (TOKEN, targets(3).model_dump_json()),
                    (TOKEN, good),
                ):
                    headers = {"Authorization": f"Bearer {token}"}
                    async with session.post(url, data=body, headers=headers) as answer:
                        statuses.append(answer.status)
        finally:
            await endpoint.close()

    assert awaiting(act) == targets(2)
    assert statuses == [403, 403, 400, 413, 409, 202]


def test_an_empty_token_hands_nothing_over() -> None:
    """A plan without a token disables the request."""

    async def act(handover: TargetHandover) -> None:
        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            return await take_targets(request, "", handover.deliver)

        endpoint = HttpEndpoint(respond)
        url = f"http://127.0.0.1:{await endpoint.listen('127.0.0.1', 0)}/targets"
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": "Bearer "}
            body = targets(2).model_dump_json()
            async with session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 403
        await endpoint.close()
        handover.deliver(targets(2))

    awaiting(act)
