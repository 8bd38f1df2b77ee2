"""The inference server under test: runtime, device, resources and placement."""

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

Runtime = Literal["OnnxRuntime", "OpenVino", "Triton", "MLServer", "KServe", "Custom", "External"]
TritonBackend = Literal["OnnxRuntime", "OpenVino", "Python"]
Device = Literal["CPU", "GPU"]
Precision = Literal["Default", "FP32", "BF16", "FP16", "INT8"]
Provider = Literal["CPU", "XNNPACK", "CUDA", "TensorRT", "OpenVINO"]
GraphOptimization = Literal["Disabled", "Basic", "Extended", "All"]
ExecutionMode = Literal["Sequential", "Parallel"]
GPU_PROVIDERS = ("CUDA", "TensorRT")

MAXIMUM_BATCH_SIZE = 4096
MAXIMUM_THREADS = 1024

QualifiedName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=317,
        pattern=patterns.QUALIFIED_NAME,
    ),
]
LabelValue = Annotated[
    str,
    StringConstraints(max_length=63, pattern=patterns.LABEL_VALUE),
]


class Gpu(Document):
    """GPUs of each server pod."""

    resource: QualifiedName = "nvidia.com/gpu"
    """Extended resource to request: nvidia.com/gpu, or a MIG slice such as \
nvidia.com/mig-1g.10gb."""

    count: Annotated[int, Field(ge=1, le=16), Integral] = 1
    """GPUs per replica."""


class Batching(Document):
    """Dynamic batching: how the server joins requests into batches."""

    max_batch_size: Annotated[int, Field(ge=1, le=MAXIMUM_BATCH_SIZE), Integral]
    """Maximum samples of a joined batch and of a single request."""

    max_delay_microseconds: Annotated[int, Field(ge=0, le=60_000_000), Integral] = 0
    """Microseconds that a request waits for others to join it."""


class OnnxRuntimeOptions(Document):
    """ONNX Runtime's own choices; a scenario is INVALID if its session has others."""

    provider: Provider | None = None
    """Execution provider: CPU, XNNPACK and OpenVINO with device CPU, CUDA and TensorRT with \
device GPU. Refused if the installed build does not have it. Absent: CPU, or CUDA with device \
GPU."""

    graph_optimization: GraphOptimization | None = None
    """How far the graph is rewritten before it runs. Absent: All."""

    execution_mode: ExecutionMode | None = None
    """Whether operators of different devices that do not depend on each other run at the same \
time; those of one device never do. Absent: Sequential."""

    inter_op_threads: Annotated[int, Field(ge=1, le=MAXIMUM_THREADS), Integral] | None = None
    """Threads that run operators at the same time, with executionMode Parallel. Absent: 1."""

    arena: bool | None = None
    """Whether memory on the CPU comes from an arena, which is faster and keeps it. Absent: true."""

    spinning: bool | None = None
    """Whether threads spin while they wait for work: less latency, more CPU. Absent: true."""

    prepacking: bool | None = None
    """Whether weights are rearranged for the kernels when the model is opened. With false, \
external data stays memory-mapped: the model opens at once, and the servers of a node share its \
pages; some operators then take longer (`inferometer cache` measures it). Absent: true."""

    cuda_graph: bool | None = None
    """Whether an inference is launched on the GPU as one CUDA graph, of each shape of its inputs: \
no gaps between short kernels. Refused if a node of the model computes on the CPU. Absent: false."""

    channels_last: bool | None = None
    """Whether convolutions run with the channels last in the GPU's memory, as tensor cores take \
them. Absent: false."""

    tf32: bool | None = None
    """Whether products of FP32 may be rounded to TF32 on tensor cores. Absent: true."""

    @property
    def has_choices_of_cuda(self) -> bool:
        """Whether a choice is made that only the provider CUDA has."""
        made = (self.cuda_graph, self.channels_last, self.tf32)
        return any(each is not None for each in made)

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.interOpThreads) || self.interOpThreads == 1 || "
            "has(self.executionMode) && self.executionMode == 'Parallel'",
            message="interOpThreads above 1 needs executionMode Parallel",
            holds=lambda options: (
                options.inter_op_threads in {None, 1} or options.execution_mode == "Parallel"
            ),
            field="interOpThreads",
        ),
        Rule(
            cel="!has(self.provider) || self.provider == 'CUDA' || !has(self.cudaGraph) && "
            "!has(self.channelsLast) && !has(self.tf32)",
            message="cudaGraph, channelsLast and tf32 are only for the provider CUDA",
            holds=lambda options: (
                options.provider in {None, "CUDA"} or not options.has_choices_of_cuda
            ),
            field="provider",
        ),
    )


class Resources(Document):
    """Resource requests of each server pod, which are also its limits (QoS class Guaranteed)."""

    cpu: CpuQuantity = "1"
    """CPU cores: 2, "0.5" or "500m"."""

    memory: MemoryQuantity = "2Gi"
    """Memory: "512Mi", "2Gi"."""


class Toleration(Document):
    """A taint that the server pods tolerate, as in a pod's spec."""

    key: QualifiedName | None = None
    """Key of the taint. Absent, with operator Exists: every key."""

    operator: Literal["Exists", "Equal"] = "Equal"
    """Equal compares key and value, Exists only the key."""

    value: LabelValue | None = None
    """Value of the taint, with operator Equal."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Absent: every effect."""

    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] | None = None
    """Seconds that a NoExecute taint is tolerated. Absent: forever."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.key) || has(self.operator) && self.operator == 'Exists'",
            message="without a key the operator must be Exists",
            holds=lambda toleration: toleration.key is not None or toleration.operator == "Exists",
            field="operator",
        ),
        Rule(
            cel="!has(self.value) || !has(self.operator) || self.operator == 'Equal'",
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
    """Nodes for the server pods. The operator's settings place the load generator."""

    node_selector: Annotated[dict[QualifiedName, LabelValue], NullsAbsent] = Field(
        default_factory=dict, max_length=16
    )
    """Labels that a node must have."""

    tolerations: list[Toleration] = Field(default_factory=list, max_length=16)
    """Taints that the server pods tolerate."""


class ServiceTarget(Document):
    """A Service of the run's own namespace."""

    name: DnsLabel
    """Name of the Service."""

    port: Annotated[int, Field(ge=1, le=65535), Integral]
    """Port of the Service for `load.protocol`."""


class External(Document):
    """An existing server. Set exactly one member."""

    service: ServiceTarget | None = None
    """A Service of the same namespace."""

    url: (
        Annotated[
            str,
            StringConstraints(max_length=2048, pattern=patterns.SERVER_URL),
        ]
        | None
    ) = None
    """http://HOST:PORT, https://, grpc:// or grpcs://. In a cluster it must be on the operator's \
allow-list."""

    constraints: ClassVar[tuple[Rule, ...]] = (exactly_one(("service", "url")), *URL_RULES)


class Custom(Document):
    """A server that the cluster's admin allows."""

    name: DnsLabel
    """Name of an entry of the operator's allowedServers, which holds image and arguments."""


class Server(Document):
    """The inference server under test."""

    @property
    def known_device(self) -> str:
        """The device of a launched server; empty for an External server."""
        return self.device if self.external is None else ""

    runtime: Runtime = "OnnxRuntime"
    """Program that serves the model: OnnxRuntime or OpenVino (built in: one server, two engines), \
Triton, MLServer, KServe, Custom for a server of the cluster's admin, or External for an existing \
server."""

    device: Device = "CPU"
    """CPU or GPU. With GPU, the run fails if no part of the graph can run on the GPU."""

    gpu: Gpu | None = None
    """GPUs of each server pod, with device GPU. Absent: one nvidia.com/gpu."""

    precision: Precision = "Default"
    """Precision that every layer that multiplies matrices must compute in. The engine reports the \
one that it uses; a scenario is INVALID if it is another one. Default: the engine's choice. \
OnnxRuntime computes in the types of the model; OpenVino in BF16 if the CPU can, unless FP32 is \
set."""

    triton_backend: TritonBackend | None = None
    """Triton's back end, with runtime Triton: OnnxRuntime, OpenVino, or Python, where a program \
of Inferometer's runs the model with ONNX Runtime (for builds of Triton that have no other back \
end; ONNX Runtime must be installed for Triton's Python). Absent: OnnxRuntime."""

    replicas: Annotated[int, Field(ge=1, le=64), Integral] = 1
    """Number of server pods, which share the requests evenly. 1 in local runs."""

    instances: Annotated[int, Field(ge=1, le=64), Integral] = 1
    """Model instances (sessions) in each server."""

    threads: Annotated[int, Field(ge=1, le=MAXIMUM_THREADS), Integral] | None = None
    """Threads per inference. Absent: the whole CPUs of resources.cpu minus one, at least one."""

    onnx_runtime: OnnxRuntimeOptions | None = None
    """ONNX Runtime's own choices, with runtime OnnxRuntime."""

    batching: Batching | None = None
    """Dynamic batching. Absent: requests are never joined, and their size is not limited."""

    resources: Resources = Field(default_factory=Resources)
    """CPU and memory of each server pod. Not enforced in local runs."""

    placement: Placement = Field(default_factory=Placement)
    """Nodes for the server pods. Not used in local runs."""

    external: External | None = None
    """Address of the server, with runtime External."""

    custom: Custom | None = None
    """Server of the cluster's admin, with runtime Custom."""

    ready_deadline_seconds: Annotated[int, Field(ge=1, le=86_400), Integral] = 300
    """Seconds from the server's start until it must be ready. After that the run fails."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.external) == (self.runtime == 'External')",
            message="set external if, and only if, runtime is External",
            holds=lambda server: (server.external is not None) == (server.runtime == "External"),
            field="external",
        ),
        Rule(
            cel="has(self.custom) == (self.runtime == 'Custom')",
            message="set custom if, and only if, runtime is Custom",
            holds=lambda server: (server.custom is not None) == (server.runtime == "Custom"),
            field="custom",
        ),
        Rule(
            cel="!has(self.gpu) || self.device == 'GPU'",
            message="gpu is only for device GPU",
            holds=lambda server: server.gpu is None or server.device == "GPU",
            field="gpu",
        ),
        Rule(
            cel="!has(self.onnxRuntime) || self.runtime == 'OnnxRuntime'",
            message="onnxRuntime is only for runtime OnnxRuntime",
            holds=lambda server: server.onnx_runtime is None or server.runtime == "OnnxRuntime",
            field="onnxRuntime",
        ),
        Rule(
            cel="!has(self.onnxRuntime) || !has(self.onnxRuntime.provider) || "
            "(self.onnxRuntime.provider in ['CUDA', 'TensorRT']) == (self.device == 'GPU')",
            message="the providers CUDA and TensorRT need device GPU, all others device CPU",
            holds=lambda server: (
                server.onnx_runtime is None
                or server.onnx_runtime.provider is None
                or (server.onnx_runtime.provider in GPU_PROVIDERS) == (server.device == "GPU")
            ),
            field="onnxRuntime",
        ),
        Rule(
            cel="!has(self.onnxRuntime) || self.device == 'GPU' || !has(self.onnxRuntime.cudaGraph)"
            " && !has(self.onnxRuntime.channelsLast) && !has(self.onnxRuntime.tf32)",
            message="cudaGraph, channelsLast and tf32 need device GPU",
            holds=lambda server: (
                server.onnx_runtime is None
                or server.device == "GPU"
                or not server.onnx_runtime.has_choices_of_cuda
            ),
            field="onnxRuntime",
        ),
        Rule(
            cel="!has(self.tritonBackend) || self.runtime == 'Triton'",
            message="tritonBackend is only for runtime Triton",
            holds=lambda server: server.triton_backend is None or server.runtime == "Triton",
            field="tritonBackend",
        ),
        Rule(
            cel="self.runtime != 'External' || !has(self.threads) && !has(self.batching) && "
            "self.device == 'CPU' && self.precision == 'Default' && self.replicas == 1 && "
            "self.instances == 1",
            message="device, precision, replicas, instances, threads and batching are settings of "
            "a server that Inferometer launches; an External server keeps its own: leave them out",
            holds=lambda server: (
                server.runtime != "External"
                or (
                    server.threads is None
                    and server.batching is None
                    and (server.device, server.precision) == ("CPU", "Default")
                    and (server.replicas, server.instances) == (1, 1)
                )
            ),
        ),
    )
