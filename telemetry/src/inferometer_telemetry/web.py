"""The agent's HTTP endpoints."""

import math
import time
from collections.abc import Sequence
from ipaddress import ip_address

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from inferometer_api.metrics.exposition import CONTENT_TYPE
from inferometer_api.results.agent_sample import MAX_WORKLOADS, SAMPLE_PATH
from inferometer_telemetry.request_rate import RequestRate
from inferometer_telemetry.sampler import Sampler
from inferometer_telemetry.sampling_loop import SamplingLoop
from inferometer_telemetry.sources import Target
from inferometer_telemetry.targets import POD_UID

_HIGHEST_PROCESS_ID = 2**22
"""Linux gives no higher one (PID_MAX_LIMIT)."""

_NO_PROCESSES = (
    "This agent reports pods only: it names processes by number only if it listens on loopback "
    "(--host 127.0.0.1)."
)


class RefusedQueryError(ValueError):
    """A query names an invalid target."""


def application(
    sampler: Sampler,
    watch: SamplingLoop,
    registry: CollectorRegistry,
    *,
    takes_processes: bool = False,
) -> web.Application:
    """Return the agent's pages: samples, metrics, health.

    Clients can name processes by number only with `takes_processes`: on a node with pods of others
    that would report any process to any pod.
    """
    rate = RequestRate(time.monotonic_ns)

    async def sample(request: web.Request) -> web.Response:
        try:
            requested = targets(
                request.query.getall("pod", []), request.query.getall("process", [])
            )
        except RefusedQueryError as error:
            return web.json_response({"error": str(error)}, status=400)
        if not takes_processes and any(each.process_id is not None for each in requested):
            return web.json_response({"error": _NO_PROCESSES}, status=403)
        if (wait_seconds := rate.wait_seconds(request.remote or "", len(requested))) > 0:
            return _too_many(wait_seconds)
        body = sampler.sample(requested).model_dump_json(exclude_none=True)
        return web.Response(text=body, content_type="application/json")

    async def metrics(request: web.Request) -> web.Response:
        if (wait_seconds := rate.wait_seconds(f"{request.remote} metrics", MAX_WORKLOADS)) > 0:
            return _too_many(wait_seconds)
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE})

    async def health(_: web.Request) -> web.Response:
        age = round(watch.age_seconds(), 3)
        body = {"healthy": not watch.is_late, "sampleAgeSeconds": age}
        return web.json_response(body, status=503 if watch.is_late else 200)

    pages = web.Application(client_max_size=1024)
    pages.router.add_get(SAMPLE_PATH, sample)
    pages.router.add_get("/metrics", metrics)
    pages.router.add_get("/healthz", health)
    return pages


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address that an agent listens at."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _too_many(wait_seconds: float) -> web.Response:
    sentence = "This client's requests are too many: read each pod once a second."
    headers = {"Retry-After": str(math.ceil(wait_seconds))}
    return web.json_response({"error": sentence}, status=429, headers=headers)


def targets(pods: Sequence[str], processes: Sequence[str]) -> list[Target]:
    """Return the targets that a query names, each once. Raises RefusedQueryError."""
    if len(pods) + len(processes) > MAX_WORKLOADS:
        raise RefusedQueryError(
            f"{len(pods) + len(processes)} targets were requested: request {MAX_WORKLOADS} at most "
            "in one request."
        )
    requested = [*map(_pod, pods), *map(_process, processes)]
    return list(dict.fromkeys(requested))


def _pod(uid: str) -> Target:
    if not POD_UID.fullmatch(uid):
        raise RefusedQueryError(
            f"pod={uid[:80]!r} is no pod's UID: it is metadata.uid, as "
            "0f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a10."
        )
    return Target(pod_uid=uid)


def _process(number: str) -> Target:
    is_number = number.isascii() and number.isdecimal() and len(number) <= 7
    if not is_number or not 1 <= int(number) <= _HIGHEST_PROCESS_ID:
        raise RefusedQueryError(
            f"process={number[:80]!r} is no process's ID: it is a whole number from 1 to "
            f"{_HIGHEST_PROCESS_ID}."
        )
    return Target(process_id=int(number))
