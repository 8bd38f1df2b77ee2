"""Sequences of runs of one spec whose p99 latency regresses, or does not.

As tests of promtool's: the runs' series are too many to be written down one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
ALERT = "InferometerLatencyRegressed"
_LAST = 90
"""The last minute of every course."""
_BEGINS = 30
"""The minute in which the newest run is seen first."""
_QUIET = (0.010, 0.0101, 0.0102, 0.0103, 0.0104)
"""1.1 times their median is 0.01122 s."""


@dataclass(frozen=True, slots=True)
class Course:
    """Earlier runs of a spec, then one more, by their p99 latency in seconds."""

    name: str
    newest: float
    earlier: tuple[float, ...] = _QUIET
    earlier_node: str = "n"
    earlier_spec: str = "h"
    earlier_until: int = _LAST
    """The minute in which the earlier runs are deleted."""
    newest_until: int = _LAST
    fires_at: tuple[str, ...] = ()
    silent_at: tuple[str, ...] = ("40m",)


COURSES = (
    Course("above all of five and by more than 10 %", 0.01125, fires_at=("40m",), silent_at=()),
    Course("above all of five, by less than 10 %", 0.0112),
    Course("far above the median, no worse than the worst of five", 0.015, (*_QUIET[:4], 0.015)),
    Course("above nine in ten, not above all", 0.0149, (*_QUIET[:4], 0.015)),
    Course("after four runs", 0.1, _QUIET[:4]),
    Course("after five runs on another node", 0.1, earlier_node="slow"),
    Course("after five runs of another spec", 0.1, earlier_spec="g"),
    Course("the earlier are deleted", 0.1, earlier_until=5, fires_at=("40m",), silent_at=("29m",)),
    Course(
        "the newest is deleted: it fires on for ten minutes, as an operator may restart",
        *(0.1,),
        newest_until=40,
        fires_at=("40m", "50m"),
        silent_at=("54m",),
    ),
)


def courses() -> list[Json]:
    """Return the tests for a file of promtool's."""
    return [
        {
            "name": f"{ALERT}: {course.name}",
            "interval": "1m",
            "input_series": list(_series(course)),
            "alert_rule_test": [_at(course, time) for time in course.silent_at]
            + [_at(course, time, _fired(course)) for time in course.fires_at],
        }
        for course in COURSES
    ]


def _series(course: Course) -> list[Json]:
    runs = [
        _run(f"e{number}", p99, course.earlier_node, course.earlier_spec, 0, course.earlier_until)
        for number, p99 in enumerate(course.earlier)
    ]
    runs.append(_run("new", course.newest, "n", "h", _BEGINS, course.newest_until))
    return [each for run in runs for each in run]


def _run(name: str, p99: float, node: str, spec: str, first: int, last: int) -> list[Json]:
    run = f'run_namespace="a", run="{name}"'
    step = f'{run}, scenario="s", step=""'
    info = f'{run}, run_uid="{name}", node="{node}", spec_hash="{spec}"'
    values = {
        f"inferometer_run_info{{{info}}}": 1,
        f"inferometer_run_valid{{{step}}}": 1,
        f"inferometer_run_finished_timestamp_seconds{{{run}}}": first,
        f'inferometer_run_latency_seconds{{{step}, percentile="99"}}': p99,
    }
    before = f"_x{first} " if first else ""
    return [
        {"series": series, "values": f"{before}{value}x{last - first} stale"}
        for series, value in values.items()
    ]


def _at(course: Course, time: str, fired: Sequence[Json] = ()) -> Json:
    return {"eval_time": time, "alertname": ALERT, "exp_alerts": list(fired)}


def _fired(course: Course) -> list[Json]:
    named = {"run_namespace": "a", "run": "new", "run_uid": "new", "scenario": "s"}
    newest = f"{course.newest * 1e3:g}ms"
    return [
        {
            "exp_labels": named | {"node": "n", "spec_hash": "h", "severity": "warning"},
            "exp_annotations": {
                "summary": "The p99 latency of a/new is above that of all earlier runs of the same "
                "spec.",
                "description": f"In scenario s it is {newest} on node n: above all earlier ones "
                "there, and more than 10 % above their median.",
                "runbook": "docs/how-to/prometheus.md#inferometerlatencyregressed",
            },
        }
    ]
