"""What in a pod breaks the pod security standard "restricted", and what exceeds a run's needs.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ as of
1.34, written here once more: the code that builds the pods does not judge them.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SECCOMP = ({"type": "RuntimeDefault"},)


def violations(pod: Json) -> tuple[str, ...]:
    """Return a line for each thing in a pod's spec that "restricted" forbids."""
    return tuple(line for check in (_of_pod, _of_containers) for line in check(pod))


def containers(pod: Json) -> Iterator[Json]:
    """Yield every container of a pod's spec, whatever its kind."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod.get(kind, ())


def _of_pod(pod: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield f"spec.{field}"
    for volume in pod.get("volumes", ()):
        for kind in set(volume) - {"name"} - _VOLUMES:
            yield f"volume {volume['name']} is a {kind}"
    context = pod.get("securityContext", {})
    for field in ("sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile"):
        if field in context:
            yield f"spec.securityContext.{field}"
    yield from _of_user("spec", context)


def _of_user(where: str, context: Json) -> Iterator[str]:
    if context.get("runAsNonRoot", True) is not True:
        yield f"{where}.securityContext.runAsNonRoot"
    if context.get("runAsUser", 1) == 0:
        yield f"{where}.securityContext.runAsUser"
    if "seccompProfile" in context and context["seccompProfile"] not in _SECCOMP:
        yield f"{where}.securityContext.seccompProfile"


def _of_containers(pod: Json) -> Iterator[str]:
    whole = pod.get("securityContext", {})
    for container in containers(pod):
        where, context = container["name"], container.get("securityContext", {})
        yield from _of_user(where, context)
        yield from _of_rights(where, context)
        for field in ("runAsNonRoot", "seccompProfile"):
            if field not in context and field not in whole:
                yield f"{where} leaves {field} open"
        if any("hostPort" in port for port in container.get("ports", ())):
            yield f"{where} has a host port"
        for hook in ("livenessProbe", "readinessProbe", "startupProbe"):
            if "host" in container.get(hook, {}).get("httpGet", {}):
                yield f"{where} probes another host"


def _of_rights(where: str, context: Json) -> Iterator[str]:
    if context.get("privileged"):
        yield f"{where} is privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{where} may escalate"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{where} keeps capabilities"
    for field in ("procMount", "seLinuxOptions", "windowsOptions", "appArmorProfile"):
        if field in context:
            yield f"{where} sets {field}"
