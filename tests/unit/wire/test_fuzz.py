"""Mutated replies of real servers become errors of queries, never a crash or a hang."""

import os
import sys
from collections import Counter
from random import Random

import pytest

from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.wire import RequestTarget
from support.fuzzed_servers import QUERIES, drive_at, grpc_server, http_server

_CASES = int(os.environ.get("INFEROMETER_FUZZ_CASES", "400"))
"""For each protocol; each is a step of at least 24 queries."""
_FIRST_SEED = int(os.environ.get("INFEROMETER_FUZZ_SEED", "1"))
_SERVERS = {"HTTP": http_server, "GRPC": grpc_server}


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_every_query_is_answered_or_fails_whatever_the_server_sends(protocol: str) -> None:
    """Each step ends with all its queries accounted for; errors have known kinds."""
    kinds: Counter[str] = Counter()
    answered = 0
    for seed in range(_FIRST_SEED, _FIRST_SEED + _CASES):
        server = _SERVERS[protocol](Random(seed))  # noqa: S311 - what is to be repeated keeps no secret
        target = RequestTarget("HTTP" if protocol == "HTTP" else "GRPC", "server", 1, "m")
        try:
            tallied, end = drive_at(server, target)
            counted = tallied.latency.count + sum(tallied.errors.values())
            assert end in {End.DONE, End.SERVER_LOST}
            assert counted >= QUERIES or end is End.SERVER_LOST
        except BaseException:
            sys.stdout.write(f"{protocol}: INFEROMETER_FUZZ_SEED={seed} is the case that failed.\n")
            raise
        kinds.update(tallied.errors)
        answered += tallied.latency.count
    seeds = f"{_FIRST_SEED} to {_FIRST_SEED + _CASES - 1}"
    sys.stdout.write(f"{protocol}, seeds {seeds}: {answered} answered, failed: {dict(kinds)}.\n")
    assert answered > sum(kinds.values()) / 4
    assert {"protocol", "connection", "timeout"} <= set(kinds)
