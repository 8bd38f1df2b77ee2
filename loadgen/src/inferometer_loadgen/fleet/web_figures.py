"""What does Locust's web page show of a step?"""

from collections.abc import Callable
from dataclasses import dataclass

from inferometer_loadgen.fleet.relay import Show
from inferometer_loadgen.record.histogram import highest_of
from inferometer_loadgen.record.windows import Tally

_NS_PER_MS = 1_000_000
_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class ShownStep:
    """Shows the seconds of a step; `show` takes them."""

    name: str
    """Of the scenario and its step."""
    protocol: str
    show: Callable[[Show], None] | None
    """None: nobody looks, and nothing is worked out."""

    def second(self, tally: Tally) -> None:
        """Show a second that is over."""
        latencies = tally.latencies
        if self.show is not None:
            milliseconds = [
                round(min(highest_of(bucket), tally.max_ns) / _NS_PER_MS, _DECIMALS)
                for bucket in latencies.buckets.tolist()
            ]
            counts = latencies.counts.tolist()
            self.show(Show(self.name, self.protocol, milliseconds, counts, tally.failed, True))

    def over(self) -> None:
        """Show that nothing is measured any more."""
        if self.show is not None:
            self.show(Show(self.name, self.protocol, [], [], 0, False))
