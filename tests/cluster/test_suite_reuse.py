"""A suite on a real node whose cells another suite has measured: they are not measured again."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from support.chart import Json
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.cluster.stack_images import digest_of
from support.operator_installed import operator_installed
from support.results_installed import NAME, SLOW_SECONDS, install_service, service_namespace
from support.suites import two_by_two
from support.waiting import wait_until

_IMAGES = ("inferometer-serving", "inferometer-loadgen")


@pytest.fixture
def served(cluster: Cluster) -> Iterator[str]:
    """Install service and operator; the nodes show the digests of the images of runs."""
    digests = {}
    for name in _IMAGES:
        (archive,) = images([name])
        cluster.import_image(archive, by_digest=f"docker.io/library/{name}")
        digests[name.removeprefix("inferometer-")] = digest_of(archive)
    with ExitStack() as stack:
        service = stack.enter_context(service_namespace(cluster))
        values: dict[str, Any] = {
            # A load generator that is throttled makes its run INVALID.
            "load": {"resources": {"cpu": "500m", "memory": "256Mi"}},
            "readNodes": True,
            "results": {"url": f"https://{NAME}.{service}.svc"},
            # One by its digest, the other by its tag.
            "images": {"serving": {"digest": digests["serving"]}},
        }
        namespace = stack.enter_context(operator_installed(cluster, "reuse", values))
        install_service(cluster, service, namespace)
        yield namespace


def test_cells_that_are_measured_already_are_reused(
    cluster: Cluster, served: str, require_quiet: Callable[[], None]
) -> None:
    """Spec, model, images and node of the stored results are equal to those of the new runs."""

    def status(name: str) -> Json:
        found: Json = cluster.get("bms", name, "--namespace", served).get("status", {})
        return found

    def finished(name: str, **spec: Any) -> Json:
        suite = two_by_two()
        suite["metadata"]["name"] = name
        suite["spec"] |= spec
        cluster.kubectl("create", "--namespace", served, "-f", "-", stdin=json.dumps(suite))
        wait_until(
            lambda: status(name).get("phase") in {"Complete", "Failed"},
            f"the end of {name}",
            deadline_seconds=SLOW_SECONDS,
        )
        return status(name)

    first = finished("first")

    def stored() -> set[str]:
        """Return the IDs of the results of the first suite, as far as they are stored."""
        runs = cluster.get("bmr", "--namespace", served)["items"]
        results = (
            (each["status"].get("result", {}).get("stored") or {}).get("id")
            for each in runs
            if each["metadata"]["labels"]["inferometer.dev/suite"] == "first"
        )
        return {each for each in results if each}

    # A result is delivered after its run is over, and after the suite is.
    wait_until(lambda: len(stored()) == 4, "four results", deadline_seconds=SLOW_SECONDS)
    # The operator knows the API server's time to half a second.
    stored_at = time.monotonic()
    wait_until(lambda: time.monotonic() > stored_at + 1.5, "a time after the deliveries")
    valid = first["states"].count("V")
    if valid == 0:
        found = cluster.get("bmr", "--namespace", served)["items"]
        why = [reason for run in found for reason in _reasons(run)]
        require_quiet()
        pytest.fail(f"no run is VALID: {why}")
    second = finished("second", reuse=True)
    assert second["states"].count("R") == valid, json.dumps(second)
    runs = cluster.get("bmr", "--namespace", served)["items"]
    assert {each["result"] for each in second["reused"]} <= stored()
    assert len(runs) == 4 + 4 - valid


def _reasons(run: Json) -> list[str]:
    """Return why the scenarios of a run are INVALID."""
    return [why for each in run["status"].get("scenarios", ()) for why in each.get("reasons", ())]
