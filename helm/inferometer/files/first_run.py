# ruff: noqa: INP001 - a script that stands in no package
"""A run from its creation to its end: `helm test` executes this in a pod.

python3 -c THIS NAMESPACE TIMEOUT_SECONDS RUN_AS_JSON: 0 once the run is Complete; else 1, and why.
"""

import json
import ssl
import sys
import time
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST = "kubernetes.default.svc"


class RefusedError(Exception):
    """The API server rejected a request."""


def call(method: str, path: str, body: str | None = None) -> dict[str, Any]:
    """Ask the API server; return the object that it answers with."""
    token = (ACCOUNT / "token").read_text(encoding="utf-8")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    connection = HTTPSConnection(HOST, timeout=10, context=trust)
    connection.request(
        method, f"/apis/inferometer.dev/v1alpha1/namespaces/{path}", body=body, headers=headers
    )
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    if not 200 <= answer.status < 300:
        raise RefusedError(f"{method} {path} was answered with {answer.status}: {text}")
    found: dict[str, Any] = json.loads(text)
    return found


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def conditions(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the run's conditions by type."""
    return {one["type"]: one for one in run.get("status", {}).get("conditions", [])}


def holds(run: dict[str, Any], condition: str) -> bool:
    """Return whether this condition is True."""
    return conditions(run).get(condition, {}).get("status") == "True"


def wait_for_run(path: str, timeout_seconds: float) -> dict[str, Any]:
    """Return the run once it is Finished, or as it is at the deadline; print its phases."""
    deadline = time.monotonic() + timeout_seconds
    printed = None
    while True:
        run = call("GET", path)
        phase = run.get("status", {}).get("phase")
        if phase != printed:
            printed = phase
            say(f"  {phase}")
        if holds(run, "Finished") or time.monotonic() > deadline:
            return run
        time.sleep(1)


def main(namespace: str, timeout_seconds: float, run: str) -> int:
    """Make the run, wait for its end, and delete it if it ended as it should."""
    made = call("POST", f"{namespace}/benchmarkruns", run)
    name = made["metadata"]["name"]
    path = f"{namespace}/benchmarkruns/{name}"
    say(f"BenchmarkRun {name} in namespace {namespace}:")
    ended = wait_for_run(path, timeout_seconds)
    if holds(ended, "Finished") and holds(ended, "Complete"):
        say(f"It is Complete: {conditions(ended)['Complete']['message']}")
        call("DELETE", path)
        return 0
    say(f"It was not Complete within {timeout_seconds:.0f} s. It is kept; look at it with")
    say(f"  kubectl describe benchmarkrun {name} --namespace {namespace}")
    for kind, one in conditions(ended).items():
        say(f"  {kind}={one['status']} {one['reason']}: {one['message']}")
    if not conditions(ended):
        say("  It has no conditions: does an operator serve this namespace, and does one lead?")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
    except (RefusedError, OSError) as error:
        say(f"The run could not be followed: {error}")
        sys.exit(1)
