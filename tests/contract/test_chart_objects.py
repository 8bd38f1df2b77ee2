"""Whatever its values are, the chart makes objects that Kubernetes takes, and pods it restricts."""

import functools
import json
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest
import yaml
from docgen.files import CHECKOUT

from inferometer_api.crd import NAME, NODE_BENCHMARK_NAME, SUITE_NAME
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.settings import Settings
from support.chart import CHART, NAMESPACE, Json, helm, notes, of_kind, pod_specs, settings_text
from support.chart import rendered as rendered_anew

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
CEILINGS: Json = {
    "activeDeadlineSeconds": 2592000,
    "ttlSecondsAfterFinished": 2592000,
    "replicas": 8,
    "workers": 50,
    "connections": 5000,
    "cpu": 64,
    "memory": "256Gi",
    "gpus": 16,
}
MATRIX: dict[str, Json] = {
    "as it comes": {},
    "another namespace": {"watchNamespace": "measured"},
    "cluster": {"mode": "Cluster"},
    "secrets": {"allowSecrets": True},
    "secrets, cluster": {"allowSecrets": True, "mode": "Cluster"},
    "kueue": {"kueue": {"enabled": True}},
    "kueue, cluster": {"kueue": {"enabled": True}, "mode": "Cluster"},
    "kserve": {"kserve": {"enabled": True}},
    "nodes": {"readNodes": True},
    "nodes, cluster": {"readNodes": True, "mode": "Cluster"},
    "no rights of an admin": {
        "crds": {"install": False},
        "admissionPolicy": {"create": False},
    },
    "no user roles": {"crds": {"userRoles": False}},
    "rights by hand": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "measurer"},
    },
    "no policies": {"networkPolicies": {"create": False}, "admissionPolicy": {"create": False}},
    "network": {
        "networkPolicies": {"monitoringNamespaces": ["a", "b"]},
        "metrics": {"service": {"create": True}},
    },
    "network, cluster": {
        "mode": "Cluster",
        "networkPolicies": {"runNamespaces": ["first", "second"]},
        "metrics": {"service": {"create": True, "annotations": {"prometheus.io/scrape": "true"}}},
    },
    "users by policy": {"fixedUser": False},
    "every value": {
        "fullnameOverride": "measure",
        "images": {
            "registry": "registry.example.com:5000/team/",
            "tag": "2.0",
            "pullPolicy": "Always",
            "pullSecrets": ["first", "second"],
            "serving": {"digest": DIGEST, "tag": "3.0", "engines": {"onnxruntime": "1.30.0"}},
            "loadgen": {"tag": "4.0", "repository": "other/loadgen"},
            "servers": {"other": "mirror.example.com/other:5.0"},
            "serverEngines": {"other": {"openvino": "2026.4.1"}},
        },
        "maxConcurrentRuns": 1000,
        "ceilings": CEILINGS,
        "externalAllowList": ["models.example.com:8001", "*.example.org"],
        "allowedServers": {"ovms": {"image": f"mirror/ovms@{DIGEST}", "arguments": ["--port"]}},
        "modelCache": {"enabled": True},
        "modelStorage": "1Ti",
        "runPriorityClass": "measured",
        "load": {
            "resources": {"cpu": 2, "memory": 4000000000},
            "nodeSelector": {"node.kubernetes.io/pool": "load"},
            "tolerations": [{"key": "load", "value": "true", "effect": "NoSchedule"}],
        },
        "gpu": {
            "runtimeClass": "nvidia",
            "tolerations": [
                {
                    "key": "gpu",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 3000000,
                }
            ],
        },
        "operator": {
            "replicas": 1,
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            "priorityClass": "important",
            "nodeSelector": {"node.kubernetes.io/pool": "system"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "podAnnotations": {"example.com/team": "models"},
            "podDisruptionBudget": False,
        },
        "serviceAccount": {"annotations": {"example.com/role": "none"}},
        "agent": {"namespace": "agents", "service": "watchers"},
        "metrics": {"scrapeAnnotations": False, "tokenSecret": {"name": "scrape", "key": "k"}},
        "dashboards": {"create": True, "namespace": "grafana", "folder": "Benchmarks"},
        "test": {"timeoutSeconds": 3600, "resources": {"cpu": "1", "memory": "1Gi"}},
    },
}
every_case = pytest.mark.parametrize("case", MATRIX)


@functools.cache
def rendered(case: str) -> list[Json]:
    """Return what the chart makes in this case, rendered once for all tests."""
    return rendered_anew(MATRIX[case])


def test_helm_finds_nothing_to_complain_about() -> None:
    """`helm lint --strict` passes."""
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.30", "1.34"])
@every_case
def test_every_object_is_valid(case: str, version: str) -> None:
    """Kubernetes' own schemas of that version take each object, with no unknown field."""
    for made in rendered(case):
        _validate(json.dumps(made), version)


@functools.cache
def _validate(made: str, version: str) -> None:
    """Validate an object: one that many cases have, such as a definition, once."""
    kubernetes_validate.validate(json.loads(made), version, strict=True)


@every_case
def test_every_name_is_used_once(case: str) -> None:
    """No name is used twice in a kind and namespace, and what is namespaced says where."""
    names = [
        (made["kind"], made["metadata"].get("namespace"), made["metadata"]["name"])
        for made in rendered(case)
    ]
    assert len(names) == len(set(names))
    nowhere = {kind for kind, namespace, _ in names if namespace is None}
    assert nowhere <= {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


@every_case
def test_every_pod_is_restricted(case: str) -> None:
    """Every pod meets Pod Security's level "restricted"; memory is bounded, roots read-only."""
    specs = list(pod_specs(rendered(case)))
    assert len(specs) == 2
    for spec in specs:
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True
        fixed = None if case == "users by policy" else 10001
        assert {pod.get(key) for key in ("runAsUser", "runAsGroup", "fsGroup")} == {fixed}
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert {key for volume in spec.get("volumes", []) for key in volume} <= {
            "name",
            "configMap",
            "emptyDir",
            *(("secret",) if case == "every value" else ()),
        }
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert own["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


@every_case
def test_the_settings_are_the_operators(case: str) -> None:
    """The operator reads the settings that the chart writes."""
    settings = Settings.model_validate(yaml.safe_load(settings_text(rendered(case))))
    served = {"another namespace": "measured"}.get(case, NAMESPACE)
    assert settings.namespace == (None if case.endswith("cluster") else served)
    assert settings.fixed_user is (case != "users by policy")
    assert settings.kueue.enabled is case.startswith("kueue")
    assert settings.kserve.enabled is (case == "kserve")
    assert settings.allow_secrets is case.startswith("secrets")


def test_the_settings_have_the_engines_of_the_charts_own_images() -> None:
    """From a mirror too, but not of an image with another tag, or another image of a server."""
    own = yaml.safe_load((CHART / "files/engines.yaml").read_text())
    retagged = own | {"serving": {}, "servingGpu": {}}
    mirrored = {
        "servers": {name: f"mirror.example.com/{name}:1" for name in ("mlserver", "triton")}
    }
    triton = {"serverEngines": {"triton": {"onnxruntime": "1.20.1"}}}
    for images, expected in (
        ({"registry": "mirror.example.com"}, own),
        ({"tag": "2.0"}, retagged),
        (mirrored, {name: own[name] for name in ("serving", "servingGpu")}),
        (triton, own | {"triton": own["triton"] | triton["serverEngines"]["triton"]}),
    ):
        settings = yaml.safe_load(settings_text(rendered_anew({"images": images})))
        assert settings["images"]["engines"] == expected


@pytest.mark.parametrize(("gpus", "ceilings"), [(0, {"gpus": 0}), ("", {}), (2, {"gpus": 2})])
def test_a_ceiling_of_no_gpus_is_one(gpus: int | str, ceilings: Json) -> None:
    """`gpus: 0` reaches the operator, which then refuses GPUs; 0 of anything else is no ceiling."""
    objects = rendered_anew({"ceilings": {"gpus": gpus, "workers": 0}})
    settings = Settings.model_validate(yaml.safe_load(settings_text(objects)))
    assert settings.ceilings.model_dump(by_alias=True, exclude_none=True) == ceilings


def test_every_value_reaches_the_settings() -> None:
    """What is settled for runs arrives in the operator's settings unchanged."""
    settings = Settings.model_validate(yaml.safe_load(settings_text(rendered("every value"))))
    registry = "registry.example.com:5000/team"
    assert settings.model_dump(by_alias=True, exclude_defaults=True) == {
        "namespace": NAMESPACE,
        "maxConcurrentRuns": 1000,
        "ceilings": {**CEILINGS, "cpu": "64"},
        "images": {
            "serving": f"{registry}/inferometer-serving@{DIGEST}",
            "servingGpu": f"{registry}/inferometer-serving-gpu:2.0",
            "loadgen": f"{registry}/other/loadgen:4.0",
            "servers": {"other": "mirror.example.com/other:5.0"},
            # Those of an image with a tag of its own are not known.
            "engines": {
                "serving": {"onnxruntime": "1.30.0"},
                "servingGpu": {},
                "mlserver": {"onnxruntime": "1.22.1"},
                "triton": {"onnxruntime": "1.19.2", "openvino": "2024.4.0"},
                "other": {"openvino": "2026.4.1"},
            },
            "pullPolicy": "Always",
            "pullSecrets": ["first", "second"],
        },
        "gpu": {
            "runtimeClass": "nvidia",
            "tolerations": [
                {
                    "key": "gpu",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 3000000,
                }
            ],
        },
        "load": {
            "resources": {"cpu": "2", "memory": "4000000000"},
            "nodeSelector": {"node.kubernetes.io/pool": "load"},
            "tolerations": [{"key": "load", "value": "true", "effect": "NoSchedule"}],
        },
        "priorityClass": "measured",
        "externalAllowList": ["models.example.com:8001", "*.example.org"],
        "allowedServers": {"ovms": {"image": f"mirror/ovms@{DIGEST}", "arguments": ["--port"]}},
        "modelCache": True,
        "modelStorage": "1Ti",
        "agent": {"namespace": "agents", "service": "watchers"},
        "metrics": {
            "scrapeAnnotations": False,
            "tokenFile": "/etc/inferometer-metrics/token",
        },
    }


def test_a_change_of_settings_starts_the_operator_anew() -> None:
    """The pod template changes with the settings, and stays the same otherwise."""

    def template(values: Json) -> Json:
        (deployment,) = of_kind(rendered_anew(values), "Deployment")
        found: Json = deployment["spec"]["template"]
        return found

    assert template({"maxConcurrentRuns": 2}) != template({})
    assert template({"networkPolicies": {"create": False}}) == template({})


@pytest.mark.parametrize("release", ["a", "inferometer-of-team-a", "r" * 53])
def test_names_follow_the_release(release: str) -> None:
    """Two releases in one namespace share no object, and the longest name stays legal."""

    def names(of: str) -> set[str]:
        made = rendered_anew({"crds": {"install": False}}, release=of)
        return {each["metadata"]["name"] for each in made}

    assert not names(release) & names("inferometer")
    assert all(len(name) <= 63 for name in names(release))


def test_the_definition_is_the_published_one() -> None:
    """The chart installs the CRDs of crds/, and keeps them when the release goes."""
    every = of_kind(rendered("as it comes"), "CustomResourceDefinition")
    assert [made["metadata"]["name"] for made in every] == [NAME, SUITE_NAME, NODE_BENCHMARK_NAME]
    for made in every:
        file = CHECKOUT / "crds" / f"{made['metadata']['name']}.yaml"
        assert made["spec"] == yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
        assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_without_an_admins_rights_nothing_is_outside_namespaces() -> None:
    """Without definition and admission policy, each object is in the served namespace."""
    assert {each["metadata"].get("namespace") for each in rendered("no rights of an admin")} == {
        NAMESPACE
    }


@every_case
def test_notes_lead_to_the_first_result(case: str, tmp_path: Path) -> None:
    """NOTES name the namespace that is served and the objects made, and their run is valid."""
    text = notes(MATRIX[case], tmp_path)
    (deployment,) = of_kind(rendered(case), "Deployment")
    served = "measured" if case == "another namespace" else NAMESPACE
    assert f"deployment/{deployment['metadata']['name']} --namespace {NAMESPACE}" in text
    assert f"kubectl apply --namespace {served} -f -" in text
    assert f"kubectl inferometer report first --namespace {served}" in text
    assert f"helm test inferometer --namespace {NAMESPACE}" in text
    lines = text.partition("<<EOF\n")[2].partition("\n  EOF")[0].splitlines()
    run = yaml.safe_load("\n".join(line.removeprefix("  ") for line in lines))
    assert BenchmarkRun.model_validate(run).metadata.name == "first"
    assert ("every namespace" in text) == (MATRIX[case].get("mode") == "Cluster")


def test_the_tests_run_is_valid() -> None:
    """The run that `helm test` makes is one that the API takes."""
    for case in MATRIX:
        (pod,) = of_kind(rendered(case), "Pod")
        _, namespace, _, run = pod["spec"]["containers"][0]["args"]
        assert namespace == ("measured" if case == "another namespace" else NAMESPACE)
        BenchmarkRun.model_validate(yaml.safe_load(run))
