"""The pods that a run would have and the resources that they request.

The operator's own manifests make them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.preflight.check import Json
from inferometer_cli.preflight.resource_amounts import Amounts, amounts
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.settings import Settings

LOAD = "load generator"


@dataclass(frozen=True, slots=True)
class Pods:
    """Several equal pods."""

    name: str
    """The server, the load generator."""
    count: int
    spec: Json
    """A PodSpec."""

    @property
    def containers(self) -> Iterator[Json]:
        """Every container, init containers first."""
        yield from self.spec.get("initContainers", ())
        yield from self.spec["containers"]

    @property
    def requests(self) -> Amounts:
        """The resources that the scheduler must find for one pod."""
        return _effective(self.spec, "requests")

    @property
    def limits(self) -> Amounts:
        """The resources that one pod may use at most."""
        return _effective(self.spec, "limits")


def pods_of(run: BenchmarkRun, settings: Settings) -> tuple[Pods, ...]:
    """Return the pods of a resolved run. Raises AddressError for an invalid address."""
    owner = Owner(run.name, run.metadata.namespace or "default", "preflight")
    job = load_job(run, owner, settings)["spec"]
    load = Pods(LOAD, job["completions"], job["template"]["spec"])
    if not is_launched(run.spec):
        return (load,)
    server = server_job(run, owner, settings)["spec"]
    return (
        Pods("server", server["completions"], server["template"]["spec"]),
        load,
    )


def _effective(spec: Json, kind: str) -> Amounts:
    """Return the sum over containers or the largest init container, whichever is more."""
    total: Amounts = {}
    for container in spec["containers"]:
        for name, value in amounts(container.get("resources", {}).get(kind)).items():
            total[name] = total.get(name, value * 0) + value
    for container in spec.get("initContainers", ()):
        for name, value in amounts(container.get("resources", {}).get(kind)).items():
            total[name] = max(total.get(name, value), value)
    return total
