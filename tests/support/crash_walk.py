"""Kills the operator of a run at its writes, and lets another one go on."""

import signal
import threading
from pathlib import Path

from support.cluster import configurations
from support.crash_courses import Course
from support.fault_proxy import FaultProxy, KillAtWrite, no_fault
from support.operator_forks import operator_forks
from support.operator_process import operator_account, settings_file
from support.stage import Stage


class CrashWalk:
    """The operators of one stage, one after the other."""

    def __init__(self, stage: Stage, proxy: FaultProxy) -> None:
        self._stage = stage
        self._proxy = proxy
        self._log = stage.folder / "killed-operators.log"
        token = operator_account(stage.api, stage.namespace)
        kubeconfig = stage.folder / "killed.kubeconfig"
        kubeconfig.write_text(configurations.kubeconfig(proxy.url, proxy.authority, token))
        settings = settings_file(stage.folder / "killed.settings.yaml", stage.namespace)
        self._words = [
            *("--settings", str(settings)),
            *("--kubeconfig", str(kubeconfig)),
            *("--loadgen-port", str(stage.loads.port)),
            *("--health-port", "0"),
            "--no-lease",
        ]

    def crash_after_every_write(self, course: Course) -> int:
        """Kill each operator at its first write, until the run is over; return how many."""
        course.begin(self._stage)
        crashes = 0
        while self._lead(course, 1):
            crashes += 1
        course.check(self._stage)
        return crashes

    def crash_after(self, course: Course, number: int) -> bool:
        """Kill one operator at this write, and let the next one end the run.

        Return whether the first one wrote so often.
        """
        course.begin(self._stage)
        crashed = self._lead(course, number)
        if crashed:
            self._lead(course, None)
        course.check(self._stage)
        return crashed

    def _lead(self, course: Course, number: int | None) -> bool:
        """Start an operator; return whether it was killed before the run was over."""
        killed = threading.Event()
        # It is killed at each write of a run that waits for nodes.
        environment = {"POD_NAME": self._log.stem}
        operator = operator_forks().start(self._words, self._log, environment, impatient=True)

        def kill() -> None:
            operator.send_signal(signal.SIGKILL)
            killed.set()
            operator.wait()

        self._proxy.kill = kill
        self._proxy.rule = no_fault if number is None else KillAtWrite(number)
        self._stage.wait_for(
            lambda: killed.is_set() or course.is_over(self._stage),
            lambda: (
                f"the end of {course.name}, of which {self._stage.children()} is left and whose"
                f" operator, {operator.pid}, has the exit code {operator.poll()}:"
                f" {self._stage.status()}\n{log_end(self._log)}"
            ),
        )
        operator.kill()
        return killed.is_set()


def log_end(log: Path) -> str:
    """Return the end of a log."""
    return log.read_text()[-3000:] if log.exists() else "no log"
