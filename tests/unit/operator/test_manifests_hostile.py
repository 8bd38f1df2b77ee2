"""Whatever stands in a run, its pods are as harmless as any other's."""

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inferometer_api import patterns
from inferometer_api.spec.address import AddressError
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.settings import Images, Settings
from support.pod_security import containers, violations
from support.runs import Run, a_run

SETTINGS = Settings(images=Images(serving="r/s:1", serving_gpu="r/g:1", loadgen="r/l:1"))
IMAGES = {"r/s:1", "r/g:1", "r/l:1"}
UID = "0c9e8f3a-1111-4222-8333-444455556666"
HOSTILE = (
    "--host=0.0.0.0",
    "../../etc/passwd",
    "$(cat /etc/passwd)",
    "$(INFEROMETER_S3_SECRET_ACCESS_KEY)",
    "$$(HOME)",
    "$$$(HOME)$",
    "`id`",
    "; rm -rf /",
    "a\nb: c",
    "/var/run/docker.sock",
    "hostPath",
    "%2e%2e/%2e%2e/etc/shadow",
    "a=b,--privileged",
    "\u202e\u0000",
)
POD_FIELDS = {
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "enableServiceLinks",
    "initContainers",
    "nodeSelector",
    "restartPolicy",
    "securityContext",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
}
"""What a pod of ours may have at all, under settings that add nothing."""

texts = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=40))
names = st.from_regex(patterns.QUALIFIED_NAME, fullmatch=True).filter(lambda name: len(name) < 300)
values = st.from_regex(patterns.LABEL_VALUE, fullmatch=True)
paths = st.one_of(
    st.sampled_from([each for each in HOSTILE if " " not in each]),
    st.from_regex(r"[^ ]{1,40}", fullmatch=True),
)
uris = st.builds(
    "{}{}".format,
    st.sampled_from(["zoo://", "https://", "pvc://", "pvc://claim/", "s3://", "s3://bucket/"]),
    paths,
)
data = st.builds(
    "{}{}".format,
    st.sampled_from(["configmap://", "configmap://a/", "pvc://claim/", "https://", "s3://b/"]),
    paths,
)
tolerations = st.fixed_dictionaries(
    {"operator": st.just("Exists")},
    optional={"key": names, "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
)


@st.composite
def hostile_runs(draw: st.DrawFn) -> Run:
    """Return a valid run with something odd wherever a person may write a text."""
    gpu = draw(st.one_of(st.none(), names))
    server: dict[str, Any] = {
        "placement": {
            "nodeSelector": draw(st.dictionaries(names, values, max_size=3)),
            "tolerations": draw(st.lists(tolerations, max_size=3)),
        },
        "resources": {
            "cpu": draw(st.from_regex(patterns.CPU, fullmatch=True)),
            "memory": draw(st.from_regex(patterns.MEMORY, fullmatch=True)),
        },
    }
    if gpu is not None:
        server |= {"device": "GPU", "gpu": {"resource": gpu}}
    shapes = draw(st.dictionaries(texts, st.lists(st.integers(1, 9), max_size=3), max_size=3))
    inputs = draw(
        st.one_of(
            st.just({"random": {"shapes": shapes}}),
            st.builds(lambda uri: {"file": {"uri": uri, "sha256": "0" * 64}}, data),
        )
    )
    model: dict[str, Any] = {"uri": draw(uris), "sha256": "0" * 64}
    if model["uri"].startswith("s3://"):
        model["credentialsSecret"] = draw(st.sampled_from(["keys", "kube-root-ca.crt"]))
    return a_run(model=model, server=server, load={"inputs": inputs})


@settings(max_examples=60)
@given(hostile_runs())
def test_no_field_of_a_run_gives_its_pods_a_right(run: Run) -> None:
    """Images, commands, volumes, users and accounts are ours; a run adds words and numbers."""
    run_with_defaults = fill_defaults(BenchmarkRun.model_validate(run))
    for pod in _pods(run_with_defaults):
        assert violations(pod) == ()
        assert set(pod) <= POD_FIELDS
        assert pod["automountServiceAccountToken"] is False
        for volume in pod["volumes"]:
            (kind,) = set(volume) - {"name"}
            assert kind in {"emptyDir", "configMap", "persistentVolumeClaim"}
        for each in containers(pod):
            assert each["image"] in IMAGES
            _check_command(each["command"])
            _check_expanded(each)
            _check_mounts(each)
            _check_secrets(each, run_with_defaults.spec.model.credentials_secret)


def _pods(run: BenchmarkRun) -> Iterator[Manifest]:
    owner = Owner(name="a-run", namespace="team", uid=UID)
    try:
        made = (server_job(run, owner, SETTINGS), load_job(run, owner, SETTINGS))
    except AddressError:
        # Such a run fails with a message, and none of its objects is created.
        assume(condition=False)
    for each in made:
        json.dumps(each)
        yield each["spec"]["template"]["spec"]


def _check_command(command: list[str]) -> None:
    """Hold that a command starts a module of ours, with options that stand in the order they do."""
    assert command[:2] == ["python3", "-m"]
    assert command[2] in {
        "inferometer_serving",
        "inferometer_fetch",
        "inferometer_loadgen",
    }
    words = iter(command[3:])
    for word in words:
        if not word.startswith("--warm-up-shape="):
            assert re.fullmatch(r"--[a-z0-9-]+", word)
            assert not next(words).startswith("-")


def _check_expanded(container: Manifest) -> None:
    """Hold that Kubernetes puts no variable in place of what a run says.

    Its rule: $(NAME) is the variable, $$ is one dollar sign, and every other dollar sign itself.
    """
    for word in container["command"]:
        found = re.findall(r"\$\$|\$\([^)]*\)|\$", word)
        assert set(found) <= {"$$"}


def _check_mounts(container: Manifest) -> None:
    for mount in container["volumeMounts"]:
        path = mount["mountPath"]
        assert ".." not in path.split("/")
        if path.startswith("/sources/"):
            assert mount["readOnly"] is True
            assert re.fullmatch(r"/sources/(claims|configmaps)/[a-z0-9.-]+", path)
        assert not {"subPath", "subPathExpr", "mountPropagation"} & set(mount)


def _check_secrets(container: Manifest, named: str | None) -> None:
    assert "envFrom" not in container
    for variable in container["env"]:
        secret = variable.get("valueFrom", {}).get("secretKeyRef")
        if secret is not None:
            assert container["name"] == "fetch"
            assert secret["name"] == named


@given(uris)
def test_a_model_is_never_called_like_an_option(uri: str) -> None:
    """The name that a server is given stands in a URL, and begins no option."""
    run = a_run(model={"uri": uri, "sha256": "0" * 64})
    name = fill_defaults(BenchmarkRun.model_validate(run)).spec.model.served_name
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)
