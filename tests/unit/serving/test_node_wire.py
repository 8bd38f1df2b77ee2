"""The model that the wire is measured with, and names that are the load generator's to measure."""

from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # has no types
import pytest

from inferometer_api.nodes.wire_rates import WIRE_INPUT, WIRE_OUTPUT
from inferometer_serving.node.__main__ import UnknownPrimitiveError, measure
from inferometer_serving.node.wire_server import identity_model


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_the_model_returns_its_bytes(size: int) -> None:
    """However many there are."""
    session = onnxruntime.InferenceSession(identity_model(), providers=["CPUExecutionProvider"])
    sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    (returned,) = session.run([WIRE_OUTPUT], {WIRE_INPUT: sent})
    np.testing.assert_array_equal(returned, sent)


@pytest.mark.parametrize("begin", ["loopback", "loopback/band", "podToPod", "pod"])
def test_figures_of_the_wire_are_left_to_the_load_generator(begin: str, tmp_path: Path) -> None:
    """Their names are known, and nothing else is measured for them."""
    document = measure(tmp_path, (begin,), 60)
    assert [each.name for each in document.figures] == ["steal"]
    assert document.unavailable == {}


def test_a_refusal_lists_the_loopback(tmp_path: Path) -> None:
    """It is measured on every machine, though by another process."""
    with pytest.raises(UnknownPrimitiveError, match="loopback/roundTrip"):
        measure(tmp_path, ("loopbck",), 60)
