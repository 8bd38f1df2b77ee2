"""The instruction set is the widest one that the kernel lists."""

from pathlib import Path

import pytest

from inferometer_serving.instruction_set import instruction_set


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
