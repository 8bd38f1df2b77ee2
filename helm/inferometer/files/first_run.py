"""Does a run that is made now end as it should? `helm test` runs this in a pod.

python3 -c THIS NAMESPACE TIMEOUT_SECONDS RUN_AS_JSON: 0 once the run is Complete; else 1, and why.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc/apis/inferometer.dev/v1alpha1/namespaces"


def call(method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """Ask the API server; return the object that it answers with."""
    token = (ACCOUNT / "token").read_text(encoding="utf-8")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{API}/{path}", body, headers, method=method)
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def conditions(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the run's conditions by type."""
    return {one["type"]: one for one in run.get("status", {}).get("conditions", [])}


def wait(path: str, timeout_seconds: float) -> dict[str, Any]:
    """Return the run once it is Finished, or as it is when the time is over; tell its phases."""
    deadline = time.monotonic() + timeout_seconds
    phase = None
    while True:
        run = call("GET", path)
        if (now := run.get("status", {}).get("phase")) != phase:
            phase = now
            print(f"  {phase}", flush=True)
        finished = conditions(run).get("Finished", {}).get("status") == "True"
        if finished or time.monotonic() > deadline:
            return run
        time.sleep(1)


def main(namespace: str, timeout_seconds: float, run: bytes) -> int:
    """Make the run, wait for its end, and delete it if it ended as it should."""
    try:
        name = call("POST", f"{namespace}/benchmarkruns", run)["metadata"]["name"]
        path = f"{namespace}/benchmarkruns/{name}"
        print(f"BenchmarkRun {name} in namespace {namespace}:", flush=True)
        run_now = wait(path, timeout_seconds)
        found = conditions(run_now)
        if found.get("Complete", {}).get("status") == "True" and "Finished" in found:
            print(f"It is Complete: {found['Complete']['message']}")
            call("DELETE", path)
            return 0
    except urllib.error.HTTPError as error:
        print(f"The API server refused: {error} {error.read().decode(errors='replace')}")
        return 1
    print(f"It was not Complete within {timeout_seconds:.0f} s. It is kept:")
    print(f"  kubectl describe benchmarkrun {name} --namespace {namespace}")
    for kind, one in found.items():
        print(f"  {kind}={one['status']} {one['reason']}: {one['message']}")
    if not found:
        print("  It has no conditions: does an operator serve this namespace, and does one lead?")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3].encode()))
