"""The agent chart's broker of GPU weights is off by default, and has no rights but its folder."""

from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest

from inferometer_serving.gpu.broker.__main__ import _parser
from support.agent_chart import AGENTS, agents, agents_notes
from support.chart import Json, of_kind

VALUES: Json = {
    "gpuWeights": {"enabled": True, "folder": "/run/weights", "quota": "8Gi", "users": [10001, 7]},
    "gpuNodes": {"runtimeClass": "nvidia"},
    "images": {"registry": "r.example", "tag": "2.0"},
}
_NAME = "inferometer-agent-gpu-weights"


def _pod(values: Json) -> Json:
    (made,) = (
        each for each in of_kind(agents(values), "DaemonSet") if each["metadata"]["name"] == _NAME
    )
    spec: Json = made["spec"]["template"]["spec"]
    return spec


def test_it_is_off_by_default() -> None:
    """Without gpuWeights.enabled, the chart has no trace of it."""
    assert not [each for each in agents() if "gpu-weights" in each["metadata"]["name"]]


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_its_objects_are_valid(version: str) -> None:
    """Kubernetes' own schemas take each object, and the broker takes its command line."""
    for each in agents(VALUES):
        kubernetes_validate.validate(each, version, strict=True)
    (container,) = _pod(VALUES)["containers"]
    options = _parser().parse_args(container["args"])
    assert (options.quota_bytes, options.users) == (8 << 30, [10001, 7])
    assert options.gpu is None
    assert container["image"] == "r.example/inferometer-serving-gpu:2.0"


def test_it_runs_on_nodes_with_gpus_and_has_no_rights_but_its_folder() -> None:
    """It has no token, no capability, no network, and sees all GPUs."""
    spec = _pod(VALUES)
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostIPC", "hostPID"} & set(spec)
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    (volume,) = spec["volumes"]
    assert volume["hostPath"]["path"] == "/run/weights"
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["key"] == "nvidia.com/gpu.present"
    (policy,) = (
        each
        for each in of_kind(agents(VALUES), "NetworkPolicy")
        if each["metadata"]["name"] == _NAME
    )
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["egress"] == []


def test_notes_say_how_servers_use_it(tmp_path: Path) -> None:
    """Runs do not mount its folder: who enables it has to."""
    notes = agents_notes(VALUES, tmp_path / "enabled")
    assert f"rollout status daemonset/{_NAME} --namespace {AGENTS}" in notes
    assert "mounts the folder /run/weights of the node" in notes
    assert "--weight-broker" in notes
    assert "--weight-broker" not in agents_notes({}, tmp_path / "default")
