"""The server describes its machine, which may not be that of the load generator."""

import os
import platform
from pathlib import Path

from inferometer_serving.machine import machine_facts


def test_cpus_memory_and_kernel_are_those_of_the_machine(tmp_path: Path) -> None:
    """Without GPUs there is no word of them."""
    found = machine_facts(tmp_path / "missing")
    assert found.pop("memory_gibibytes").isdecimal()
    assert found == {"cpu_count": str(os.cpu_count()), "kernel": platform.release()}


def test_each_model_of_a_gpu_is_named_once(tmp_path: Path) -> None:
    """What cannot be read is left out."""
    for at, text in enumerate((b"Model: \t NVIDIA B\nIRQ: 1\n", b"Model: NVIDIA A", b"\xff")):
        folder = tmp_path / f"0000:0{at}:00.0"
        folder.mkdir()
        (folder / "information").write_bytes(text)
    same = tmp_path / "0000:09:00.0"
    same.mkdir()
    (same / "information").write_text("Model: NVIDIA A")
    assert machine_facts(tmp_path)["gpus"] == "NVIDIA A, NVIDIA B"
