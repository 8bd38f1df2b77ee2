"""A server in this process that plays the load generator, where there are no pods.

It answers /progress, /stop and /targets at its pod's own address, and hands over a result as a real
one does: the document in the log, its summary as the termination message.
"""

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from typing_extensions import override

from inferometer_api.plan.load_plan import ServerTargets
from inferometer_api.plan.load_report import LoadReport, report_within
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import (
    Finding,
    Outcome,
    OutcomeState,
    ResultDocument,
    ScenarioResult,
    Verdict,
)
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.spec.run import BenchmarkRun
from inferometer_loadgen.pod.result_delivery import encode_result
from support.fake_pod import Pod
from support.results import a_result
from support.steps import Load, a_step

Stage = Literal[
    "WaitingForServer", "WaitingForRestart", "Preparing", "WarmUp", "Measuring", "Draining"
]


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Each worker of one pytest has 1,000 ports of its own: a look at one takes it from all addresses.
_PORTS = itertools.count(20_000 + 1_000 * (_WORKER % 10) + os.getppid() % 1_000)


def free_port() -> int:
    """Return a port that is free now on every address of 127/8.

    The kernel gives none of these ports to a socket of its choice, such as an operator's.
    """
    for port in _PORTS:
        with (
            contextlib.suppress(OSError),
            socket.create_server(("0.0.0.0", port)),  # noqa: S104 - bound, and closed at once
        ):
            return port
    raise AssertionError("There is always a next port.")


class FakeLoad:
    """One load generator, at its pod's address."""

    def __init__(self, pod: Pod, port: int) -> None:
        self.pod = pod
        self.plan = pod.plan()
        self.run = BenchmarkRun.model_validate(self.plan["run"])
        self.report = LoadReport()
        self.stopped = threading.Event()
        self.progress_requested = threading.Event()
        """Whether progress was requested since `show`."""
        self.obedient = True
        """Whether it ends on request."""
        self.refused_stops = 0
        self.loads = [Load()]
        """The load of each step of a scenario."""
        self.targets: list[ServerTargets] = []
        """The servers of further repeats, as often as they were handed over."""
        self._invalid: set[str] = set()
        self._server = ThreadingHTTPServer((pod.address, port), self._handler())
        self._server.daemon_threads = True
        self._over = threading.Lock()
        pod.at_end = self.end_as_asked
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def scenarios(self) -> list[str]:
        """Return the names of what is to be measured."""
        return [each.name for each in self.run.spec.scenarios]

    def show(
        self, stage: Stage, scenario: str = "", fraction: float = 0.5, repeat: int = 1
    ) -> None:
        """Answer at /progress that the work is so far."""
        taken = [each for each in self.targets if each.repeat == repeat][:1]
        progress = ProgressReport(
            stage=stage,
            scenario=scenario,
            scenario_count=len(self.scenarios),
            fraction=fraction,
            queries=100,
            qps=123.4,
            p99_nanoseconds=7_654_321,
            repeat=repeat,
            repeat_count=self.run.spec.validity.repeats,
            server_pods=[server.pod_uid for each in taken for server in each.servers],
        )
        self.progress_requested.clear()
        self.report = self.report.model_copy(update={"progress": progress})

    def judge(self, name: str, verdict: Literal["VALID", "INVALID"] = "VALID") -> ScenarioResult:
        """Answer at /progress that a scenario is measured and judged."""
        if verdict == "INVALID":
            self._invalid.add(name)
        result = self._measured(name)
        summaries = [*self.report.scenarios, scenario_summary(result)]
        self.report = self.report.model_copy(update={"scenarios": summaries})
        return result

    def end(
        self,
        state: OutcomeState = "Complete",
        reason: str = "Measured",
        message: str = "",
        *,
        code: int | None = None,
        change: Callable[[list[str]], list[str]] = list,
    ) -> ResultDocument:
        """Hand over what was judged, as `change` leaves the log's lines, and end the pod."""
        assert self._over.acquire(blocking=False), "It is over."
        return self._end(state, reason, message, code=code, change=change)

    def _end(
        self,
        state: OutcomeState,
        reason: str,
        message: str,
        *,
        code: int | None = None,
        change: Callable[[list[str]], list[str]] = list,
    ) -> ResultDocument:
        outcome = Outcome(state=state, reason=reason, message=message)
        document = a_result(
            run_id=self.plan["runId"],
            run=self.run,
            outcome=outcome,
            scenarios=[self._measured(each.name) for each in self.report.scenarios],
        )
        report = self.report.model_copy(update={"progress": None, "outcome": outcome})
        encoded = encode_result(document, report)
        self.pod.log("stage=Measuring", *change(list(encoded.lines)))
        self.close()
        code = (0 if state == "Complete" else 1) if code is None else code
        self.pod.end(code, message=report_within(encoded.report).decode())
        return document

    def end_as_asked(self) -> None:
        """Hand over what was judged so far, as at SIGTERM; not where it is over already."""
        if self.obedient and self._over.acquire(blocking=False):
            self._end("Terminated", "Terminated", "SIGTERM ended it.", code=143)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def _measured(self, name: str) -> ScenarioResult:
        template = a_result().scenarios[0]
        verdict = Verdict(state="VALID")
        if name in self._invalid:
            finding = Finding(rule="ErrorRate", message="Too many.", figure="", limit="")
            verdict = Verdict(state="INVALID", reasons=[finding])
        return template.model_copy(
            update={"name": name, "steps": list(map(a_step, self.loads)), "verdict": verdict}
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        load = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = load.report.model_dump_json(exclude_none=True).encode()
                self._answer(200 if self.path == "/progress" else 404, body)
                load.progress_requested.set()

            def do_POST(self) -> None:
                token = f"Bearer {load.plan['stopToken']}"
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                if self.path == "/targets" and self.headers["Authorization"] == token:
                    load.targets.append(ServerTargets.model_validate_json(body))
                    self._answer(202, b"{}")
                elif self.path == "/stop" and self.headers["Authorization"] == token:
                    self._answer(202, b"{}")
                    load.stopped.set()
                    threading.Thread(target=load.end_as_asked, daemon=True).start()
                else:
                    load.refused_stops += 1
                    self._answer(403, b"{}")

            def _answer(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


class Loads:
    """Scripts for load pods of one port; a test waits for each load generator and leads it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.loads_of: Callable[[BenchmarkRun], list[Load]] = lambda _: [Load()]
        """Returns the load of each step of a run's scenarios."""
        self._loads: dict[str, FakeLoad] = {}

    def follow(self, pod: Pod) -> None:
        """Run, and do as the test says from then on."""
        self._begun(pod)

    def measure(self, pod: Pod) -> None:
        """Measure every scenario at once, and end well."""
        load = self._begun(pod)
        for name in load.scenarios:
            load.show("Measuring", name)
            load.judge(name)
        load.end()

    def measure_until_stopped(self, pod: Pod) -> None:
        """Measure the first scenario, then the second until it is stopped."""
        load = self._begun(pod)
        load.judge(load.scenarios[0])
        load.show("Measuring", load.scenarios[-1])

    def there(self, run: str) -> FakeLoad | None:
        """Return the load generator of a run of this name, None while there is none."""
        return next((each for each in list(self._loads.values()) if each.run.name == run), None)

    def _begun(self, pod: Pod) -> FakeLoad:
        load = FakeLoad(pod, self.port)
        load.loads = self.loads_of(load.run)
        load.show("Preparing")
        pod.bind()
        pod.start()
        self._loads[pod.uid] = load
        return load
