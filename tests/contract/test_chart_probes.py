"""The charts' probes ask for pages that the programs serve."""

import asyncio
import time
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from inferometer_operator.wiring.health import Health, serve
from inferometer_telemetry.sampler import Clocks, Places, Sampler
from inferometer_telemetry.sampling_loop import SamplingLoop
from inferometer_telemetry.web import application
from support.agent_chart import agents
from support.chart import Json, of_kind, rendered

ALIVE, READY = "/healthz", "/readyz"


def probes(controller: Json) -> dict[str, str]:
    """Return the path of each probe of a controller's only container, on a port that it has."""
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    found = {name: each["httpGet"] for name, each in container.items() if name.endswith("Probe")}
    ports = {port["name"] for port in container["ports"]}
    assert {each["port"] for each in found.values()} <= ports
    return {name: each["path"] for name, each in found.items()}


def pages(served: web.Application) -> set[str]:
    """Return the paths that a program serves."""
    return {resource.canonical for resource in served.router.resources()}


def test_the_operators_probes_ask_for_its_pages() -> None:
    """It lives by one page, from its start on, and is ready by another."""

    async def served() -> set[str]:
        runner = await serve(Health(), bytes, 0)
        found = pages(runner.app)
        await runner.cleanup()
        return found

    asked = {"startupProbe": ALIVE, "livenessProbe": ALIVE, "readinessProbe": READY}
    (operator,) = of_kind(rendered(), "Deployment")
    assert probes(operator) == asked
    assert set(asked.values()) <= asyncio.run(served())


def test_the_agents_probes_ask_for_its_page(tmp_path: Path) -> None:
    """An agent that lives is ready, on nodes of either kind."""

    async def served() -> set[str]:
        places = Places(sys=None, rapl=None, proc=tmp_path, cgroup=None)
        clocks = Clocks(time.monotonic_ns, time.time_ns, lambda: "first")
        sampler = Sampler(places, None, node="n", version="1", clocks=clocks)
        return pages(application(sampler, SamplingLoop(sampler, 1.0), CollectorRegistry()))

    asked = {"readinessProbe": ALIVE, "livenessProbe": ALIVE}
    both = of_kind(agents(), "DaemonSet")
    assert [probes(each) for each in both] == [asked, asked]
    assert ALIVE in asyncio.run(served())
