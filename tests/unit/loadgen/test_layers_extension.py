"""The load generator reads the timings of a server of another version by the rule of documents."""

from typing import cast

import pytest

from inferometer_api.results.result import StepLayers
from inferometer_loadgen.run.executor import ScenarioRepeat
from inferometer_loadgen.run.layers_extension import LAYERS
from inferometer_loadgen.server.control_plane import ProfileRefusedError
from support.layer_graphs import brick_timings, timing

_NO_REPEAT = cast("ScenarioRepeat", None)


def test_timings_of_a_newer_major_version_are_refused() -> None:
    """A newer minor version only adds fields."""
    answer = brick_timings({"a": timing(1_000)}).model_dump(mode="json", exclude_none=True)
    read = LAYERS.read(answer | {"schemaVersion": "1.9", "fieldOfTheFuture": 1}, _NO_REPEAT)
    assert isinstance(read, StepLayers)
    assert read.timings is not None
    assert set(read.timings.bricks) == {"a"}
    with pytest.raises(ProfileRefusedError, match=r"answer has schema version 2\.0, and this"):
        LAYERS.read(answer | {"schemaVersion": "2.0"}, _NO_REPEAT)
