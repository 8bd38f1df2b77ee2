"""Locust's web page for a fleet.

Its statistics are fed with the seconds that the session has merged. They are only displayed: Locust
keeps latencies in milliseconds and rates over ten seconds.
"""

import time
from typing import cast

import gevent  # type: ignore[import-untyped]  # has no types
from flask import Response, request
from gevent.pywsgi import WSGIServer  # type: ignore[import-untyped]  # has no types
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_RUNNING
from locust.stats import RequestStats, StatsEntry, stats_history
from locust.web import WebUI

from inferometer_loadgen.fleet.bridge_protocol import ShowSecond


class LocustWebPage:
    """Serves the page, which only displays: it can start and stop nothing."""

    def __init__(self, environment: Environment, host: str, port: int) -> None:
        self._environment = environment
        page = WebUI(environment, host, port, delayed_start=True)
        app = page.app
        if app is None:
            raise RuntimeError("Locust's web page has no application.")
        app.debug = False
        app.before_request(_reject_changes)
        server = WSGIServer((host, port), app, log=None, error_log=None)
        server.start()
        self.port: int = server.server_port
        """Port of the page."""
        if environment.runner is not None:
            gevent.spawn(stats_history, environment.runner)

    def show(self, second: ShowSecond) -> None:
        """Show what happened within a second."""
        environment = self._environment
        runner = environment.runner
        if runner is None:
            return
        runner.state = STATE_RUNNING if second.measuring else STATE_INIT
        if not second.counts and not second.failed:
            return
        stats = environment.stats
        entry = _entry(second, stats)
        key = (second.name, second.protocol)
        if not stats.entries:
            stats.total.start_time = entry.start_time
        if key not in stats.entries:
            stats.entries[key] = StatsEntry(stats, *key, use_response_times_cache=True)
            stats.entries[key].start_time = entry.start_time
        stats.entries[key].extend(entry)
        stats.total.extend(entry)


def _entry(second: ShowSecond, stats: RequestStats) -> StatsEntry:
    """Return a second as Locust's entry, which counts failed requests among all."""
    entry = StatsEntry(stats, second.name, second.protocol)
    now = time.time()
    entry.start_time = now - 1
    answered = sum(second.counts)
    entry.num_requests = answered + second.failed
    entry.num_none_requests = entry.num_failures = second.failed
    entry.last_request_timestamp = now
    entry.num_reqs_per_sec[int(now)] = answered + second.failed
    if second.failed:
        entry.num_fail_per_sec[int(now)] = second.failed
    # Locust's types require whole milliseconds; it computes and displays fractions as well.
    times = cast("list[int]", second.milliseconds)
    for milliseconds, count in zip(times, second.counts, strict=True):
        entry.response_times[milliseconds] += count
        entry.total_response_time += milliseconds * count
    if answered:
        entry.min_response_time = min(times)
        entry.max_response_time = max(times)
    return entry


def _reject_changes() -> Response | None:
    if request.method in {"GET", "HEAD"} and request.path not in {"/stop", "/stats/reset"}:
        return None
    return Response(
        "This page shows a run of Inferometer; it starts and stops nothing. End the run where it "
        "was started.\n",
        status=403,
        content_type="text/plain",
    )
