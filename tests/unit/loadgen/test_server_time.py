"""The time in the servers is the difference of their statistics at the window's edges."""

import asyncio
from typing import Any

import pytest

from inferometer_api.results.result import ServedStep, ServerTime
from inferometer_loadgen.run.server_sampling import ServerSampling
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.statistics import ServerCounters, read_counters, server_time
from inferometer_serving.statistics import Statistics

PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


def _document(requests: int, executions: int, *nanoseconds: int, text: bool = False) -> Any:
    """Return an answer of a server; `nanoseconds` are those of each part in all."""
    write = str if text else int
    durations = {
        part: {"count": write(requests), "ns": write(each)}
        for part, each in zip(PARTS, nanoseconds, strict=True)
    }
    stats = {"success": {"count": write(requests), "ns": write(sum(nanoseconds))}, **durations}
    return {"model_stats": [{"execution_count": write(executions), "inference_stats": stats}]}


@pytest.mark.parametrize("text", [False, True])
def test_the_difference_is_a_mean_per_request(text: bool) -> None:  # noqa: FBT001 - a case of the test
    """Each part is its nanoseconds by its requests, over HTTP and over gRPC."""
    begin = read_counters(_document(100, 100, 7_000, 800, 900_000, 10, text=text))
    end = read_counters(_document(300, 150, 27_000, 1_000, 2_900_000, 410, text=text))
    assert server_time([begin], [end]) == ServerTime(
        requests=200,
        executions=50,
        queue_nanoseconds=100,
        compute_input_nanoseconds=1,
        compute_infer_nanoseconds=10_000,
        compute_output_nanoseconds=2,
    )


def test_several_servers_are_one() -> None:
    """The requests of all replicas count alike."""
    zero = read_counters(_document(0, 0, 0, 0, 0, 0))
    ends = [read_counters(_document(n, n, 1000 * n * n, 0, 0, 0)) for n in (1, 3)]
    found = server_time([zero, zero], ends)
    assert found is not None
    assert (found.requests, found.queue_nanoseconds) == (4, 2500)


def test_a_server_that_computed_nothing_yet_leaves_zeros_out() -> None:
    """GRPC leaves out numbers that are 0, and Triton whole parts."""
    empty = read_counters({"model_stats": [{"inference_stats": {}}]})
    assert empty is not None
    end = read_counters(_document(2, 2, 0, 2, 2, 2))
    assert server_time([empty], [end]) is not None


def test_there_is_none_after_a_restart() -> None:
    """Counters that fell were reset, so that the difference means nothing."""
    before = read_counters(_document(100, 100, 7_000, 800, 900_000, 10))
    after = read_counters(_document(150, 150, 6_000, 900, 950_000, 20))
    assert server_time([before], [after]) is None
    assert server_time([after], [before]) is None
    assert server_time([before], [before]) is None
    assert server_time([before], [None]) is None


@pytest.mark.parametrize("document", [None, 1, {}, {"model_stats": 1}, {"model_stats": [{}]}])
def test_other_answers_are_unknown(document: Any) -> None:
    """What is not the extension's document is no figure, and no error."""
    assert read_counters(document) is None


def test_the_statistics_of_our_server_are_read() -> None:
    """The server's own document has what the load generator reads."""
    statistics = Statistics()

    def counters() -> ServerCounters | None:
        return read_counters({"model_stats": [statistics.to_document("m", "1")]})

    zero = counters()
    statistics.count_inline_runs(4, 2, input_ns=20, infer_ns=3000, output_ns=100, last_ms=1)
    found = server_time([zero], [counters()])
    assert found == ServerTime(
        requests=2,
        executions=2,
        queue_nanoseconds=0,
        compute_input_nanoseconds=10,
        compute_infer_nanoseconds=1500,
        compute_output_nanoseconds=50,
    )


class _Control:
    """A server whose counters grow by 10 requests of 1 us at each sample."""

    def __init__(self) -> None:
        self.samples = 0

    async def statistics(self) -> Any:
        self.samples += 1
        count = 10 * self.samples
        return _document(count, count, count * 1000, 0, 0, 0)

    async def close(self) -> None:
        """Do nothing."""


class _Servers:
    def __init__(self, count: int) -> None:
        self.all = [_Control() for _ in range(count)]

    def controls(self) -> list[_Control]:
        return self.all


def _description(*extensions: str) -> ServerDescription:
    return ServerDescription("s", "1", [*extensions], [], [], [])


@pytest.mark.parametrize(
    ("extensions", "requests"), [((["statistics"], ["statistics"]), 20), ((["statistics"], []), 0)]
)
def test_each_window_has_a_sample_at_both_edges(
    extensions: tuple[list[str], list[str]], requests: int
) -> None:
    """A step's samples are of its own edges, and there are none unless all servers have them."""

    async def measured() -> tuple[ServerTime | None, ServerTime | None]:
        servers: Any = _Servers(2)
        sampling = ServerSampling(servers, [_description(*each) for each in extensions])
        step = sampling.step()
        step.begin_window()
        await asyncio.sleep(0)
        step.end_window()
        whole = await step.time()
        cut_short = sampling.step()
        cut_short.begin_window()
        return whole, await cut_short.time()

    whole, cut_short = asyncio.run(measured())
    assert (0 if whole is None else whole.requests) == requests
    assert cut_short is None


def _steps(text: type = int, **steps: tuple[int, int, int]) -> dict[str, Any]:
    """Return the statistics of steps by name: requests, nanoseconds in all, failed requests."""
    return {
        name: {
            "success": {"count": text(count), "ns": text(ns)},
            "fail": {"count": text(failed)} if failed else {},
        }
        for name, (count, ns, failed) in steps.items()
    }


@pytest.mark.parametrize("text", [int, str])
def test_steps_around_the_model_are_means_in_their_order(text: type) -> None:
    """A step that no request went through is 0; entries of the extension that are none are not.

    Requests that failed between the steps and the model are counted by themselves.
    """
    begin, end = (_document(count, count, 0, 0, 0, 0) for count in (10, 20))
    begin["model_stats"][0]["response_stats"] = _steps(text, topK=(10, 100, 0))
    end["model_stats"][0]["response_stats"] = _steps(
        text, topK=(20, 300, 0), decode=(20, 60_000, 2), other=(1, 1, 1), fit=(0, 0, 4)
    )
    found = server_time([read_counters(begin)], [read_counters(end)], ["decode", "crop", "topK"])
    assert found is not None
    assert found.steps == [
        ServedStep(step="decode", nanoseconds=3000, share=3000 / 3020, failed=2),
        ServedStep(step="crop", nanoseconds=0),
        ServedStep(step="topK", nanoseconds=20, share=20 / 3020),
        ServedStep(step="fit", nanoseconds=0, failed=4),
    ]


def test_a_server_without_steps_has_none() -> None:
    """Whatever it reports of its responses."""
    begin, end = (_document(count, count, 0, 0, 0, 0) for count in (10, 20))
    end["model_stats"][0]["response_stats"] = _steps(decode=(20, 60_000, 2))
    found = server_time([read_counters(begin)], [read_counters(end)])
    assert found is not None
    assert found.steps == []
