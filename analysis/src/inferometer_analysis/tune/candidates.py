"""Candidates of a search: engine, precision, threads, instances and batching of a server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Engine = tuple[str, str]
"""A runtime and a precision of spec.server."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One combination of settings."""

    runtime: str
    precision: str
    threads: int
    instances: int
    max_batch_size: int = 0
    """0: requests are not joined."""
    max_delay_microseconds: int = 0

    @property
    def label(self) -> str:
        """The settings in words."""
        precision = "" if self.precision == "Default" else f" {self.precision}"
        batching = "" if not self.max_batch_size else f", batches of up to {self.max_batch_size}"
        instances = "1 instance" if self.instances == 1 else f"{self.instances} instances"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.runtime}{precision}, {instances} of {threads}{batching}"

    @property
    def most_useful_clients(self) -> int:
        """How many requests the server can compute at the same time."""
        return self.instances * max(1, self.max_batch_size)

    @property
    def trial_clients(self) -> tuple[int, ...]:
        """Numbers of closed-loop clients among which the highest rate within a bound is."""
        return tuple(times * self.most_useful_clients for times in (1, 2, 4))

    def server(self) -> dict[str, Any]:
        """Return the fields of spec.server, in wire names."""
        found: dict[str, Any] = {
            "runtime": self.runtime,
            "precision": self.precision,
            "threads": self.threads,
            "instances": self.instances,
        }
        if self.max_batch_size:
            found["batching"] = {
                "maxBatchSize": self.max_batch_size,
                "maxDelayMicroseconds": self.max_delay_microseconds,
            }
        return found


def candidates(
    cpus: int, engines: Sequence[Engine], batch_sizes: Sequence[int], *, delay_us: int, most: int
) -> list[Candidate]:
    """Return every combination, or if there are more than `most`, those that use more CPUs.

    Threads and instances are powers of two whose product does not exceed `cpus`. `batch_sizes`
    are those of joined requests; without joining is always a candidate. Raises ValueError if
    `most` is too small for one of each engine.
    """
    found: list[Candidate] = []
    for sizes in _fewer(batch_sizes):
        for least in (1, -(-cpus // 2), cpus):
            splits = [each for each in _splits(cpus) if each[0] * each[1] >= _power_below(least)]
            found = [
                Candidate(runtime, precision, threads, instances, size, delay_us if size else 0)
                for runtime, precision in engines
                for threads, instances in splits
                for size in sizes
            ]
            if len(found) <= most:
                return found
    raise ValueError(
        f"The smallest grid has {len(found)} candidates, and at most {most} are allowed: name "
        "fewer engines or batch sizes, or allow more."
    )


def _fewer(batch_sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield without joining and all sizes, then the same with the last size dropped, and so on."""
    for count in range(len(batch_sizes), -1, -1):
        yield (0, *batch_sizes[:count])


def _splits(cpus: int) -> Iterator[tuple[int, int]]:
    threads = 1
    while threads <= cpus:
        instances = 1
        while threads * instances <= cpus:
            yield threads, instances
            instances *= 2
        threads *= 2


def _power_below(number: int) -> int:
    return 1 << (max(1, number).bit_length() - 1)
