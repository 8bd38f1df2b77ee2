"""Cost of other Python clients that keep a number of requests outstanding.

    python -m bench.python_clients Locust --port 8000 --clients 8 --seconds 3

Locust's FastHttpUser posts bytes made before; tritonclient is used as its examples use it, each
reply read into an array. It says requests, wall and CPU seconds, its start not counted.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

from bench.model_files import TINY

RawCost = tuple[int, float, float]
"""Requests, wall and CPU seconds."""


def locust(port: int, clients: int, seconds: float) -> RawCost:
    """Run Locust's FastHttpUser, one for each client."""
    import gevent  # type: ignore[import-untyped]  # noqa: PLC0415 - only where it is measured; ships no types
    from locust import FastHttpUser, task  # noqa: PLC0415 - it patches the whole process
    from locust.env import Environment  # noqa: PLC0415 - as above

    body, headers = _http_request()

    class User(FastHttpUser):
        host = f"http://127.0.0.1:{port}"

        @task
        def infer(self) -> None:
            """Send the one request."""
            self.client.post(
                f"/v2/models/{TINY.name}/infer",
                data=body,  # type: ignore[arg-type]  # it takes bytes as well as text
                headers=headers,
            )

    environment = Environment(user_classes=[User])
    runner = environment.create_local_runner()
    runner.start(clients, spawn_rate=clients)
    while runner.user_count < clients or not environment.stats.total.num_requests:
        gevent.sleep(0.1)
    before, wall, cpu = environment.stats.total.num_requests, perf_counter(), process_time()
    gevent.sleep(seconds)
    total = environment.stats.total
    cost = (total.num_requests - before, perf_counter() - wall, process_time() - cpu)
    failed = total.num_failures
    runner.quit()
    if failed:
        raise SystemExit(f"{failed} of Locust's requests failed.")
    return cost


def _http_request() -> tuple[bytes, dict[str, str]]:
    from bench.traffic import request_of  # noqa: PLC0415 - after the patches that Locust makes

    request = request_of(TINY, "HTTP")
    length = str(request.json_length)
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": length,
    }
    return request.payload, headers


def triton_http(port: int, clients: int, seconds: float) -> RawCost:
    """Run tritonclient.http, a greenlet for each client."""
    import gevent  # noqa: PLC0415 - only where it is measured
    import tritonclient.http as triton  # type: ignore[import-untyped]  # noqa: PLC0415 - as above; ships no types

    client = triton.InferenceServerClient(f"127.0.0.1:{port}", concurrency=clients)
    given = triton.InferInput(TINY.input.name, list(TINY.shape), TINY.input.datatype)
    given.set_data_from_numpy(TINY.array())
    wanted = [triton.InferRequestedOutput(TINY.output.name, binary_data=True)]
    count = 0

    def work(until: float) -> None:
        nonlocal count
        while perf_counter() < until:
            client.infer(TINY.name, [given], outputs=wanted).as_numpy(TINY.output.name)
            count += 1

    def run(duration: float) -> None:
        until = perf_counter() + duration
        gevent.joinall([gevent.spawn(work, until) for _ in range(clients)], raise_error=True)

    return _measure(run, lambda: count, seconds)


def triton_grpc(port: int, clients: int, seconds: float) -> RawCost:
    """Run tritonclient.grpc.aio, a task for each client, all on its one connection."""
    import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]  # noqa: PLC0415 - only where it is measured; ships no types

    given = triton.InferInput(TINY.input.name, list(TINY.shape), TINY.input.datatype)
    given.set_data_from_numpy(TINY.array())
    count = 0

    async def work(client: Any, until: float) -> None:
        nonlocal count
        while perf_counter() < until:
            (await client.infer(TINY.name, [given])).as_numpy(TINY.output.name)
            count += 1

    async def main() -> RawCost:
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")

        async def run(duration: float) -> None:
            until = perf_counter() + duration
            await asyncio.gather(*(work(client, until) for _ in range(clients)))

        await run(0.5)
        before, wall, cpu = count, perf_counter(), process_time()
        await run(seconds)
        cost = (count - before, perf_counter() - wall, process_time() - cpu)
        await client.close()
        return cost

    return asyncio.run(main())


def _measure(run: Callable[[float], None], counted: Callable[[], int], seconds: float) -> RawCost:
    run(0.5)
    before, wall, cpu = counted(), perf_counter(), process_time()
    run(seconds)
    return counted() - before, perf_counter() - wall, process_time() - cpu


CLIENTS: dict[tuple[str, str], Callable[[int, int, float], RawCost]] = {
    ("Locust", "HTTP"): locust,
    ("tritonclient", "HTTP"): triton_http,
    ("tritonclient", "GRPC"): triton_grpc,
}


def main() -> None:
    """Run a client once, and say what it cost."""
    parser = argparse.ArgumentParser(description="Keep requests outstanding and report the cost.")
    parser.add_argument("client", choices=sorted({name for name, _ in CLIENTS}))
    parser.add_argument("--protocol", choices=["HTTP", "GRPC"], default="HTTP")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    client = CLIENTS.get((options.client, options.protocol))
    if client is None:
        raise SystemExit(f"{options.client} does not speak {options.protocol}.")
    requests, wall, cpu = client(options.port, options.clients, options.seconds)
    report = {"requests": requests, "wallSeconds": wall, "cpuSeconds": cpu}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
