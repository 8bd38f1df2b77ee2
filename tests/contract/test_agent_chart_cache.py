"""The agent chart's model cache is off by default, and has no more rights than mounts need."""

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest

from inferometer_api.plan.cluster_objects import CACHE_DRIVER
from inferometer_fetch.cache.__main__ import _parser
from inferometer_telemetry.options import options
from support.agent_chart import agent_pods, agents
from support.chart import Json, check_named, of_kind

VALUES: Json = {
    "modelCache": {"enabled": True, "kubeletFolder": "/kube", "folder": "/disk/models"},
    "images": {"registry": "r.example", "tag": "2.0"},
}
_NAME = "inferometer-agent-model-cache"


def _daemon_set(values: Json) -> Json:
    (made,) = (
        each for each in of_kind(agents(values), "DaemonSet") if each["metadata"]["name"] == _NAME
    )
    return made


def test_it_is_off_by_default() -> None:
    """Without modelCache.enabled, the chart has no trace of it."""
    made = agents()
    assert of_kind(made, "CSIDriver") == []
    assert not [each for each in made if "model-cache" in each["metadata"]["name"]]
    for _, spec in agent_pods(made):
        (container,) = spec["containers"]
        assert options(container["args"]).model_cache_statistics is None


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_its_objects_are_valid(version: str) -> None:
    """Kubernetes' own schemas take each object, and the plugin takes its command line."""
    for each in agents(VALUES):
        kubernetes_validate.validate(each, version, strict=True)
    (container,) = _daemon_set(VALUES)["spec"]["template"]["spec"]["containers"]
    options = _parser().parse_args(container["args"])
    assert options.quota_bytes == 50 << 30
    assert str(options.kubelet_socket) == f"/kube/plugins/{CACHE_DRIVER}/csi.sock"
    assert container["image"] == "r.example/inferometer-serving:2.0"


def test_the_driver_serves_inline_volumes_of_restricted_pods() -> None:
    """The kubelet names the pod's namespace at each mount; only ephemeral volumes are served."""
    (driver,) = of_kind(agents(VALUES), "CSIDriver")
    assert driver["metadata"]["name"] == CACHE_DRIVER
    label = "security.kubernetes.io/csi-ephemeral-volume-profile"
    assert driver["metadata"]["labels"][label] == "restricted"
    assert driver["spec"] == {
        "attachRequired": False,
        "podInfoOnMount": True,
        "fsGroupPolicy": "None",
        "volumeLifecycleModes": ["Ephemeral"],
    }


def test_it_has_no_rights_in_the_cluster() -> None:
    """It may not read Secrets: it has no token, and the chart gives its account no role."""
    spec = _daemon_set(VALUES)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostIPC", "hostPID"} & set(spec)
    made = agents(VALUES)
    assert not [each for each in made if each["kind"] in {"Role", "ClusterRole", "RoleBinding"}]
    hosts = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"]}
    assert hosts == {
        "plugin": f"/kube/plugins/{CACHE_DRIVER}",
        "registration": "/kube/plugins_registry",
        "pods": "/kube/pods",
        "cache": "/disk/models",
    }
    (container,) = spec["containers"]
    propagated = [each["name"] for each in container["volumeMounts"] if "mountPropagation" in each]
    assert propagated == ["pods"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_agents_read_its_counters_and_nothing_else_of_it() -> None:
    """Only the folder of the counters is mounted, read-only, where the plugin writes them."""
    (plugin,) = _daemon_set(VALUES)["spec"]["template"]["spec"]["containers"]
    written = _parser().parse_args(plugin["args"]).statistics
    assert str(written) == "/cache/statistics/statistics.json"
    for name, spec in agent_pods(agents(VALUES)):
        if name == _NAME:
            continue
        (container,) = spec["containers"]
        read = options(container["args"]).model_cache_statistics
        assert read is not None
        assert read.name == written.name
        (volume,) = (each for each in spec["volumes"] if each["name"] == "model-cache")
        path = "/disk/models/statistics"
        assert volume["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
        (mount,) = (each for each in container["volumeMounts"] if each["name"] == "model-cache")
        assert mount["mountPath"] == str(read.parent)
        assert mount["readOnly"] is True


@pytest.mark.parametrize(
    ("values", "place", "word"),
    [
        ({"quota": "many"}, "/modelCache/quota", "pattern"),
        ({"quota": "0"}, "/modelCache/quota", "pattern"),
        ({"eviction": "LFU"}, "/modelCache/eviction", "LRU"),
        ({"folder": "models"}, "/modelCache/folder", "pattern"),
        ({"privileged": True}, "/modelCache", "privileged"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: Json, place: str, word: str) -> None:
    """Helm names the place of a value that cannot be right, and what is wrong."""
    with pytest.raises(ValueError, match="values don't meet") as refused:
        agents({"modelCache": values})
    check_named(str(refused.value), place, word)
