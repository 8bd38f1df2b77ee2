"""The pinned binaries of a Kubernetes, by Go module, and when each must be rebuilt.

Each product is a Go module of its own below `modules/`, since their dependencies do not resolve
together; `go.mod` and `go.sum` there are the pins.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).with_name("modules")
KUBERNETES_VERSION = "v1.34.4"
HELM_VERSION = "v3.22.0"
PROMETHEUS_VERSION = "v3.15.0"
"""Its module is called v0.315.0: modules whose paths have no /v3 may not be called v3."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One binary: its name, its module, the Go package of its command and what the linker sets."""

    name: str
    module: str
    package: str
    about_seconds: int
    """How long it takes to build on 2 cores where nothing is cached, rounded up."""
    variables: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Go's build tags."""


def _kubernetes(name: str, about_seconds: int) -> Pin:
    _, minor, _ = KUBERNETES_VERSION.split(".")
    variables = tuple(
        f"{package}/version.{variable}"
        for package in ("k8s.io/component-base", "k8s.io/client-go/pkg")
        for variable in (
            f"gitVersion={KUBERNETES_VERSION}",
            "gitMajor=1",
            f"gitMinor={minor}",
            "gitTreeState=clean",
            "gitCommit=unknown",
        )
    )
    return Pin(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", about_seconds, variables)


# Without these, Helm believes that the oldest Kubernetes it knows is the one it renders for.
_HELM = (
    f"helm.sh/helm/v3/internal/version.version={HELM_VERSION}",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34",
)


def _prometheus(name: str, about_seconds: int) -> Pin:
    """Return one of Prometheus's commands, which finds its targets in files and in Kubernetes."""
    number = PROMETHEUS_VERSION.removeprefix("v")
    return Pin(
        name,
        "prometheus",
        f"github.com/prometheus/prometheus/cmd/{name}",
        about_seconds,
        (f"github.com/prometheus/common/version.Version={number}",),
        ("remove_all_sd", "enable_kubernetes_sd"),
    )


_KUBE_ROUTER = "github.com/cloudnativelabs/kube-router/v2"
_ALL = (
    _kubernetes("kubectl", 130),
    _kubernetes("kube-apiserver", 260),
    _kubernetes("kube-controller-manager", 110),
    Pin("etcd", "etcd", "go.etcd.io/etcd/server/v3", 50),
    _kubernetes("kube-scheduler", 15),
    _kubernetes("kubelet", 40),
    _kubernetes("kube-proxy", 15),
    Pin("pause", "pause", "inferometer.dev/tests/pause", 5),
    Pin("probe", "probe", "inferometer.dev/tests/probe", 10),
    Pin("coredns", "coredns", "github.com/coredns/coredns", 200),
    Pin("helm", "helm", "helm.sh/helm/v3/cmd/helm", 150, _HELM),
    Pin("versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw", 140),
    Pin("registry", "registry", "github.com/distribution/distribution/v3/cmd/registry", 150),
    Pin("kube-router", "kube-router", f"{_KUBE_ROUTER}/cmd/kube-router", 200),
    _prometheus("prometheus", 280),
    _prometheus("promtool", 15),
    Pin("kind", "kind", "sigs.k8s.io/kind", 30),
    Pin("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue", 220),
    Pin("otel-collector", "otel-collector", "inferometer.dev/tests/otel-collector", 240),
    Pin("kserve", "kserve", "github.com/kserve/kserve/cmd/manager", 300),
    Pin("decode-kind-config", "kind", "inferometer.dev/tests/kind/decode", 30),
)
PINS = {pin.name: pin for pin in _ALL}

API = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
"""What a control plane without nodes is made of."""
NODES = (*API, "kube-scheduler", "kubelet", "kube-proxy", "pause", "coredns")
"""What a cluster with nodes is made of."""
TOOLS = ("helm", "decode-kind-config", "versitygw", "prometheus", "promtool")
"""What the gate's tests run besides a cluster."""
VERIFY_TOOLS = ("probe", "registry", "kueue", "kserve", "otel-collector")
"""What only `make verify` runs; kind itself is built only if Docker works."""


def linker_flags(pin: Pin) -> str:
    """Return the value of `go build -ldflags` for this binary: small, and with its version."""
    return " ".join(("-s", "-w", *(f"-X {variable}" for variable in pin.variables)))


def key(pin: Pin) -> str:
    """Return a hash of all that decides what the binary is: pins, own sources, command, flags."""
    digest = hashlib.sha256()
    folder = MODULES / pin.module
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    digest.update(f"{pin.package}\n{linker_flags(pin)}\n".encode())
    if pin.tags:
        digest.update(f"{','.join(pin.tags)}\n".encode())
    return digest.hexdigest()[:16]
