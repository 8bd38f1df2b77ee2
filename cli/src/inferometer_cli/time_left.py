"""Time that a local run still takes, from its plan and the load generator's reports."""

from dataclasses import dataclass
from typing import assert_never

from typing_extensions import override

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.scenarios.planned_duration import RESTART_SECONDS, planned_duration
from inferometer_api.scenarios.table import (
    SEARCHES,
    effective_validity,
    is_evaluation,
    usual_labels,
)
from inferometer_api.spec.resolve import restarts_server
from inferometer_api.spec.run import BenchmarkRun
from inferometer_results.quantity import long_duration

_TOO_EARLY = 0.05
"""Below this fraction of a window its length is not extrapolated."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """How long a run still takes."""

    seconds: float
    is_bound: bool
    """Whether it is the longest that the rest may take, because a search has yet to end."""

    @override
    def __str__(self) -> str:
        """Return it in words: "about 40 s left"."""
        return f"{'at most' if self.is_bound else 'about'} {long_duration(self.seconds)} left"


def planned_seconds(run: BenchmarkRun) -> float:
    """Return how long a run is planned to measure; a search as long as it may."""
    planned = [planned_duration(each, run.spec) for each in run.spec.scenarios]
    return run.spec.validity.repeats * sum(
        each.least_seconds or each.most_seconds for each in planned
    )


class RemainingTime:
    """Estimates the time left at each progress report of one run."""

    def __init__(self, run: BenchmarkRun) -> None:
        spec = run.spec
        self._spec = spec
        self._planned = [planned_duration(each, spec) for each in spec.scenarios]
        self._is_search = [each.kind in SEARCHES for each in spec.scenarios]
        self._is_evaluation = [is_evaluation(each.kind) for each in spec.scenarios]
        self._restarts = restarts_server(spec)
        self._begun: dict[tuple[int, int], float] = {}
        """When each repeat of a scenario began, whatever their order."""

    def at(self, report: ProgressReport, now_seconds: float) -> TimeLeft | None:
        """Return the time left at a report; None while the servers are not ready.

        Also None before an evaluation of a data set has answers, whose rate says how long it takes.
        `now_seconds` is a time of any monotonic clock.
        """
        is_restart = report.stage == "WaitingForRestart"
        if not report.scenario and not is_restart:
            return None
        index = report.scenario_index
        began = now_seconds
        if not is_restart:
            began = self._begun.setdefault((index, report.repeat), now_seconds)
        repeats = range(1, report.repeat_count + 1)
        waiting = [
            each
            for each in range(len(self._planned))
            for repeat in repeats
            if (each, repeat) not in self._begun
        ]
        if any(self._is_evaluation[each] for each in waiting):
            return None
        seconds = sum(self._whole(each) for each in waiting)
        if self._restarts:
            restarts = report.repeat_count - report.repeat + is_restart
            seconds += restarts * RESTART_SECONDS
        if is_restart:
            return TimeLeft(seconds, any(self._is_search[each] for each in waiting))
        if self._is_search[index]:
            seconds += max(0.0, self._planned[index].most_seconds - (now_seconds - began))
        elif self._is_evaluation[index]:
            if not report.fraction:
                return None
            seconds += report.elapsed_seconds * (1 / report.fraction - 1)
        else:
            seconds += self._of_scenario(report)
        is_bound = any(self._is_search[each] for each in (*waiting, index))
        return TimeLeft(seconds, is_bound)

    def until_given_up(self, report: ProgressReport) -> float:
        """Return how long a server that is not ready is still waited for, in seconds."""
        return self._spec.server.ready_deadline_seconds * (1 - report.fraction)

    def _whole(self, index: int) -> float:
        planned = self._planned[index]
        return planned.most_seconds if self._is_search[index] else planned.least_seconds

    def _of_scenario(self, report: ProgressReport) -> float:
        """Return the rest of the scenario that is measured: of its step, and the steps after it."""
        scenario = self._spec.scenarios[report.scenario_index]
        labels = usual_labels(scenario)
        number = labels.index(report.step) if report.step in labels else 0
        validity = effective_validity(scenario, self._spec.validity)
        count = len(labels)
        warm_up = validity.warm_up_seconds / count
        whole = self._planned[report.scenario_index].least_seconds / count
        rest = (count - number - 1) * whole
        match report.stage:
            case "WaitingForWorkers" | "WaitingForServer" | "WaitingForRestart" | "Preparing":
                return rest + whole
            case "Idle":
                return rest + whole + _extrapolated(report, 0.0)
            case "WarmUp":
                return rest + whole - report.fraction * warm_up
            case "Measuring":
                longest = max(0.0, validity.max_duration_seconds / count - report.elapsed_seconds)
                return rest + min(longest, _extrapolated(report, whole - warm_up))
            case "Draining":
                return rest
            case _:
                assert_never(report.stage)


def _extrapolated(report: ProgressReport, planned_seconds: float) -> float:
    """Return the rest of a stage by its pace so far, at first by its planned length."""
    if report.fraction <= _TOO_EARLY:
        return max(0.0, planned_seconds - report.elapsed_seconds)
    return report.elapsed_seconds * (1 / report.fraction - 1)
