"""What has the cluster's admin settled for every run?

One YAML file, which the chart writes; `python -m inferometer_operator --settings FILE` reads it.
"""

from typing import Annotated, Literal

from pydantic import Field

from inferometer_api.document import Document, Integral, MemoryQuantity
from inferometer_api.spec.server import Resources, Toleration


class Images(Document):
    """The images that pods of a run are made of, each with its tag or digest."""

    serving: str
    """The ONNX Runtime server for CPUs; it fetches models too."""
    serving_gpu: str
    """The same server with ONNX Runtime's CUDA build."""
    loadgen: str
    """The load generator."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: list[str] = Field(default_factory=list)
    """Names of image pull secrets in the run's namespace."""


class GpuPods(Document):
    """What pods that ask for a GPU get beside it."""

    runtime_class: str | None = None
    tolerations: list[Toleration] = Field(default_factory=list)


class LoadPods(Document):
    """How load generators run. They have no CPU limit: the instrument must not be throttled."""

    resources: Resources = Field(default_factory=Resources)
    """CPU requested; memory requested, and its limit."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class Agents(Document):
    """Where the node agents are, which measure energy and use beside the load."""

    namespace: str
    service: str = "inferometer-agent"
    """The Service that all of them are behind."""


class Metrics(Document):
    """How Prometheus finds what a run's pods tell."""

    scrape_annotations: bool = True
    """Whether server and load pods carry the annotations prometheus.io/scrape, port and path."""


class Settings(Document):
    """What the cluster's admin has settled for every run."""

    namespace: str | None = None
    """The one namespace that is served; absent: every namespace."""
    max_concurrent_runs: Annotated[int, Field(ge=1, le=1000), Integral] = 1
    """Runs at a time, since benchmarks on one node disturb each other; the rest are queued."""
    images: Images
    gpu: GpuPods = Field(default_factory=GpuPods)
    load: LoadPods = Field(default_factory=LoadPods)
    priority_class: str | None = None
    """The priority class of server and load pods."""
    external_allow_list: list[str] = Field(default_factory=list)
    """Hosts that External servers may be at beside Services of the run's namespace: "HOST:PORT",
    "HOST" for every port, "*.SUFFIX" for every name below it."""
    agent: Agents | None = None
    """The node agents; absent: there are none, and energy is unavailable."""
    metrics: Metrics = Field(default_factory=Metrics)
    allow_secrets: bool = False
    """Whether runs may name Secrets; the operator then may read them, to see their label."""
    model_storage: MemoryQuantity = "10Gi"
    """The most that a model may take on a node's disk."""
