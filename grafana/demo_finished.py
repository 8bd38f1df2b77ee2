"""Exposes the figures of finished local runs to a Prometheus, without an operator.

It sets the operator's own metrics from each result, as for a run in a cluster.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from typing_extensions import override

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_operator.wiring.metrics import exposition
from inferometer_operator.wiring.operator_stats import OperatorStats


def run_from_result(document: ResultDocument) -> dict[str, Any]:
    """Return the BenchmarkRun, with its status, that a cluster would have after this result."""
    namespace, name = run_labels(document.run)
    state, at = document.outcome.state, document.finished_at
    node = "" if document.environment is None else document.environment.node.hostname
    kinds = {"Finished": document.outcome.reason, state: document.outcome.reason}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": document.run_id,
            "creationTimestamp": document.started_at,
        },
        "spec": document.run.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": {
            "phase": state,
            "startTime": document.started_at,
            "completionTime": at,
            "nodes": [node] if node else [],
            "conditions": [
                {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}
                for kind, reason in kinds.items()
            ],
            "scenarios": [
                scenario_summary(each).model_dump(mode="json", by_alias=True, exclude_none=True)
                for each in document.scenarios
            ],
        },
    }


@contextmanager
def finished_runs() -> Iterator[tuple[OperatorStats, str]]:
    """Serve the operator's metrics on loopback; yield what they are made of, and HOST:PORT."""
    stats = OperatorStats()
    stats.is_leader = stats.runs_listed = True
    page = exposition(stats)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            """Say nothing: a scrape every few seconds is no news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield stats, f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
