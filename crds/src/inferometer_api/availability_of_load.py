"""Which certificates, headers and clients of a valid run cannot be used at a place?"""

from collections.abc import Iterator
from typing import Literal

from inferometer_api.load import Load, Tls
from inferometer_api.run import RunSpec

_NO_FILES = "pods have no files of yours"
_NO_SECRETS = "a local run has no Secrets"
_OF_FILES = {
    "caFile": "caSecret, whose key ca.crt it is",
    "clientCertificateFile": "clientSecret, whose key tls.crt it is",
    "clientKeyFile": "clientSecret, whose key tls.key it is",
}
"""Fields that name a file, and where a cluster has the same."""
_OF_SECRETS = {"caSecret": "caFile", "clientSecret": "clientCertificateFile and clientKeyFile"}


def unavailable_load(spec: RunSpec, place: Literal["Local", "Cluster"]) -> Iterator[str]:
    """Yield a sentence for each thing that `spec.load` asks and that cannot be done at `place`."""
    load = spec.load
    if load.tls is not None:
        yield from _without_tls(spec)
        yield from _tls_elsewhere(load.tls, place)
    if place == "Local" and load.headers_secret is not None:
        yield f"spec.load.headersSecret: {_NO_SECRETS}; name a file in spec.load.headersFile."
    if place == "Cluster" and load.headers_file is not None:
        yield f"spec.load.headersFile: {_NO_FILES}; name a Secret in spec.load.headersSecret."
    yield from _too_many_clients(spec, load)


def _without_tls(spec: RunSpec) -> Iterator[str]:
    external = spec.server.external
    if external is None:
        yield "spec.load.tls: the server that a run starts speaks no TLS; leave it out."
    elif external.url is not None and not external.url.startswith(("https://", "grpcs://")):
        scheme = external.url.partition("://")[0]
        yield (
            f"spec.load.tls: the server's url begins with {scheme}://, which is without TLS; write "
            f"{scheme}s:// in spec.server.external.url, or leave tls out."
        )


def _tls_elsewhere(tls: Tls, place: Literal["Local", "Cluster"]) -> Iterator[str]:
    asked = tls.model_dump(by_alias=True, exclude_none=True)
    others, why = (_OF_SECRETS, _NO_SECRETS) if place == "Local" else (_OF_FILES, _NO_FILES)
    for name, instead in others.items():
        if name in asked:
            yield f"spec.load.tls.{name}: {why}; use {instead}."


def _too_many_clients(spec: RunSpec, load: Load) -> Iterator[str]:
    room = load.connections * load.streams_per_connection
    for index, scenario in enumerate(spec.scenarios):
        most = 0 if scenario.concurrency is None else max(scenario.concurrency.clients)
        if load.protocol == "GRPC" and most > room:
            yield (
                f"spec.scenarios[{index}].concurrency.clients: {most} clients are more than the "
                f"{room} requests that {load.connections} connections with "
                f"{load.streams_per_connection} streams each carry at a time; raise "
                "spec.load.connections or spec.load.streamsPerConnection."
            )
