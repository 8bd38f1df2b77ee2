"""Ways to run a whole model, which are compared with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

Rewriting = Literal["", "FP16", "FixedShapes", "Fused", "INT8"]
"""How the model was rewritten: in FP16, with fixed shapes, with fused operators, or by static
quantisation."""
ProviderOption = Literal["", "CudaGraph", "ChannelsLast"]
"""Option of the CUDA provider: an inference as one CUDA graph, or channels last; empty: none."""
_CHOICES: Mapping[str, Sequence[str]] = {
    "graph_optimization": ("Disabled", "Basic", "Extended"),
    "rewriting": get_args(Rewriting),
    "provider_option": get_args(ProviderOption),
}
"""What a name says after the number of threads."""
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
        return asdict(self) | {"model": str(self.model)}


def read_variant(fields: Mapping[str, Any]) -> ModelVariant:
    """Return a variant from its fields."""
    return ModelVariant(**{**fields, "model": Path(fields["model"])})


def named_variant(name: str) -> ModelVariant | None:
    """Return the variant that timings call so; None if it is no name of a variant."""
    engine, *words = name.split(":")
    precision, threads, *others = (*words, "", "")[: max(len(words), 2)]
    if not threads.isdecimal():
        return None
    found: dict[str, str] = {}
    for word in others:
        field = next((field for field, known in _CHOICES.items() if word in known), None)
        if field is None:
            return None
        found[field] = word
    return ModelVariant(Path(), engine, precision, int(threads), **cast("Any", found))


def cpu_variants(
    present: ModelVariant, cpus: int, rewritten: Mapping[Rewriting, Path]
) -> list[ModelVariant]:
    """Return the ways to run a model that advice on a CPU compares, the present one first.

    `rewritten` are the files of rewritten models. Twice the threads are tried if there are as many
    `cpus`.
    """
    model, threads = present.model, present.threads
    found = [
        present,
        ModelVariant(model, threads=threads),
        ModelVariant(model, threads=threads, graph_optimization="Extended"),
        ModelVariant(model, "openvino", "FP32", threads),
        ModelVariant(model, "openvino", "BF16", threads),
    ]
    if cpus >= (more := 2 * threads):
        found += [ModelVariant(model, threads=more), ModelVariant(model, "openvino", "FP32", more)]
    for kind, file in rewritten.items():
        if kind == "INT8":
            found += [
                ModelVariant(file, engine, threads=threads, rewriting=kind)
                for engine in ("onnxruntime", "openvino")
            ]
        else:
            found.append(replace(present, model=file, rewriting=kind))
    return list(dict.fromkeys(found))
