"""What a suite requires that is not done in a place: on one machine, or in a cluster."""

from collections.abc import Iterator

from inferometer_api.runtimes.descriptor import Place
from inferometer_api.suite.spec import BenchmarkSuite


def unavailable_suite(suite: BenchmarkSuite, place: Place) -> Iterator[str]:
    """Yield a sentence for each field that a place does not support."""
    if place == "Cluster" and suite.spec.reuse:
        yield (
            "spec.reuse: for local runs only. Before a run starts, an operator knows neither its "
            "node nor the digest of its image, and it may not read stored results. Omit it, or "
            "use `inferometer run`."
        )
    for name in ("suspend", "cancel"):
        if place == "Local" and getattr(suite.spec, name):
            yield f"spec.{name}: a local suite is stopped by Ctrl-C and repeated later. Omit it."
