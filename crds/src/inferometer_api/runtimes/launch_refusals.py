"""Refusals for every server that Inferometer starts."""

from inferometer_api.runtimes.descriptor import Refusal, RuntimeDescriptor
from inferometer_api.spec.server import Server

_KUBERNETES = ".kubernetes.io"
"""The domain of Kubernetes' own resources; cpu and memory have no domain at all."""


def _replicas(server: Server) -> str | None:
    if server.replicas == 1:
        return None
    return f"a local run has one server, not {server.replicas}; set it to 1"


def _gpu_resource(server: Server) -> str | None:
    if server.gpu is None:
        return None
    resource = server.gpu.resource
    domain = resource.rpartition("/")[0]
    if domain and not f".{domain}".endswith(_KUBERNETES):
        return None
    return f"{resource} is not the resource of a device plugin; name one, such as nvidia.com/gpu"


def starts_without_tls(_: Server) -> str:
    """Return why spec.load.tls is refused for a server that is started without TLS."""
    return "the server that the run starts has no TLS; leave it out"


LAUNCHED_REFUSALS = (
    Refusal("spec.server.replicas", "Local", _replicas),
    Refusal("spec.server.gpu.resource", "Cluster", _gpu_resource),
)

UNAVAILABLE = RuntimeDescriptor(
    launch=None,
    refusals=LAUNCHED_REFUSALS,
    without_tls=starts_without_tls,
    restart_identity=(),
)
"""A runtime that has no row in the table: the rest of its spec is refused like that of others."""
