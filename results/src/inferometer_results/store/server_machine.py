"""The machine of a result's servers: known by themselves, their agents, or because it is shared."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL
from inferometer_api.results.result import (
    ClusterNode,
    Environment,
    NodeTelemetry,
    ResultDocument,
)

_Value = TypeVar("_Value", bound=str | int)


@dataclass(frozen=True, slots=True)
class ServerMachine:
    """The machine of the servers, or the machines if they differ; "" is an unknown part.

    A document describes the machine of the load generator (`Environment.node`). It is that of the
    servers in a local run, and in a cluster if they ran on the load generator's node.
    """

    nodes: tuple[str, ...] = ()
    """Their names, sorted."""
    cpu: str = ""
    """The model, as `cpus`, `memory` and `kernel` as people read it."""
    cpus: str = ""
    memory: str = ""
    instruction_set: str = ""
    kernel: str = ""
    gpus: tuple[str, ...] = ()
    """The models of their GPUs, sorted, each once."""
    is_on_gpu: bool = False
    instance_types: str = ""
    """The machine types of their cloud, if all nodes are known by one."""

    @property
    def gpu(self) -> str:
        """Return the models of the GPUs in one text."""
        return ", ".join(self.gpus)

    @property
    def text(self) -> str:
        """Return its class: machines that differ in none of these are alike.

        If a part is not known, the names of the nodes stand for it.
        """
        parts = (self.cpu, self.cpus, self.memory, self.instruction_set, self.kernel)
        return ", ".join(filter(None, (*parts, *self.gpus, self._unknown())))

    def _unknown(self) -> str:
        parts = {
            "CPU": self.cpu,
            "number of CPUs": self.cpus,
            "memory": self.memory,
            "kernel": self.kernel,
            "GPU": self.gpu or not self.is_on_gpu,
        }
        missing = " and ".join(name for name, value in parts.items() if not value)
        return f"unknown {missing} of {' and '.join(self.nodes) or 'its node'}" if missing else ""


def server_machine(document: ResultDocument) -> ServerMachine:
    """Return the machine of a result's servers, as far as its document knows it."""
    environment = document.environment
    if environment is None:
        return ServerMachine()
    spec, node = document.run.spec.server, environment.node
    named = {each.node for each in environment.server.replicas if each.node}
    is_shared = environment.place == "Local" or named == {node.hostname}
    gibibytes = {f"{each} GiB" for each in _settings(environment, "memory_gibibytes")}
    kernels = {_minor(each) for each in _settings(environment, "kernel")}
    found = ServerMachine(
        nodes=tuple(sorted(named or ({node.hostname} if is_shared else set()))),
        cpu=_joined(_settings(environment, "cpu_model")),
        instruction_set=_joined(_settings(environment, "instruction_set")),
        is_on_gpu=spec.device == "GPU",
        instance_types=_joined(_known(e.instance_type for e in _cluster_nodes(environment))),
    )
    if is_shared:
        return ServerMachine(
            found.nodes,
            found.cpu or node.cpu_model,
            f"{node.cpu_count} CPUs",
            _gibibytes(node.memory_bytes),
            found.instruction_set or node.architecture,
            _minor(node.kernel),
            tuple(sorted(set(node.gpus))),
            found.is_on_gpu,
            found.instance_types,
        )
    gpus = {name for each in _settings(environment, "gpus") for name in _names(each)}
    seen = _cluster_nodes(environment)
    counts = (
        set(_settings(environment, "cpu_count"))
        or _counts(document, named)
        or {str(each) for each in _known(each.cpu_count for each in seen)}
    )
    capacities = _known(each.memory_bytes for each in seen)
    return ServerMachine(
        found.nodes,
        found.cpu,
        _joined(f"{each} CPUs" for each in counts),
        _joined(gibibytes or map(_gibibytes, capacities)),
        found.instruction_set,
        _joined(kernels or map(_minor, _known(each.kernel for each in seen))),
        tuple(sorted(gpus or _known(each.gpu_model for each in seen if found.is_on_gpu))),
        found.is_on_gpu,
        found.instance_types,
    )


def node_labels(document: ResultDocument) -> dict[str, str]:
    """Return the labels that a run required of its servers' nodes, and their one instance type."""
    environment = document.environment
    nodes = [] if environment is None else _cluster_nodes(environment)
    types = _known(each.instance_type for each in nodes)
    known = {INSTANCE_TYPE_LABEL: types.pop()} if len(types) == 1 else {}
    return {**document.run.spec.server.placement.node_selector, **known}


def _cluster_nodes(environment: Environment) -> list[ClusterNode]:
    """Return what the cluster knows of the servers' nodes, if it knows all of them."""
    found = [each.cluster_node for each in environment.server.replicas]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def _known(values: Iterable[_Value | None]) -> set[_Value]:
    """Return the different values if all are known, otherwise none of them."""
    found = list(values)
    known = {each for each in found if each}
    return known if all(found) else set()


def _settings(environment: Environment, name: str) -> Iterator[str]:
    """Yield a setting of each server that reports it; those of the first hold for the others."""
    server = environment.server
    for settings in ({}, *(each.settings for each in server.replicas[1:])):
        value = settings.get(name, server.settings.get(name, ""))
        if value:
            yield value


def _counts(document: ResultDocument, nodes: set[str]) -> set[str]:
    """Return the numbers of CPUs that the agents of these nodes report, if all do."""
    found = {
        each.node: str(each.cpu_count)
        for each in _telemetry(document)
        if each.node in nodes and each.cpu_count
    }
    return set(found.values()) if nodes and found.keys() == nodes else set()


def _telemetry(document: ResultDocument) -> Iterator[NodeTelemetry]:
    for scenario in document.scenarios:
        for step in scenario.steps:
            yield from step.telemetry


def _gibibytes(size: int) -> str:
    return f"{round(size / 2**30)} GiB"


def _minor(kernel: str) -> str:
    return f"Linux {'.'.join(kernel.split('.')[:2])}"


def _names(text: str) -> Iterator[str]:
    return filter(None, text.split(", "))


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(filter(None, values))))
