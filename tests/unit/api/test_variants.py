"""The names of ways to run a model."""

from pathlib import Path

import pytest

from inferometer_api.layers.variants import (
    CPU_REWRITINGS,
    ModelVariant,
    cpu_variants,
    named_variant,
    read_variant,
)

VARIANTS = [
    *cpu_variants(ModelVariant(threads=2), 4, dict.fromkeys(CPU_REWRITINGS, Path())),
    ModelVariant(precision="TF32", provider_option="CudaGraph"),
    ModelVariant(precision="FP16", rewriting="FP16"),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda each: each.name)
def test_a_name_gives_the_variant_back(variant: ModelVariant) -> None:
    """Timings have names alone; their readers need the settings."""
    assert named_variant(variant.name) == variant
    assert read_variant(variant.fields) == variant


@pytest.mark.parametrize(
    "name", ["", "resnet50", "conv:a:b", "zoo://text/bert", "a:b:\u00b2", "a:b:3:else"]
)
def test_other_names_are_of_no_variant(name: str) -> None:
    """Layers and models fail next to variants, and have names of their own."""
    assert named_variant(name) is None


def test_the_served_variant_comes_first_and_once() -> None:
    """What a server has is compared with the rest, whatever its engine."""
    for served in (ModelVariant(engine="openvino", precision="BF16"), ModelVariant()):
        names = [each.name for each in cpu_variants(served, 1, {})]
        assert names[0] == served.name
        assert len(set(names)) == len(names)
    assert "onnxruntime:Default:1" in names


def test_more_threads_are_tried_where_there_are_cpus() -> None:
    """Two threads on one CPU would take turns."""
    threads = [{each.threads for each in cpu_variants(ModelVariant(), cpus, {})} for cpus in (1, 2)]
    assert threads == [{1}, {1, 2}]
