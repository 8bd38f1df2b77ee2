"""Launched servers of others on real nodes: MLServer by its image, Custom by the admin's entry."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.cluster.stack_images import MLSERVER, digest_of, mlserver_image
from support.node_runs import condition, make_run, run_result, status, wait_for
from support.operator_installed import operator_installed

_SERVING = "docker.io/library/inferometer-serving"
_RESOURCES = {"resources": {"cpu": "500m", "memory": "1Gi"}}
# A server that sends a span of each sampled request, to where OpenTelemetry's variables say. The
# chart replaces words in braces, so the program has none.
_WITH_SPANS = """
import json, os, sys, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]

def send(traceparent, began, ended):
    _, trace, parent, _ = traceparent.split("-")
    span = dict(
        traceId=trace, parentSpanId=parent, spanId=os.urandom(8).hex(), name="predict",
        startTimeUnixNano=str(began), endTimeUnixNano=str(ended),
    )
    name = dict(key="service.name", value=dict(stringValue="theirs"))
    group = dict(resource=dict(attributes=[name]), scopeSpans=[dict(spans=[span])])
    body = json.dumps(dict(resourceSpans=[group])).encode()
    kind = dict([("Content-Type", "application/json")])
    urllib.request.urlopen(urllib.request.Request(URL, body, kind), timeout=5).read()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self):
        tensor = dict(datatype="FP32", shape=[-1, 4])
        self.answer(dict(
            name=sys.argv[2], version="1", versions=["1"], platform="theirs", extensions=[],
            inputs=[dict(tensor, name="x")], outputs=[dict(tensor, name="y")],
        ))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        began = time.time_ns()
        time.sleep(0.02)
        ended = time.time_ns()
        self.answer(dict(model_name=sys.argv[2], outputs=[dict(request["inputs"][0], name="y")]))
        if self.headers["traceparent"]:
            send(self.headers["traceparent"], began, ended)

ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""
# A word of a command has a limited length.
_PIECES = [_WITH_SPANS[at : at + 500] for at in range(0, len(_WITH_SPANS), 500)]
_JOINED = "import sys; exec(''.join(sys.argv[3:]))"


@pytest.fixture(scope="module")
def cluster(nodes_can_run: None) -> Iterator[Cluster]:
    """Run a cluster whose nodes have the images of the servers."""
    made = Cluster(f"tests-stacks-{os.getpid()}", images=images())
    try:
        made.import_image(mlserver_image())
        (serving,) = images(["inferometer-serving"])
        made.import_image(serving, by_digest=_SERVING)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator that knows MLServer's image, and allows one server by its digest."""
    (serving,) = images(["inferometer-serving"])
    command = ["python3", "-m", "inferometer_serving", "--host", "0.0.0.0"]  # noqa: S104 - a pod's
    arguments = {
        "--model": "{modelPath}",
        "--model-name": "{modelName}",
        "--threads": "{threads}",
        "--http-port": "{httpPort}",
        "--grpc-port": "{grpcPort}",
    }
    values: dict[str, Any] = {
        "images": {"servers": {"mlserver": MLSERVER}},
        "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
        "allowedServers": {
            "theirs": {
                "image": f"{_SERVING}@{digest_of(serving)}",
                "command": [*command, *(word for pair in arguments.items() for word in pair)],
                "httpPort": 9000,
                "grpcPort": 9001,
            },
            "with-spans": {
                "image": f"{_SERVING}@{digest_of(serving)}",
                "command": ["python3", "-c", _JOINED, "{httpPort}", "{modelName}", *_PIECES],
                "httpPort": 9000,
            },
        },
    }
    with operator_installed(cluster, "stacks", values) as name:
        yield name


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
@pytest.mark.parametrize(
    "server",
    [
        {"runtime": "MLServer"},
        {"runtime": "Custom", "custom": {"name": "theirs"}},
    ],
    ids=lambda server: server["runtime"],
)
def test_a_launched_server_is_measured(
    cluster: Cluster, namespace: str, server: dict[str, Any], protocol: str
) -> None:
    """The restricted pod starts, answers, and is measured without errors."""
    run = f"{server['runtime']}-{protocol}".lower()
    make_run(cluster, namespace, run, server=server | _RESOURCES, load={"protocol": protocol})
    wait_for(cluster, namespace, run, "Complete")
    (scenario,) = status(cluster, namespace, run)["scenarios"]
    assert scenario["name"] == "one"
    assert condition(cluster, namespace, run, "Complete")["reason"] == "Measured"
    assert not any("error" in each.lower() for each in scenario.get("reasons", ()))


def test_spans_of_a_server_of_others_join_the_timeline(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Its pod finds the load generator's receiver by the Service of the run."""
    make_run(
        *(cluster, namespace, "with-spans"),
        server={"runtime": "Custom", "custom": {"name": "with-spans"}, **_RESOURCES},
        load={"tensors": "Json", "tracing": {"sampleEvery": 2, "receiverPort": 4318}},
    )
    wait_for(cluster, namespace, "with-spans", "Complete")
    found = run_result(cluster, namespace, "with-spans", tmp_path).scenarios[0].steps[0].tracing
    assert found is not None
    assert found.joined == found.sampled > 5, found.notes
    parts = {f"{each.service} {each.name}": each.median_nanoseconds for each in found.parts}
    assert parts["theirs predict"] >= 20_000_000
    assert {"wire request", "wire reply"} <= parts.keys()
    (clock,) = found.clocks
    assert clock.error_nanoseconds > 0, "the offset of another pod's clock is estimated"


def test_a_server_that_the_admin_does_not_allow_is_refused(
    cluster: Cluster, namespace: str
) -> None:
    """The condition lists what is allowed."""
    server = {"runtime": "Custom", "custom": {"name": "mine"}}
    make_run(cluster, namespace, "mine", server=server)
    wait_for(cluster, namespace, "mine", "Failed")
    accepted = condition(cluster, namespace, "mine", "Accepted")
    assert accepted["reason"] == "NotAllowed"
    assert "allowedServers: theirs, with-spans" in accepted["message"]
