"""The Jobs that measure the wire of a node: its server on another node, and its client."""

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.nodes.wire_rates import (
    LOOPBACK,
    POD_TO_POD,
    is_selected,
    wire_probe_command,
    wire_server_command,
)
from inferometer_api.plan.cluster_objects import WIRE_CLIENT, WIRE_SERVER, peer_key, wire_key
from inferometer_api.runtimes.descriptor import GRPC_PORT, HTTP_PORT
from inferometer_operator.manifests.node_job import job_on
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.pod_spec import PYTHON, container
from inferometer_operator.settings import Settings

_LOOPBACK_HOST = "127.0.0.1"
_EVERY_HOST = "0.0.0.0"  # noqa: S104 - the pod's own addresses
_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
"""Of a container: two of them have room where the node's own measurement had."""
_DEADLINE_SECONDS = 900
"""The operator ends a Job earlier; this is for one whose operator is gone."""


def peer_job(
    spec: NodeBenchmarkSpec, owner: Owner, node: str, peer: str, settings: Settings
) -> Manifest:
    """Return the Job of the server, on `peer`, that the wire of a node is measured to."""
    server = _server(_EVERY_HOST, settings)
    return job_on(
        peer, peer_key(node), [server], spec, owner, settings, deadline_seconds=_DEADLINE_SECONDS
    )


def wire_job(
    spec: NodeBenchmarkSpec,
    owner: Owner,
    node: str,
    settings: Settings,
    *,
    peer_address: str,
    no_peer: str,
) -> Manifest:
    """Return the Job of the client on a node, with a server of its own for the loopback.

    `no_peer` is why there is no address of a peer, empty if none is wanted.
    """
    has_loopback = is_selected(LOOPBACK, spec.only)
    hosts = {LOOPBACK: _LOOPBACK_HOST} if has_loopback else {}
    if peer_address:
        hosts[POD_TO_POD] = peer_address
    command = wire_probe_command(
        PYTHON,
        {name: (host, HTTP_PORT, GRPC_PORT) for name, host in hosts.items()},
        {POD_TO_POD: no_peer} if no_peer else {},
    )
    images = settings.images
    client = container(WIRE_CLIENT, images.loadgen, images, command, {"requests": _REQUESTS})
    servers = [_server(_LOOPBACK_HOST, settings)] if has_loopback else []
    return job_on(
        node,
        wire_key(node),
        [client, *servers],
        spec,
        owner,
        settings,
        deadline_seconds=_DEADLINE_SECONDS,
    )


def _server(host: str, settings: Settings) -> Manifest:
    images = settings.images
    command = wire_server_command(PYTHON, host=host, http_port=HTTP_PORT, grpc_port=GRPC_PORT)
    made = container(WIRE_SERVER, images.serving, images, command, {"requests": _REQUESTS})
    ports = {"http": HTTP_PORT, "grpc": GRPC_PORT}
    made["ports"] = [
        {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()
    ]
    return made
