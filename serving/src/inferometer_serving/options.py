"""Options of a server, and the values that they take."""

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path


class ModelControlMode(StrEnum):
    """Whether clients may load and unload the model, in Triton's words."""

    NONE = "none"
    EXPLICIT = "explicit"


class Device(StrEnum):
    """What a model runs on."""

    CPU = "CPU"
    GPU = "GPU"


class EngineName(StrEnum):
    """The library that computes."""

    ONNX_RUNTIME = "onnxruntime"
    OPENVINO = "openvino"


class Precision(StrEnum):
    """What the layers are to compute in; DEFAULT leaves it to the engine."""

    DEFAULT = "Default"
    FP32 = "FP32"
    BF16 = "BF16"
    FP16 = "FP16"
    INT8 = "INT8"


class Provider(StrEnum):
    """ONNX Runtime's execution providers; DEFAULT is the one of the device."""

    DEFAULT = "Default"
    CPU = "CPU"
    XNNPACK = "XNNPACK"
    CUDA = "CUDA"
    TENSORRT = "TensorRT"
    OPENVINO = "OpenVINO"


class GraphOptimization(StrEnum):
    """How far ONNX Runtime rewrites a graph."""

    DISABLED = "Disabled"
    BASIC = "Basic"
    EXTENDED = "Extended"
    ALL = "All"


class ExecutionMode(StrEnum):
    """Whether independent operators run at the same time."""

    SEQUENTIAL = "Sequential"
    PARALLEL = "Parallel"


@dataclass(frozen=True, slots=True)
class OnnxRuntimeChoices:
    """ONNX Runtime's own choices."""

    provider: Provider = Provider.DEFAULT
    graph_optimization: GraphOptimization = GraphOptimization.ALL
    execution_mode: ExecutionMode = ExecutionMode.SEQUENTIAL
    inter_op_threads: int = 1
    arena: bool = True
    spinning: bool = True
    prepacking: bool = True
    cuda_graph: bool = False
    channels_last: bool = False
    tf32: bool = True


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """All that a server process needs to know."""

    model: Path
    model_name: str
    engine: EngineName = EngineName.ONNX_RUNTIME
    device: Device = Device.CPU
    precision: Precision = Precision.DEFAULT
    threads: int = 1
    instances: int = 1
    max_batch_size: int = 0
    """The most samples in a joined batch and in one request; 0: requests are never joined."""
    max_delay_microseconds: int = 0
    host: str = "127.0.0.1"
    http_port: int = 0
    grpc_port: int = 0
    max_body_bytes: int = 256 << 20
    max_model_bytes: int = 8 << 30
    checksums: Path | None = None
    """JSON with the checksums of the model's files, verified by the cache of the node."""
    warm_up_batch_sizes: tuple[int, ...] = (1,)
    warm_up_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    warm_up_inputs: Path | None = None
    drain_seconds: float = 30.0
    model_control_mode: ModelControlMode = ModelControlMode.NONE
    profiling: bool = False
    start_up_report: bool = False
    provider: Provider = Provider.DEFAULT
    graph_optimization: GraphOptimization = GraphOptimization.ALL
    execution_mode: ExecutionMode = ExecutionMode.SEQUENTIAL
    inter_op_threads: int = 1
    arena: bool = True
    spinning: bool = True
    prepacking: bool = True
    cuda_graph: bool = False
    channels_last: bool = False
    tf32: bool = True
    weight_broker: Path | None = None
    """The folder with the sockets of the brokers that share weights in GPU memory."""
    manifest: Path | None = None
    """The model's manifest, whose steps the server runs; None: clients send the model's inputs."""
    allow_python_steps: bool = False
    """Whether Python in the manifest may run."""
    run: str = ""
    """The run that the server was started for; empty if it was not."""
    run_namespace: str = ""
    other_models: dict[str, Path] = field(default_factory=dict)
    """Further models that the server holds, by the names that they are served as."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of all models, the first one's first."""
        return (self.model_name, *self.other_models)

    def of_other(self, name: str) -> "ServeOptions":
        """Return the options of one of the other models, whose settings are the same."""
        return replace(
            self,
            model=self.other_models[name],
            model_name=name,
            checksums=None,
            profiling=False,
            manifest=None,
        )

    @property
    def onnx_runtime(self) -> OnnxRuntimeChoices:
        """The options that ONNX Runtime alone has."""
        names = (each.name for each in fields(OnnxRuntimeChoices))
        return OnnxRuntimeChoices(**{name: getattr(self, name) for name in names})
