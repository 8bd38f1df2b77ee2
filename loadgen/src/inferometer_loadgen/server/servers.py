"""The servers of a plan: their addresses, descriptions and identities."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.runtimes.external import EXTERNAL
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_loadgen.server.control_plane import ControlPlane, ServerDescription
from inferometer_loadgen.server.declared_tensors import with_declared_tensors
from inferometer_loadgen.server.endpoint import ServerEndpoint, endpoint_of
from inferometer_loadgen.server.headers import read_headers
from inferometer_loadgen.server.refusals import ModelNotServedError
from inferometer_loadgen.wire import RequestTarget
from inferometer_loadgen.wire.contract import register_secrets
from inferometer_loadgen.wire.tls import ClientTls, TlsFiles, tls_context

SAME = ("model_sha256", "external_data_sha256", "manifest_sha256")
"""Settings that are equal in all servers of one model."""

_CODINGS: dict[str, Literal["gzip", "deflate"] | None] = {
    "None": None,
    "Gzip": "gzip",
    "Deflate": "deflate",
}

METADATA_REQUESTS = 4
"""This many separate connections show whether one process answers at an address or several."""


class Servers:
    """The servers of a plan, in its order.

    Raises InputRefusedError if a server has no address or headers are malformed, and
    TlsRefusedError if a certificate file is invalid.
    """

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self.endpoints = endpoints_of(plan)
        runtime = RUNTIMES.get(plan.run.spec.server.runtime, EXTERNAL)
        self._restart_identity = runtime.restart_identity

    async def describe(self, on_wait: Callable[[float, str], None]) -> list[ServerDescription]:
        """Wait until every server is ready, and return each server's description.

        `on_wait` receives the share of the deadline that is spent and why the last attempt failed.

        Raises ServerNotReadyError, and ModelNotServedError if they do not serve the same model.
        """
        deadline = self._plan.run.spec.server.ready_deadline_seconds
        began = asyncio.get_running_loop().time()

        def report_wait(last: str) -> None:
            on_wait((asyncio.get_running_loop().time() - began) / deadline, last)

        async def one(endpoint: ServerEndpoint) -> ServerDescription:
            control = self._control(endpoint)
            try:
                await control.wait_until_ready(deadline, report_wait)
                found = self._with_engine_version(await control.describe())
                return with_declared_tensors(found, self._plan.run.spec.model, endpoint.address)
            finally:
                await control.close()

        tasks = [asyncio.ensure_future(one(endpoint)) for endpoint in self.endpoints]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        check_same_model([endpoint.address for endpoint in self.endpoints], found)
        return found

    def _with_engine_version(self, found: ServerDescription) -> ServerDescription:
        """Return a description with the plan's version of the engine if the server states none."""
        version, settings = self._plan.engine_version, found.settings
        if not version or "runtime" not in settings or settings.get("runtime_version"):
            return found
        return replace(found, settings=settings | {"runtime_version": version})

    async def starts(self) -> list[frozenset[str]]:
        """Return the identities of each server's process, as several connections report it.

        Empty if a server does not report one; several if many processes answer at one address.
        """
        return await asyncio.gather(*map(self._starts, self.endpoints))

    async def _starts(self, endpoint: ServerEndpoint) -> frozenset[str]:
        found = await asyncio.gather(*(self._start(endpoint) for _ in range(METADATA_REQUESTS)))
        return frozenset(start for start in found if start is not None)

    async def _start(self, endpoint: ServerEndpoint) -> str | None:
        control = self._control(endpoint)
        try:
            return identity(await control.settings(), self._restart_identity)
        finally:
            await control.close()

    async def describe_other(self, model_name: str) -> ServerDescription:
        """Return the servers' description of another one of their models.

        Raises ModelNotServedError if one of them does not have it, or if they differ.
        """
        controls = self.controls(model_name)
        try:
            found = await asyncio.gather(*(each.describe_other() for each in controls))
        finally:
            await asyncio.gather(*(each.close() for each in controls))
        check_same_model([endpoint.address for endpoint in self.endpoints], found)
        return found[0]

    def controls(self, model_name: str | None = None) -> list[ControlPlane]:
        """Return a control plane of each server, for another one of their models if named.

        The caller closes them.
        """
        return [self._control(endpoint, model_name) for endpoint in self.endpoints]

    def _control(self, endpoint: ServerEndpoint, model_name: str | None = None) -> ControlPlane:
        plan = self._plan
        return ControlPlane(
            endpoint,
            model_name or plan.model_name,
            plan.model_version if model_name is None else "",
            others_may_fail=not plan.launched,
        )

    def targets(self, model_name: str | None = None) -> list[RequestTarget]:
        """Return the targets of requests to the plan's model, or to another one."""
        plan = self._plan
        compression = _CODINGS[plan.run.spec.load.compression]
        return [
            RequestTarget(
                protocol=endpoint.protocol,
                host=endpoint.host,
                port=endpoint.port,
                model_name=model_name or plan.model_name,
                model_version=plan.model_version if model_name is None else "",
                path_prefix=endpoint.path_prefix,
                tls=endpoint.tls,
                compression=compression,
                headers=endpoint.headers,
            )
            for endpoint in self.endpoints
        ]

    def are_colocated(self, own_node: str | None) -> bool:
        """Return whether one of them runs on the machine of the load generator."""
        if self._plan.server_process_ids:
            return True
        # For servers behind a Service only the agents' nodes are known.
        nodes = {server.node for server in self._plan.servers}
        nodes |= {agent.node for agent in self._plan.agents}
        if own_node and own_node in nodes:
            return True
        return any(_is_loopback(endpoint.host) for endpoint in self.endpoints)

    def not_guaranteed(self) -> tuple[str, ...]:
        """Return the known QoS classes of pods other than Guaranteed, each once."""
        classes = {server.quality_of_service for server in self._plan.servers}
        return tuple(sorted(classes - {"", "Guaranteed"}))

    @property
    def addresses(self) -> str:
        """The subject of a sentence about them."""
        addresses = [endpoint.address for endpoint in self.endpoints]
        if len(addresses) == 1:
            return f"The server at {addresses[0]}"
        return f"One of the servers at {', '.join(addresses)}"


def endpoints_of(plan: LoadPlan) -> list[ServerEndpoint]:
    """Return the endpoints of a plan's servers; raises what Servers raises."""
    load = plan.run.spec.load
    found = [endpoint_of(server.url, load.protocol) for server in plan.servers]
    if plan.headers_file is not None:
        headers = read_headers(Path(plan.headers_file))
        register_secrets(value for _, value in headers)
        found = [replace(each, headers=headers) for each in found]
    if not any(_with_tls(server.url) for server in plan.servers):
        return found
    files = TlsFiles(
        *(
            None if name is None else Path(name)
            for name in (plan.tls_ca_file, plan.tls_certificate_file, plan.tls_key_file)
        )
    )
    context = tls_context(load.protocol, files)
    name = None if load.tls is None else load.tls.server_name
    return [
        replace(each, tls=ClientTls(context, name or each.host, files))
        if _with_tls(server.url)
        else each
        for each, server in zip(found, plan.servers, strict=True)
    ]


def _with_tls(url: str) -> bool:
    return urlsplit(url).scheme in {"https", "grpcs"}


def identity(settings: dict[str, str], names: Sequence[str]) -> str | None:
    """Return the first of the named settings; None if the server reports none of them."""
    return next((settings[name] for name in names if settings.get(name)), None)


def is_restarted(before: Sequence[frozenset[str]], after: Sequence[frozenset[str]]) -> bool:
    """Return whether one of the servers is another process than before.

    If several answer at one address, as behind a Service, that cannot be known.
    """
    return any(
        len(was) == len(now) == 1 and was != now for was, now in zip(before, after, strict=True)
    )


def check_same_model(addresses: Sequence[str], found: Sequence[ServerDescription]) -> None:
    """Raise ModelNotServedError if servers serve different models."""
    first = _model_of(found[0])
    for address, description in zip(addresses, found, strict=True):
        other = _model_of(description)
        if other != first:
            what = next(name for name in first if first[name] != other[name])
            raise ModelNotServedError(
                f"All servers of a run must serve the same model, but its {what} is "
                f"{first[what]} at {addresses[0]} and {other[what]} at {address}."
            )


def _model_of(description: ServerDescription) -> dict[str, object]:
    return {
        **{name: description.settings.get(name, "") for name in SAME},
        "inputs": description.inputs,
        "outputs": description.outputs,
        "versions": description.versions,
    }


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
