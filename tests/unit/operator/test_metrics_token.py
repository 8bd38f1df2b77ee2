"""The operator's metrics are for clients that have the token, if there is one."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from inferometer_operator.wiring.health import Health, serve
from support.waiting import within_deadline


async def _statuses(token_file: Path | None, *sent: str | None) -> list[int]:
    runner = await serve(Health(), lambda: b"metric 1\n", 0, token_file)
    # The free ports of IPv4 and IPv6 are two, in any order.
    port = next(each[1] for each in runner.addresses if each[0] == "0.0.0.0")  # noqa: S104
    try:
        async with aiohttp.ClientSession() as session:
            found = []
            for each in sent:
                headers = {} if each is None else {"Authorization": each}
                url = f"http://127.0.0.1:{port}/metrics"
                async with session.get(url, headers=headers) as answer:
                    found.append(answer.status)
                    assert (await answer.read() == b"metric 1\n") is (answer.status == 200)
            async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                assert answer.status == 200
            return found
    finally:
        await runner.cleanup()


async def _raw_status(token_file: Path, header: bytes) -> bytes:
    runner = await serve(Health(), lambda: b"metric 1\n", 0, token_file)
    port = next(each[1] for each in runner.addresses if each[0] == "0.0.0.0")  # noqa: S104
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = (b"GET /metrics HTTP/1.1", b"Host: a", b"Authorization: " + header, b"", b"")
        writer.write(b"\r\n".join(request))
        async with within_deadline("the status line"):
            line = await reader.readline()
        writer.close()
        return line.strip()
    finally:
        await runner.cleanup()


def test_metrics_require_the_token_of_the_file(tmp_path: Path) -> None:
    """Another token, another scheme and none are refused; probes need none."""
    file = tmp_path / "token"
    file.write_text("secret\n")
    sent = ("Bearer secret", "Bearer secre", "Bearer ", "Basic secret", "Bearer \xe4", None)
    assert asyncio.run(_statuses(file, *sent)) == [200, 401, 401, 401, 401, 401]


def test_a_header_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Its bytes are compared, and no error of the operator's own is logged."""
    file = tmp_path / "token"
    file.write_text("secret")
    assert asyncio.run(_raw_status(file, b"Bearer \xff\xfe")) == b"HTTP/1.1 401 Unauthorized"


@pytest.mark.parametrize("content", [None, b"", b"\xff"], ids=["missing", "empty", "no text"])
def test_a_file_without_a_token_opens_nothing(tmp_path: Path, content: bytes | None) -> None:
    """A Secret that is missing or empty never means that no token is required."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert asyncio.run(_statuses(file, "Bearer ", "Bearer", None)) == [401, 401, 401]


def test_metrics_are_open_without_a_file() -> None:
    """NetworkPolicies restrict them then."""
    assert asyncio.run(_statuses(None, None)) == [200]
