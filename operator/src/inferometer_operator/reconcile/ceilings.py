"""The ceilings of the cluster's admin: which fields of a run are beyond them."""

from collections.abc import Iterator
from decimal import Decimal

from inferometer_api.plan.launch import fleet_pods
from inferometer_api.spec.resolve import is_launched, whole_bytes
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.exporter import EXPORTER_CPU, EXPORTER_MEMORY
from inferometer_operator.settings import Settings


def beyond_ceilings(run: BenchmarkRun, settings: Settings) -> Iterator[str]:
    """Yield a sentence for each field of a resolved run that is beyond a ceiling."""
    ceilings, spec = settings.ceilings, run.spec
    for path, name, value, ceiling in (
        (
            "activeDeadlineSeconds",
            "activeDeadlineSeconds",
            spec.active_deadline_seconds,
            ceilings.active_deadline_seconds,
        ),
        (
            "retention.ttlSecondsAfterFinished",
            "ttlSecondsAfterFinished",
            spec.retention.ttl_seconds_after_finished,
            ceilings.ttl_seconds_after_finished,
        ),
        ("server.replicas", "replicas", spec.server.replicas, ceilings.replicas),
        ("load.workers", "workers", spec.load.workers, ceilings.workers),
        ("load.connections", "connections", spec.load.connections, ceilings.connections),
    ):
        if ceiling is not None and value > ceiling:
            yield (
                f"spec.{path}: {value} is above the operator's ceiling of {ceiling} (its setting "
                f"ceilings.{name})."
            )
    yield from _beyond_in_total(run, settings)


def kept_seconds(ttl_seconds: int, settings: Settings) -> int:
    """Return how long a finished run is kept: its TTL may be raised above the ceiling later."""
    ceiling = settings.ceilings.ttl_seconds_after_finished
    return ttl_seconds if ceiling is None else min(ttl_seconds, ceiling)


def _beyond_in_total(run: BenchmarkRun, settings: Settings) -> Iterator[str]:
    """Yield a sentence for each resource that all pods of a run together request too much of."""
    ceilings, server, load = settings.ceilings, run.spec.server, settings.load.resources
    servers, loaders = server.replicas if is_launched(run.spec) else 0, fleet_pods(run)
    exporters = loaders if run.spec.retention.export is not None else 0
    counts = f"{servers} server and {loaders} load pods"
    cpus = servers * _cpus(server.resources.cpu) + loaders * _cpus(load.cpu)
    cpus += exporters * _cpus(EXPORTER_CPU)
    if ceilings.cpu is not None and cpus > _cpus(ceilings.cpu):
        yield (
            f"spec.server.resources.cpu: the run's {counts} request {cpus.normalize():f} CPUs "
            f"together, above the operator's ceiling of {ceilings.cpu} (its setting ceilings.cpu)."
        )
    size = servers * whole_bytes(server.resources.memory) + loaders * whole_bytes(load.memory)
    size += exporters * whole_bytes(EXPORTER_MEMORY)
    if ceilings.memory is not None and size > whole_bytes(ceilings.memory):
        yield (
            f"spec.server.resources.memory: the run's {counts} request {size} bytes together, "
            f"above the operator's ceiling of {ceilings.memory} (its setting ceilings.memory)."
        )
    gpus = servers * (0 if server.gpu is None else server.gpu.count)
    if ceilings.gpus is not None and gpus > ceilings.gpus:
        yield (
            f"spec.server.gpu.count: the run's {servers} server pods request {gpus} GPUs together, "
            f"above the operator's ceiling of {ceilings.gpus} (its setting ceilings.gpus)."
        )


def _cpus(quantity: str) -> Decimal:
    if quantity.endswith("m"):
        return Decimal(quantity.removesuffix("m")) / 1000
    return Decimal(quantity)
