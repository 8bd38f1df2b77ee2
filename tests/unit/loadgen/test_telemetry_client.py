"""The client of a node agent takes samples from that agent alone."""

import asyncio
import time

from inferometer_loadgen.nodes.window import AgentAnswer
from inferometer_loadgen.telemetry_client import AgentClient
from support.fake_agent import FakeAgent, answering


def _answers(agent: FakeAgent, count: int) -> list[AgentAnswer]:
    async def take() -> list[AgentAnswer]:
        client = AgentClient(agent.planned(), time.monotonic_ns)
        taken: list[AgentAnswer] = []
        try:
            for _ in range(count):
                client.sample(taken.append)
                await client.wait_until_settled()
        finally:
            await client.close()
        return taken

    return asyncio.run(take())


def test_a_redirect_is_not_followed() -> None:
    """Another host's answer is no sample of this node; the next request goes to the agent again."""
    with answering(FakeAgent(faults=lambda number: None if number else "redirect")) as agent:
        first, second = _answers(agent, 2)
    assert (first.fault, first.body) == ("gave no sample: HTTP status 302 Found", b"")
    assert (second.fault, len(agent.request_lines)) == ("", 2)
