"""The agent, from its command line to its exit code.

Once it listens, it prints one line of JSON on standard output, `{"event": "listening",
"port": N}`; its log goes to standard error.
"""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector

from inferometer_api.nodes.cache_statistics import CacheStatistics, read_cache_statistics
from inferometer_telemetry.gpu.deadline import DeadlineSource
from inferometer_telemetry.gpu.source import open_gpus
from inferometer_telemetry.metrics import NodeMetrics
from inferometer_telemetry.options import Options, options
from inferometer_telemetry.sampler import Clocks, Places, Sampler
from inferometer_telemetry.sampling_loop import SamplingLoop
from inferometer_telemetry.web import application, is_loopback

_EXIT_DONE, _EXIT_REFUSED = 0, 2
_END_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve samples until SIGTERM or SIGINT, and return the exit code.

    0: stopped by a signal; 2: it cannot listen on the address.
    """
    return asyncio.run(_serve(options(arguments)))


async def _serve(requested: Options) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    sampler = _sampler(requested)
    watch = SamplingLoop(sampler, requested.interval_seconds)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    file = requested.model_cache_statistics
    registry.register(NodeMetrics(sampler.scrape, partial(_cache_statistics, file)))
    runner = web.AppRunner(
        application(sampler, watch, registry, takes_processes=is_loopback(requested.host)),
        access_log=None,
        shutdown_timeout=_END_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, _listen(requested.host, requested.port)).start()
    except OSError as error:
        where = f"{requested.host}:{requested.port}"
        sys.stderr.write(f"refused: The agent cannot listen at {where}: {error.strerror}.\n")
        await runner.cleanup()
        return _EXIT_REFUSED
    watching = asyncio.create_task(watch.run())
    try:
        await watch.begun.wait()
        event = {"event": "listening", "port": runner.addresses[0][1]}
        sys.stdout.buffer.write(orjson.dumps(event) + b"\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        watching.cancel()
        await runner.cleanup()
        sampler.close()
    return _EXIT_DONE


def _cache_statistics(file: Path | None) -> CacheStatistics | None:
    """Return the counters of the node's model cache, None if there are none."""
    try:
        return None if file is None else read_cache_statistics(file.read_text())
    except (OSError, ValueError):
        return None


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; without a host at every address, IPv4 and, if there, IPv6."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return socket.create_server(address, family=family)


def _sampler(requested: Options) -> Sampler:
    off = requested.off
    places = Places(
        rapl=None if "rapl" in off else requested.sys_root,
        sys=None if "node" in off else requested.sys_root,
        proc=requested.proc_root,
        cgroup=None if "cgroup" in off else requested.cgroup_root,
    )
    gpus = None if "nvml" in off else DeadlineSource(open_gpus(requested.nvml_root))
    clocks = Clocks(time.monotonic_ns, time.time_ns, lambda: str(uuid4()))
    return Sampler(places, gpus, node=requested.node, version=version("inferometer"), clocks=clocks)
