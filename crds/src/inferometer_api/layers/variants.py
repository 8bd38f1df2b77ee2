"""Ways to run a whole model, which are compared with each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

Rewriting = Literal["", "FP16", "FixedShapes", "Fused", "INT8"]
"""How the model was rewritten: in FP16, with fixed shapes, with fused operators, or by static
quantisation."""
ProviderOption = Literal["", "CudaGraph", "ChannelsLast"]
"""Option of the CUDA provider: an inference as one CUDA graph, or channels last; empty: none."""
CPU_REWRITINGS: tuple[Rewriting, ...] = ("FixedShapes", "Fused", "INT8")
"""Those that may be faster on a CPU."""


@dataclass(frozen=True, slots=True)
class ModelVariant:
    """One way to run a whole model."""

    model: Path = Path()
    """Its ONNX file; without one, only its name is known."""
    engine: str = "onnxruntime"
    precision: str = "Default"
    threads: int = 1
    rewriting: Rewriting = ""
    graph_optimization: str = "All"
    provider_option: ProviderOption = ""

    @property
    def name(self) -> str:
        """What timings call it."""
        level = "" if self.graph_optimization == "All" else self.graph_optimization
        words = (
            *(self.engine, self.precision, str(self.threads)),
            *(level, self.rewriting, self.provider_option),
        )
        return ":".join(each for each in words if each)

    @property
    def fields(self) -> dict[str, Any]:
        """The variant as a child process takes it, in JSON."""
        return {
            "model": str(self.model),
            "engine": self.engine,
            "precision": self.precision,
            "threads": self.threads,
            "rewriting": self.rewriting,
            "graph_optimization": self.graph_optimization,
            "provider_option": self.provider_option,
        }


def read_variant(fields: Mapping[str, Any]) -> ModelVariant:
    """Return a variant from its fields."""
    return ModelVariant(**{**fields, "model": Path(fields["model"])})


def named_variant(name: str) -> ModelVariant | None:
    """Return the variant that timings call so; None if it is no name of a variant."""
    engine, *words = name.split(":")
    precision, threads, *others = (*words, "", "")[: max(len(words), 2)]
    if not threads.isdigit():
        return None
    found: dict[str, str] = {}
    for word in others:
        if word in get_args(Rewriting):
            found["rewriting"] = word
        elif word in get_args(ProviderOption):
            found["provider_option"] = word
        else:
            found["graph_optimization"] = word
    return ModelVariant(Path(), engine, precision, int(threads), **cast("Any", found))


def cpu_variants(
    model: Path, threads: int, cpus: int, rewritten: Mapping[Rewriting, Path]
) -> list[ModelVariant]:
    """Return the ways to run a model that advice on a CPU compares, the present one first.

    `rewritten` are the files of rewritten models. Twice the threads are tried if there are as many
    `cpus`.
    """
    found = [
        ModelVariant(model, threads=threads),
        ModelVariant(model, threads=threads, graph_optimization="Extended"),
        ModelVariant(model, "openvino", "FP32", threads),
        ModelVariant(model, "openvino", "BF16", threads),
    ]
    if cpus >= (more := 2 * threads):
        found += [ModelVariant(model, threads=more), ModelVariant(model, "openvino", "FP32", more)]
    for kind, file in rewritten.items():
        found.append(ModelVariant(file, threads=threads, rewriting=kind))
        if kind == "INT8":
            found.append(ModelVariant(file, "openvino", threads=threads, rewriting=kind))
    return found
