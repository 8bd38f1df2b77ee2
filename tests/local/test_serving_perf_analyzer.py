"""perf_analyzer runs against the server as against Triton, and shows its statistics.

tests/install-tools installs the tool; it requests metadata, configuration and statistics before
and after its inference requests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from bench.case import PeerMissingError
from bench.model_files import TINY
from bench.perf_analyzer import Clients, PerfOptions, require_perf_analyzer, run_perf_analyzer

from support.requirements import cannot_run
from support.serving_process import ServerProcess, serving

REQUESTS = 200
BATCHING = ("--max-batch-size", "8", "--max-delay-microseconds", "2000")


@dataclass(frozen=True)
class Batching:
    """A server, and whether it joins requests."""

    process: ServerProcess
    is_on: bool


@pytest.fixture(scope="module", params=[(), BATCHING], ids=["one by one", "batching"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Batching]:
    """Serve the tiny model, without batching and with it."""
    try:
        require_perf_analyzer()
    except PeerMissingError as error:
        cannot_run(str(error))
    model = TINY.write(tmp_path_factory.mktemp("tiny"))
    with serving(model, *request.param) as process:
        yield Batching(process, is_on=bool(request.param))


def _figure(report: str, name: str) -> int:
    found = re.search(rf"{name}: (\d+)", report)
    assert found is not None, report
    return int(found[1])


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
@pytest.mark.parametrize("is_async", [False, True])
def test_it_measures_and_shows_the_servers_statistics(
    server: Batching, protocol: Literal["HTTP", "GRPC"], *, is_async: bool
) -> None:
    """Requests are answered, and what the server counted of them is shown, all of it."""
    process, batched = server.process, server.is_on
    port = process.http_port if protocol == "HTTP" else process.grpc_port
    extra = ("-b", "2", "--shape", "x:4") if batched else ()
    load = Clients(8, is_async=is_async)
    options = PerfOptions(port, load, protocol=protocol, requests=REQUESTS, extra=("-v", *extra))
    report = run_perf_analyzer(options).report
    answered = _figure(report, "Successful request count")
    assert answered > REQUESTS // 2  # it looks at the figures once its first ones are on their way
    assert _figure(report, "Inference count") == answered * (2 if batched else 1)
    executions = _figure(report, "Execution count")
    assert executions < answered if batched else executions == answered
    assert re.search(r"queue \d+ usec \+ compute input \d+ usec \+ compute infer \d+ usec", report)
