"""Matrix units are offered by the CPU and used by kernels; products are models of the engines."""

from pathlib import Path

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_serving.node.matrix import matrix_units, product


def test_units_are_offered_by_the_cpu_and_used_by_kernels(tmp_path: Path) -> None:
    """A kernel for one type of operands does not count for another."""
    info = tmp_path / "cpuinfo"
    info.write_text("flags\t\t: fpu amx_int8 amx_bf16 avx512f avx2\n")
    names = {"openvino": ["brgemm_avx512_amx_BF16", "gemm_avx512_FP32"]}
    found = {each.name: each for each in matrix_units(names, info)}
    assert {name for name, each in found.items() if each.offered} == {
        "amx_int8",
        "amx_bf16",
        "avx512f",
        "avx2",
    }
    assert found["amx_bf16"].used_by == {"openvino": ["brgemm_avx512_amx_BF16"]}
    assert found["amx_int8"].used_by == {}
    assert found["avx512f"].used_by == {"openvino": ["gemm_avx512_FP32"]}


@pytest.mark.parametrize(
    ("kernel", "flags", "unit"),
    [
        ("brgemm_avx512_I8", "avx512f avx512_vnni avx512_bf16 avx2", "avx512_vnni"),
        ("brgemm_avx512_I8", "avx512f avx2", "avx512f"),
        ("brgemm_avx512_bf16", "avx512f avx512_vnni avx512_bf16 avx2", "avx512_bf16"),
        ("brgconv_avx512_1x1_bf16", "avx512f avx512_bf16 avx2", "avx512_bf16"),
        ("brgemm_avx512_FP32", "avx512f avx512_vnni avx512_bf16 avx2", "avx512f"),
        ("brgemm_avx512_f16", "avx512f avx512_fp16 avx2", "avx512_fp16"),
        ("brgemm_avx2_I8", "avx2 avx_vnni", "avx_vnni"),
        ("brgemm_avx2_I8", "avx2", "avx2"),
        ("brgemm_avx512_amx_I8", "avx512f amx_int8 avx512_vnni", "amx_int8"),
        ("ref_any_FP32", "avx512f avx2", None),
    ],
)
def test_a_kernel_counts_for_one_unit(
    kernel: str, flags: str, unit: str | None, tmp_path: Path
) -> None:
    """It is that of its instruction set for its operands, if the CPU offers one."""
    info = tmp_path / "cpuinfo"
    info.write_text(f"flags\t\t: fpu {flags}\n")
    found = matrix_units({"openvino": [kernel]}, info)
    assert [each.name for each in found if each.used_by] == ([] if unit is None else [unit])


@pytest.mark.parametrize("precision", ["FP32", "INT8"])
def test_products_are_models_that_the_engine_opens(precision: str) -> None:
    """They multiply what they say."""
    session = onnxruntime.InferenceSession(product(precision).SerializeToString())
    assert (
        session.get_inputs()[0].type
        == {"FP32": "tensor(float)", "INT8": "tensor(uint8)"}[precision]
    )
