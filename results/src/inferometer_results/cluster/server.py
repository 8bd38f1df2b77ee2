"""The servers of a replica: TLS for callers, and plain HTTP for probes and Prometheus."""

import asyncio
import hashlib
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from inferometer_api.timestamps import format_time
from inferometer_results.cluster.authority import ClusterAuthority
from inferometer_results.cluster.kubernetes_api import KubernetesApi, cluster_configuration
from inferometer_results.explore.prices import PriceList
from inferometer_results.service.access.cluster import PEER_NAME, ClusterAccess, ReviewError
from inferometer_results.service.access.front_proxy import (
    FRONT_PROXY_CONFIG_MAP,
    FrontProxy,
    FrontProxyError,
    read_front_proxy,
)
from inferometer_results.service.api.ingest import Ingest, RateLimit
from inferometer_results.service.app import create_cluster_app, create_probe_app
from inferometer_results.service.metrics import ServiceMetrics
from inferometer_results.store.database import StoreError, take_up_restored
from inferometer_results.store.retention import dispensable
from inferometer_results.store.store import Store
from inferometer_results.store.visibility import from_context

_LOOK_SECONDS = 30.0
"""How often the certificates are read again: those of the API server and our own change."""
_DELETE_SECONDS = 3600.0
_MOST_REQUESTS = 128
_MOST_HEADER_BYTES = 512 << 10
_FINISH_SECONDS = 20


@dataclass(frozen=True, slots=True)
class ResultRetention:
    """How long results are kept, if they have no tag and no judged change begins with them."""

    days: int | None = None
    megabytes: int | None = None
    """Of their documents, compressed."""

    @property
    def is_limited(self) -> bool:
        """Whether anything is ever deleted."""
        return self.days is not None or self.megabytes is not None

    def apply(self, store: Store, now: datetime) -> int:
        """Delete the results whose time is over; return how many."""
        oldest = None if self.days is None else format_time(now - timedelta(days=self.days))
        most_bytes = None if self.megabytes is None else self.megabytes * 10**6
        return store.delete(dispensable(store, oldest, most_bytes))


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """What the command line says."""

    database: str
    certificates: Path
    """Folder with tls.crt and tls.key."""
    operators: frozenset[str]
    """User names of the service accounts that may deliver the results of runs."""
    host: str
    port: int
    probe_port: int
    kubeconfig: Path | None
    prices: PriceList | None
    retention: ResultRetention


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _PeerProtocol(H11Protocol):
    """Notes the name of the client certificate that the connection was made with."""

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, PEER_NAME: _peer_name(transport)}


async def serve(config: ServiceConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises FrontProxyError, StoreError and ReviewError."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    api = KubernetesApi(await cluster_configuration(config.kubeconfig))
    try:
        if take_up_restored(config.database):
            sys.stderr.write("inferometer-results: took up the restored database\n")
        with Store(config.database, from_context()) as limited, Store(config.database) as whole:
            metrics = ServiceMetrics(time.perf_counter)
            authority = ClusterAuthority(api, whole)
            cluster_uid = await authority.namespace_uid("kube-system")
            ingest = Ingest(
                limited, authority, cluster_uid or "", RateLimit(time.monotonic), _timestamp
            )
            app = create_cluster_app(ingest, version("inferometer"), metrics, config.prices)
            with _listen(config.host, config.port) as listener:
                probes = _Server(_config(create_probe_app(whole, metrics)))
                probing = _listen(config.host, config.probe_port)
                ports = [each.getsockname()[1] for each in (listener, probing)]
                sys.stderr.write(f"inferometer-results: serves on port {ports[0]}, {ports[1]}\n")
                async with asyncio.TaskGroup() as group:
                    group.create_task(probes.serve([probing]))
                    deleting = group.create_task(_delete_regularly(config.retention, whole))
                    while not stop.is_set():
                        access = _Access(app, authority, config.operators)
                        await _serve_until_changed(config, api, access, listener, stop)
                    probes.should_exit = True
                    deleting.cancel()
    finally:
        await api.close()


async def _delete_regularly(retention: ResultRetention, store: Store) -> None:
    """Delete the results whose time is over, now and then every hour."""
    while retention.is_limited:
        try:
            deleted = await asyncio.to_thread(retention.apply, store, datetime.now(tz=UTC))
        except StoreError as error:
            sys.stderr.write(f"inferometer-results: no old results were deleted. {error}\n")
        else:
            if deleted:
                sys.stderr.write(f"inferometer-results: deleted {deleted} old results\n")
        await asyncio.sleep(_DELETE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Access:
    """The application, and what decides who may use it."""

    app: ASGIApp
    authority: ClusterAuthority
    operators: frozenset[str]

    def of(self, proxy: FrontProxy) -> ClusterAccess:
        return ClusterAccess(self.app, self.authority, proxy, self.operators)


async def _serve_until_changed(
    config: ServiceConfig,
    api: KubernetesApi,
    access: _Access,
    listener: socket.socket,
    stop: asyncio.Event,
) -> None:
    """Serve with the certificates as they are now, until they are others or `stop` is set."""
    proxy, own = await _front_proxy(api), _fingerprint(config.certificates)
    settled = _config(access.of(proxy))
    settled.load()
    settled.ssl = _tls(config.certificates, proxy)
    server = _Server(settled)
    serving = asyncio.create_task(server.serve([listener.dup()]))
    try:
        while not stop.is_set() and not serving.done():
            try:
                await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
            except TimeoutError:
                if await _is_changed(api, proxy) or _fingerprint(config.certificates) != own:
                    break
    finally:
        server.should_exit = True
        await serving


def _listen(host: str, port: int) -> socket.socket:
    """Listen on an address, or on all of IPv4 and IPv6."""
    if host or not socket.has_dualstack_ipv6():
        return socket.create_server((host, port))
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)


async def _front_proxy(api: KubernetesApi) -> FrontProxy:
    namespace, name = FRONT_PROXY_CONFIG_MAP
    found = await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return read_front_proxy(found or {})


async def _is_changed(api: KubernetesApi, proxy: FrontProxy) -> bool:
    """Return whether the API server proves itself by something else now."""
    try:
        return await _front_proxy(api) != proxy
    except (FrontProxyError, ReviewError):
        # It goes on with what it knows.
        return False


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_PeerProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_REQUESTS,
        timeout_graceful_shutdown=_FINISH_SECONDS,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
    )


def _tls(certificates: Path, proxy: FrontProxy) -> ssl.SSLContext:
    """Return a context that knows the API server by its certificate, and takes others without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=proxy.authority_pem)
    return context


def _peer_name(transport: Any) -> str | None:
    """Return the common name of a verified client certificate, None without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert()
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return "" if certificate else None


def _fingerprint(certificates: Path) -> str:
    files = (certificates / "tls.crt", certificates / "tls.key")
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def _timestamp() -> str:
    return format_time(datetime.now(tz=UTC))
