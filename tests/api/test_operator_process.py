"""The operator's process starts, idles, stops, and uses exactly its rights."""

import json
import subprocess
import sys
import threading
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from images.catalogue import ROOT
from images.supply_chain import write_bills
from packaging.utils import canonicalize_name

from inferometer_api.plan import rights
from support.cluster.audit import Request, requests
from support.fake_kubelet import ready_server
from support.fake_pod import Pod
from support.stage import Stage
from support.suite_stage import apply_suite, finished_suite, short_suite
from support.waiting import wait_for_event

_MOST_RESIDENT_KIB = 96 << 10
_RARELY_USED = {
    ("apps", "deployments", "get"),
    ("batch", "jobs", "get"),
    ("", "configmaps", "get"),
    ("", "events", "list"),
    ("inferometer.dev", "benchmarkruns", "patch"),
    *(("inferometer.dev", "nodebenchmarks", verb) for verb in ("delete", "get")),
    ("inferometer.dev", "nodebenchmarks/status", "patch"),
    *(
        ("inferometer.dev", "benchmarksuites", verb)
        for verb in ("create", "delete", "get", "patch")
    ),
}
"""Children are read from the watches. One is read by itself if the answer to its creation was lost,
or its deletion met a conflict, and Events once something has hung for 3 s. Suites and their runs
are cancelled, and executions created and deleted, in tests/api/test_suite_faults.py, and
NodeBenchmarks in tests/api/test_node_benchmarks.py."""
_ALONE: dict[str, str] = {}
"""With an environment of its own, even an empty one, it is no fork of another process."""
_ENDED_WHILE_IT_IMPORTS = """
import os, signal, sys


class Ends:
    def find_spec(self, name, *_):
        if name == "inferometer_operator.command":
            os.kill(os.getpid(), signal.SIGTERM)


sys.meta_path.insert(0, Ends())
from inferometer_operator.__main__ import main

sys.exit(main())
"""


def _with_packages_of_image(name: str, folder: Path) -> dict[str, str]:
    """Return an environment in which Python finds the packages of an image, and no others."""
    (bill,) = write_bills(ROOT, [name], folder)
    there = {canonicalize_name(each["name"]) for each in json.loads(bill.read_text())["components"]}
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if not module.startswith("inferometer")
        and there.isdisjoint(map(canonicalize_name, packages))
    ]
    hide = f"import sys\nsys.modules.update(dict.fromkeys({hidden!r}))\n"
    (folder / "sitecustomize.py").write_text(hide)
    return {"PYTHONPATH": str(folder)}


def test_an_idle_operator_requests_only_its_lease(stage: Stage, tmp_path: Path) -> None:
    """Neither runs that are finished nor those that are held cost a request."""
    own = _with_packages_of_image("inferometer-operator", tmp_path / "image")
    operator = stage.start_operator("--lease-seconds", "60", environment=own)
    stage.apply()
    stage.finished()
    stage.wait_for(
        lambda: not any("server" in each or "load" in each for each in stage.children()),
        "the clean-up",
    )
    stage.apply("held", suspend=True)
    stage.wait("Accepted", "Suspended", name="held")
    quiet_from = [stage.control_plane.audit_log.stat().st_size]

    def lease_requests() -> list[str]:
        found = requests(stage.control_plane.audit_log, stage.user, quiet_from[0])
        return [f"{each.verb} {each.resource}" for each in found]

    # Requests that were in flight at the last status write may still arrive.
    stage.wait_for(lambda: "update leases" in lease_requests(), "a renewal")
    quiet_from[0] = stage.control_plane.audit_log.stat().st_size
    stage.wait_for(lambda: "update leases" in lease_requests(), "the next renewal")
    assert set(lease_requests()) == {"get leases", "update leases"}
    status = Path(f"/proc/{operator.pid}/status").read_text()
    resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    assert int(resident) <= _MOST_RESIDENT_KIB


def test_an_operator_ends_on_sigterm(stage: Stage) -> None:
    """With 0, at once, and its Lease is free."""
    operator = stage.start_operator("--lease-seconds", "60", environment=_ALONE)
    assert operator.ask_to_end() == 0
    lease = stage.api.found("Lease", stage.namespace, "inferometer-operator")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert operator.log_events("stopping")


def test_an_operator_hears_sigterm_while_it_imports() -> None:
    """As a container's first process it would else go on, perhaps lead, and be killed with it."""
    command = [sys.executable, "-c", _ENDED_WHILE_IT_IMPORTS]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_health_and_metrics_are_served(stage: Stage) -> None:
    """Alive is who ticks, ready who hears every watch."""
    operator = stage.start_operator()
    code, alive = operator.health("/healthz")
    assert (code, alive[:15]) == (200, "The loop ticked")
    code, ready = operator.health("/readyz")
    assert code == 200
    assert all(kind in ready for kind in ("BenchmarkRun", "Job", "Pod", "ConfigMap", "Service"))
    code, metrics = operator.health("/metrics")
    assert code == 200
    assert "process_resident_memory_bytes" in metrics


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "Cannot read the settings file"),
        ("a: [", "Cannot read the settings file"),
        ("[]", "not valid"),
        ("images: {serving: a, servingGpu: b, loadgen: c}\nmaxConcurrentRuns: 0", "maxConcurrent"),
        ("images: {serving: a, servingGpu: b, loadgen: c}", "namespace of the Lease is not set"),
        ("namespace: a\nimages: {serving: a, servingGpu: b, loadgen: c}", "service account"),
    ],
    ids=["none", "no yaml", "list", "zero", "lease", "outside"],
)
def test_a_wrong_start_is_refused_with_a_message(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    """With exit code 2."""
    file = tmp_path / "settings.yaml"
    if text is not None:
        file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "inferometer_operator", "--settings", file, "--health-port", "0"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "HOME": str(tmp_path)},
    )
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_operator_uses_its_rights_and_no_others(stage: Stage) -> None:
    """The audit log has no verb that is not listed, and none was denied."""
    kubectl = stage.control_plane.kubectl
    claim = {
        "spec": {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    for kind, name, body in (
        ("PersistentVolumeClaim", "models", claim),
        ("Secret", "headers", {}),
        ("Service", "mine", {"spec": {"selector": {"app": "mine"}, "ports": [{"port": 80}]}}),
    ):
        labels = {"inferometer.dev/allow-use": "headers" if kind == "Secret" else "true"}
        named = {"metadata": {"name": name, "labels": labels}, **body}
        stage.api.create(kind, stage.namespace, named)

    _make_older_server(stage)
    healed = threading.Event()

    def flapping(pod: Pod) -> None:
        pod.bind()
        for _ in range(2):
            pod.waiting("ErrImagePull", "not found")
            stage.wait("ServerReady", "ImageNotPulled", value="False")
            pod.start(ready=False)
            stage.wait_for(
                lambda: stage.condition("ServerReady")["reason"] != "ImageNotPulled", "healing"
            )
        pod.start()
        healed.set()

    def patient(pod: Pod) -> None:
        wait_for_event(healed, "the start of the server")
        if pod.index > 0:
            pod.bind()
            pod.start()
        else:
            stage.loads.measure(pod)

    stage.play("server", flapping)
    stage.play("loadgen", patient)
    stage.start_operator("--lease-seconds", "60", allowSecrets=True)
    stage.apply(model={"uri": "pvc://models/a.onnx"}, retention={"ttlSecondsAfterFinished": 1})
    stage.wait_for(
        lambda: stage.api.found("BenchmarkRun", stage.namespace, "a-run") is None,
        lambda: json.dumps(stage.status()),
    )
    stage.apply(
        "external",
        model={"name": "m"},
        server={"runtime": "External", "external": {"service": {"name": "mine", "port": 80}}},
    )
    stage.finished("external")
    stage.play("server", ready_server)
    stage.apply("secret", load={"headersSecret": "headers", "workers": 2})
    stage.finished("secret")
    apply_suite(stage, short_suite(axes=[]))
    finished_suite(stage)

    def operator_requests() -> list[Request]:
        found = requests(stage.control_plane.audit_log, stage.user)
        return [each for each in found if each.group != "authorization.k8s.io"]

    renewal = ("leases", "update")
    stage.wait_for(
        lambda: renewal in {(each.resource, each.verb) for each in operator_requests()}, "a renewal"
    )
    assert [each for each in operator_requests() if each.code == 403] == []
    used = {(each.group, each.resource, each.verb) for each in operator_requests()}
    granted = {
        (right.group, right.resource, verb)
        for right in (*rights.RUNS, *rights.SECRETS, *rights.LEASE)
        for verb in right.verbs
    }
    assert used <= granted
    assert granted - used <= _RARELY_USED
    assert kubectl("-n", stage.namespace, "get", "bmr")


def _make_older_server(stage: Stage) -> None:
    """Create a Deployment as an operator before server Jobs did, for a run that is held."""
    owner = stage.apply("older", suspend=True)["metadata"]
    labels = {
        "app.kubernetes.io/managed-by": "inferometer-operator",
        "inferometer.dev/run-uid": owner["uid"],
    }
    reference = {
        "apiVersion": "inferometer.dev/v1alpha1", "kind": "BenchmarkRun", "controller": True,
        "name": "older", "uid": owner["uid"],
    }  # fmt: skip
    pod = {"containers": [{"name": "server", "image": "registry.test/serving:1"}]}
    body = {
        "metadata": {"name": "older-server", "labels": labels, "ownerReferences": [reference]},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "older"}},
            "template": {"metadata": {"labels": {"app": "older"}}, "spec": pod},
        },
    }
    stage.api.create("Deployment", stage.namespace, body)
