"""Makes a server wait after each inference, if its model is called planted-230us.onnx.

Python imports this module at the start of every process that has this folder in PYTHONPATH. All
processes but such a server stay as they are.
"""

import re
import sys
import time
from typing import Any

_PLANTED = re.compile(r"planted-(\d+)us\.onnx$")


def _plant(wait_ns: int) -> None:
    import onnxruntime  # type: ignore[import-untyped]  # noqa: PLC0415 - only in a server

    run = onnxruntime.InferenceSession.run

    def delayed(self: Any, *arguments: Any, **options: Any) -> Any:
        results = run(self, *arguments, **options)
        # A sleep would last longer than this, by what a timer needs to wake the process.
        end_ns = time.perf_counter_ns() + wait_ns
        while time.perf_counter_ns() < end_ns:
            pass
        return results

    onnxruntime.InferenceSession.run = delayed


if "inferometer_serving" in sys.orig_argv:
    for argument in sys.orig_argv:
        found = _PLANTED.search(argument)
        if found:
            _plant(int(found[1]) * 1000)
