"""Results name the image of each runtime's server by digest, whatever else is in its pod."""

import re
from typing import Any

import pytest

from inferometer_api.runtimes.table import RUNTIMES
from inferometer_operator.reconcile.pods import image_digest
from support.manifests import server_pod
from support.runs import a_run

_DIGEST = f"sha256:{'d' * 64}"
_IMAGES = {
    "OnnxRuntime": "r/serving",
    "OpenVino": "r/serving",
    "KServe": "r/serving",
    "Triton": "nvcr.io/nvidia/tritonserver",
    "MLServer": "inferometer-mlserver",
    "Custom": "r/custom",
}


def _statuses(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statuses of containers as the kubelet writes them: by name, with digests."""
    statuses = (
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": f"{re.split('[:@]', each['image'])[0]}@{_DIGEST}",
        }
        for each in containers
    )
    return sorted(statuses, key=lambda each: str(each["name"]))


def test_every_runtime_that_starts_a_server_is_listed() -> None:
    """A new one gets its row."""
    launched = {name for name, each in RUNTIMES.items() if each.launch is not None}
    assert launched == _IMAGES.keys()


@pytest.mark.parametrize("injected", ["a-proxy", "istio-proxy", "zz-agent"])
@pytest.mark.parametrize(("runtime", "image"), _IMAGES.items())
def test_the_image_of_the_server_is_named_by_digest(
    runtime: str, image: str, injected: str
) -> None:
    """Neither the fetcher's nor that of an injected container, which the kubelet may list first."""
    custom = {"custom": {"name": "a"}} if runtime == "Custom" else {}
    pod = server_pod(a_run(server={"runtime": runtime, **custom}))
    sidecar = {"name": injected, "image": "r/sidecar:1"}
    status = {
        "initContainerStatuses": _statuses(pod["initContainers"]),
        "containerStatuses": _statuses([*pod["containers"], sidecar]),
    }
    assert image_digest({"status": status}).partition("@") == (image, "@", _DIGEST)
