"""A server's profile becomes that of a step, with the levels that it has."""

from typing import Any

import pytest

from inferometer_loadgen.run.profile_extension import step_profile
from inferometer_loadgen.server.control_plane import ProfileRefusedError

ANSWER: dict[str, Any] = {
    "batchSize": 1,
    "modelNanoseconds": [100, 110],
    "profiledNanoseconds": [120, 130],
    "layers": [
        {
            "index": 0,
            "name": "conv",
            "operator": "Conv",
            "shape": [1, 8],
            "datatype": "float",
            "provider": "CPU",
            "kernel": "",
            "startNanoseconds": 5,
            "durationsNanoseconds": [90, 95],
        }
    ],
    "kernelsMissing": "The engine names none.",
    "notes": ["A note."],
}


def test_levels_that_the_engine_lacks_are_unavailable_with_the_reason() -> None:
    """Kernels without names are unavailable; the other levels, layers and notes are kept."""
    found = step_profile(ANSWER, ["Model", "Layer", "Kernel"])
    assert found.levels == ["Model", "Layer"]
    assert found.unavailable == {"Kernel": "The engine names none."}
    assert found.layers[0].durations_nanoseconds == [90, 95]
    assert (found.model_nanoseconds, found.notes) == ([100, 110], ["A note."])
    assert step_profile({**ANSWER, "kernelsMissing": ""}, ["Kernel"]).levels == ["Kernel"]


@pytest.mark.parametrize("change", [{"layers": [{}]}, {"modelNanoseconds": "x"}])
def test_an_answer_of_another_form_is_no_profile(change: dict[str, Any]) -> None:
    """What cannot be read is refused in a sentence, never taken in part."""
    with pytest.raises(ProfileRefusedError, match="cannot be read"):
        step_profile({**ANSWER, **change}, ["Model"])
