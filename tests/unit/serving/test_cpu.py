"""The CPU is described as the kernel lists it."""

import os
from pathlib import Path

import pytest

from inferometer_serving.cpu import instruction_set, model_name, pinned_cpus


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("flags\t\t: fpu sse4_2 avx2 avx512f avx512_bf16\n", "avx512_bf16"),
        ("processor: 0\nFeatures\t: fp asimd sve i8mm\n", "i8mm"),
        ("flags: fpu\n", ""),
        ("", ""),
    ],
)
def test_the_widest_is_named(tmp_path: Path, text: str, found: str) -> None:
    """On x86 and on Arm; empty if none is known."""
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    assert instruction_set(path) == found
    assert instruction_set(tmp_path / "missing") == ""


def test_the_model_is_named(tmp_path: Path) -> None:
    """Empty if the kernel does not say."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nmodel name\t: AMD EPYC 7B13\nmodel name\t: other\n")
    assert model_name(path) == "AMD EPYC 7B13"
    assert model_name(tmp_path / "missing") == ""


@pytest.mark.parametrize(("allowed", "found"), [({3}, 1), ({0, 1, 2}, 3), ({0, 1, 2, 3}, 0)])
def test_a_process_is_pinned_if_the_machine_has_more_cpus(
    monkeypatch: pytest.MonkeyPatch, allowed: set[int], found: int
) -> None:
    """A node of four CPUs."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    assert pinned_cpus() == found
