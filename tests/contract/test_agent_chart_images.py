"""The agent chart's image removal is off by default, and has no more rights than it needs."""

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest
import yaml

from inferometer_api.nodes.image_removal import REMOVAL_AUDIENCE, REMOVAL_PORT, REMOVAL_SUFFIX
from inferometer_operator.settings import Settings
from inferometer_telemetry.images.__main__ import parser
from support.agent_chart import AGENTS, agents
from support.chart import Json, check_named, of_kind, rendered

_NAME = f"inferometer-agent{REMOVAL_SUFFIX}"
_OPERATORS = [{"namespace": "bench", "serviceAccount": "inferometer-operator"}]
VALUES: Json = {
    "coldStart": {
        "allowImageRemoval": True,
        "runtimeSocket": "/run/k3s/containerd/containerd.sock",
    },
    "operators": _OPERATORS,
    "images": {"registry": "r.example/", "tag": "2.0"},
}


def _named(made: list[Json], kind: str, name: str = _NAME) -> Json:
    (found,) = (each for each in of_kind(made, kind) if each["metadata"]["name"] == name)
    return found


def test_it_is_off_by_default() -> None:
    """Without the value, no object is there and no pod has the socket of the runtime."""
    made = agents({"operators": _OPERATORS})
    assert not [each for each in made if each["metadata"]["name"].startswith(_NAME)]
    assert "containerd.sock" not in str(made)


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_its_objects_are_valid(version: str) -> None:
    """Kubernetes' own schemas take each object, and the remover takes its command line."""
    made = agents(VALUES)
    for each in made:
        kubernetes_validate.validate(each, version, strict=True)
    (container,) = _named(made, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = parser().parse_args(container["args"])
    assert options.port == REMOVAL_PORT
    assert str(options.runtime_socket) == "/runtime/containerd.sock"
    assert options.operator == ["system:serviceaccount:bench:inferometer-operator"]
    assert options.repository == [
        "r.example/inferometer-serving",
        "r.example/inferometer-serving-gpu",
    ]


def test_it_has_the_socket_and_no_other_right_on_the_node() -> None:
    """Root without capabilities, with the folder of the socket as its only folder of the host."""
    pod = _named(agents(VALUES), "DaemonSet")["spec"]["template"]["spec"]
    hosts = [each["hostPath"]["path"] for each in pod["volumes"]]
    assert hosts == ["/run/k3s/containerd"]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [
        {"name": "runtime", "mountPath": "/runtime", "readOnly": True}
    ]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert not {"hostNetwork", "hostIPC", "hostPID"} & set(pod)


def test_it_may_ask_who_a_caller_is_and_nothing_else() -> None:
    """An account of its own, which the agents do not share."""
    made = agents(VALUES)
    (role,) = of_kind(made, "ClusterRole")
    assert role["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ]
    (binding,) = of_kind(made, "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": _NAME, "namespace": AGENTS}]
    for each in of_kind(made, "DaemonSet"):
        pod = each["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"] == _NAME) is (each["metadata"]["name"] == _NAME)


def test_only_operators_reach_it() -> None:
    """A network policy names the operators' pods in their namespaces."""
    rules = _named(agents(VALUES), "NetworkPolicy")["spec"]["ingress"]
    (peer,) = rules[0]["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "bench"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


def test_the_operators_chart_connects_to_it() -> None:
    """With agent.imageRemoval the operator gets a token for it, and may reach its pods."""
    made = rendered({"agent": {"namespace": AGENTS, "imageRemoval": True}})
    settings = next(each for each in of_kind(made, "ConfigMap") if "settings.yaml" in each["data"])
    found = Settings.model_validate(yaml.safe_load(settings["data"]["settings.yaml"])).agent
    assert found is not None
    folder = "/etc/inferometer-images-token"
    assert found.image_removal_token_file == f"{folder}/token"
    (deployment,) = of_kind(made, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "images-token")
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == REMOVAL_AUDIENCE
    policy = _named(made, "NetworkPolicy", "inferometer-operator")
    (rule,) = (
        each
        for each in policy["spec"]["egress"]
        if each["ports"] == [{"protocol": "TCP", "port": REMOVAL_PORT}]
    )
    labels = _named(agents(VALUES), "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert rule["to"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    assert "images-token" not in str(rendered({"agent": {"namespace": AGENTS}}))


def test_it_is_refused_without_operators() -> None:
    """Otherwise it would remove images for no one."""
    with pytest.raises(ValueError, match=r"coldStart\.allowImageRemoval needs `operators`"):
        agents({"coldStart": {"allowImageRemoval": True}})


@pytest.mark.parametrize(
    ("values", "place", "word"),
    [
        ({"allowImageRemoval": "yes"}, "/coldStart/allowImageRemoval", "boolean"),
        ({"runtimeSocket": "containerd.sock"}, "/coldStart/runtimeSocket", "pattern"),
        ({"repositories": []}, "/coldStart/repositories", "minItems"),
        ({"images": []}, "/coldStart", "images"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: Json, place: str, word: str) -> None:
    """Helm names the place of a value that cannot be right, and what is wrong."""
    with pytest.raises(ValueError, match="values don't meet") as refused:
        agents({"coldStart": values})
    check_named(str(refused.value), place, word)
