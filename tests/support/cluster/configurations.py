"""The configuration files of a cluster. Pure: text in, text out."""

import base64
import json
from dataclasses import dataclass
from typing import Any

ADMIN = "admin"
CONTEXT = "inferometer"
DOMAIN = "cluster.local"
CONTAINERD = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "inferometer.dev/pause:1"
NODE_HOME = "/run/inferometer"
"""Where a node finds its own folder, whatever that is called outside of it."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the API server, and the groups that say what they may."""

    user: str
    groups: tuple[str, ...]
    token: str


def tokens(accounts: list[Account]) -> str:
    """Return the API server's file of tokens."""
    return "".join(
        f'{account.token},{account.user},{account.user},"{",".join(account.groups)}"\n'
        for account in accounts
    )


def kubeconfig(url: str, authority_pem: bytes, token: str) -> str:
    """Return a kubeconfig that holds all it needs: no path in it points elsewhere."""
    cluster = {
        "server": url,
        "certificate-authority-data": base64.b64encode(authority_pem).decode(),
    }
    return _text(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
        }
    )


def audit_policy() -> str:
    """Return the audit policy: who did what to what, of every request at every stage."""
    return _text(
        {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    )


def kubelet(dns_address: str, cgroup_root: str, reserved_cpus: int) -> str:
    """Return a kubelet's configuration: as shipped, but for what lies elsewhere on this node.

    `reserved_cpus` of the machine's are not offered to pods, so that the node shows two.
    """
    return _text(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
            "clusterDNS": [dns_address],
            "clusterDomain": DOMAIN,
            "resolvConf": "/etc/resolv.conf",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup_root,
            "enforceNodeAllocatable": [],
            "systemReserved": {"cpu": str(reserved_cpus)} if reserved_cpus else {},
            "failSwapOn": False,
            # A negative one needs CAP_SYS_RESOURCE, which many a container withholds.
            "oomScoreAdj": 0,
            # The disk is shared with everything else on the machine: nothing is collected for it.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
            "nodeStatusUpdateFrequency": "2s",
            "volumePluginDir": f"{NODE_HOME}/volume-plugins",
        }
    )


def containerd(cni_binaries: str, snapshotter: str) -> str:
    """Return containerd's configuration (TOML), for Debian's 1.6."""
    return f"""\
version = 2
root = "{NODE_HOME}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Without CAP_SYS_RESOURCE every pod would fail over its negative score.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni_binaries}"
conf_dir = "{NODE_HOME}/cni"
"""


def cni(pod_range: str) -> str:
    """Return the pods' network: each has a wire of its own to the node, which routes.

    Not a bridge: what passes between two pods of a node then meets the rules of Services on both
    ways, whether or not the kernel shows bridged packets to iptables.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        # Forgotten with the pods when the node dies.
        "dataDir": "/run/cni-addresses",
    }
    return _text(
        {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {"type": "ptp", "ipMasq": False, "ipam": ipam},
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
    )


def name_server_rights(user: str) -> dict[str, Any]:
    """Return what the name server may do: follow Services and what stands behind them."""
    reads = {"verbs": ["list", "watch"]}
    rules = [
        reads | {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"]},
        reads | {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": user}}
    role = rbac | {"kind": "ClusterRole", "rules": rules}
    binding = rbac | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    return {"apiVersion": "v1", "kind": "List", "items": [role, binding]}


def corefile(address: str, kubeconfig_path: str) -> str:
    """Return CoreDNS's configuration: the cluster's names, and a quick no to every other."""
    return f"""\
{DOMAIN} in-addr.arpa {{
    bind {address}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig_path} {CONTEXT}
        ttl 5
    }}
}}
. {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def _text(document: dict[str, Any]) -> str:
    """Return a document as JSON, which every reader of YAML takes."""
    return json.dumps(document, indent=2) + "\n"
