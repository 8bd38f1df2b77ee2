"""Which server is launched, on what, and with which settings?"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import (
    CpuQuantity,
    DnsLabel,
    Document,
    Integral,
    MemoryQuantity,
    NullsAbsent,
)
from inferometer_api.rules import Rule, exactly_one
from inferometer_api.spec.server_url import URL_RULES

Runtime = Literal["OnnxRuntime", "Triton", "MLServer", "KServe", "External"]
Device = Literal["CPU", "GPU"]

MAXIMUM_THREADS = 1024

_QualifiedName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=317,
        pattern=patterns.QUALIFIED_NAME,
    ),
]
_LabelValue = Annotated[
    str,
    StringConstraints(max_length=63, pattern=patterns.LABEL_VALUE),
]


class Gpu(Document):
    """Which GPUs a server pod asks for."""

    resource: _QualifiedName = "nvidia.com/gpu"
    """The extended resource to ask for: nvidia.com/gpu, or a MIG slice such as \
nvidia.com/mig-1g.10gb."""

    count: Annotated[int, Field(ge=1, le=16), Integral] = 1
    """How many of them each replica gets."""


class Batching(Document):
    """How the server joins requests into batches. Absent: requests are never joined."""

    max_batch_size: Annotated[int, Field(ge=1, le=4096), Integral]
    """The most samples in a joined batch and in a single request."""

    max_delay_microseconds: Annotated[int, Field(ge=0, le=60_000_000), Integral] = 0
    """How long a request may wait for others to join it."""


class Resources(Document):
    """What each server pod requests, which is also its limit (QoS class Guaranteed)."""

    cpu: CpuQuantity = "1"
    """CPU cores: 2, "0.5" or "500m"."""

    memory: MemoryQuantity = "2Gi"
    """Memory: "512Mi", "2Gi"."""


class Toleration(Document):
    """A taint that the server pods tolerate, as in a pod's spec."""

    key: _QualifiedName | None = None
    """The taint's key; absent with operator Exists: every key."""

    operator: Literal["Exists", "Equal"] = "Equal"
    """Equal compares the value too; Exists does not."""

    value: _LabelValue | None = None
    """The taint's value, with operator Equal."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; absent: every effect."""

    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] | None = None
    """How long a NoExecute taint is tolerated; absent: for ever."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.key) || self.operator == 'Exists'",
            message="without a key the operator must be Exists",
            holds=lambda toleration: toleration.key is not None or toleration.operator == "Exists",
            field="operator",
        ),
        Rule(
            cel="!has(self.value) || self.operator == 'Equal'",
            message="value is only for operator Equal",
            holds=lambda toleration: toleration.value is None or toleration.operator == "Equal",
            field="value",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
            message="tolerationSeconds is only for effect NoExecute",
            holds=lambda toleration: (
                toleration.toleration_seconds is None or toleration.effect == "NoExecute"
            ),
            field="tolerationSeconds",
        ),
    )


class Placement(Document):
    """On which nodes the server pods may run. The load generator is placed by the operator."""

    node_selector: Annotated[dict[_QualifiedName, _LabelValue], NullsAbsent] = Field(
        default_factory=dict, max_length=16
    )
    """Labels that a node must carry."""

    tolerations: list[Toleration] = Field(default_factory=list, max_length=16)
    """Taints that are tolerated."""


class ServiceTarget(Document):
    """A Service of the run's own namespace."""

    name: DnsLabel
    """Name of the Service."""

    port: Annotated[int, Field(ge=1, le=65535), Integral]
    """Port of the Service that speaks `load.protocol`."""


class External(Document):
    """A server that already serves. Set exactly one member."""

    service: ServiceTarget | None = None
    """A Service of the same namespace."""

    url: (
        Annotated[
            str,
            StringConstraints(max_length=2048, pattern=patterns.SERVER_URL),
        ]
        | None
    ) = None
    """http://HOST:PORT, https://, grpc:// or grpcs://. In a cluster only what the operator's \
allow-list names."""

    constraints: ClassVar[tuple[Rule, ...]] = (exactly_one(("service", "url")), *URL_RULES)


class Server(Document):
    """The inference server under test."""

    @property
    def known_device(self) -> str:
        """The device of a server that Inferometer launches; "": an External one keeps its own."""
        return self.device if self.external is None else ""

    runtime: Runtime = "OnnxRuntime"
    """What serves the model: OnnxRuntime (ours), Triton, MLServer, KServe, or External: something \
that already serves."""

    device: Device = "CPU"
    """CPU or GPU. With GPU the run fails when the graph cannot be placed on the GPU at all."""

    gpu: Gpu | None = None
    """Which GPUs, with device GPU. Absent: one nvidia.com/gpu."""

    replicas: Annotated[int, Field(ge=1, le=64), Integral] = 1
    """Server pods. Requests are shared evenly among them. Local runs have one."""

    instances: Annotated[int, Field(ge=1, le=64), Integral] = 1
    """Model instances (sessions) within one server."""

    threads: Annotated[int, Field(ge=1, le=MAXIMUM_THREADS), Integral] | None = None
    """Threads that one inference may use. Absent: whole CPUs of resources.cpu less one, at least \
one."""

    batching: Batching | None = None
    """Dynamic batching. Absent: requests are never joined, and any batch that the model takes is \
served."""

    resources: Resources = Field(default_factory=Resources)
    """CPU and memory of each server pod. Not enforced in local runs."""

    placement: Placement = Field(default_factory=Placement)
    """On which nodes the server may run. Not used in local runs."""

    external: External | None = None
    """Where the server is, with runtime External."""

    ready_deadline_seconds: Annotated[int, Field(ge=1, le=86_400), Integral] = 300
    """How long the server may take from its start until it is ready. Past it the run is Failed."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.external) == (self.runtime == 'External')",
            message="external is set just when runtime is External",
            holds=lambda server: (server.external is not None) == (server.runtime == "External"),
            field="external",
        ),
        Rule(
            cel="!has(self.gpu) || self.device == 'GPU'",
            message="gpu is only for device GPU",
            holds=lambda server: server.gpu is None or server.device == "GPU",
            field="gpu",
        ),
        Rule(
            cel="self.runtime != 'External' || !has(self.threads) && !has(self.batching) && "
            "self.device == 'CPU' && self.replicas == 1 && self.instances == 1",
            message="device, replicas, instances, threads and batching are settings of a server "
            "that Inferometer launches; an External server keeps its own: leave them out",
            holds=lambda server: (
                server.runtime != "External"
                or (
                    server.threads is None
                    and server.batching is None
                    and (server.device, server.replicas, server.instances) == ("CPU", 1, 1)
                )
            ),
        ),
    )
