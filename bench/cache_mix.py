"""First answers from a node's model cache, or without it: `python -m bench.cache_mix`.

Run in a mount namespace of its own. Each request mounts a model of the store as a pod's volume is
mounted, opens it, runs it once, and ends the mount; the models follow a Pareto distribution. It
prints one line of JSON: `{"firstAnswers": [{"seconds": ..., "wasCached": ...}], "seconds": ...}`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_fetch.cache.access import Access
from inferometer_fetch.cache.download import Downloads, external_locations
from inferometer_fetch.cache.mounter import LinuxMounter
from inferometer_fetch.cache.node_cache import NodeCache
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_fetch.object_store import ObjectStore
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.options import OnnxRuntimeChoices

SHAPE, _SCALE = 1.16, 2.0
"""A fifth of 20 models gets four fifths of the requests."""
_TIMEOUT_SECONDS = 300.0


def popularity(models: int) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the share of the requests for each model, by a Pareto distribution, cut off."""
    edges = (1 + np.arange(models + 1) / _SCALE) ** -SHAPE
    shares = edges[:-1] - edges[1:]
    return np.asarray(shares / shares.sum())


class FirstAnswers:
    """Requests first answers of models in a store, one at a time."""

    def __init__(self, folder: Path, quota_bytes: int, width: int, *, evicts_all: bool) -> None:
        self._target = folder / "mount"
        self._evicts_all = evicts_all
        self._store = ModelStore(
            folder / "cache", quota_bytes=quota_bytes, policy="CostAware", clock=time.time
        )
        downloads = Downloads(
            self._store, max_model_bytes=quota_bytes, find_external=external_locations
        )
        access = Access(time.monotonic)
        mounter = LinuxMounter(self._store.root)
        self._cache = NodeCache(self._store, downloads, access, mounter)
        choices = OnnxRuntimeChoices(prepacking=False)
        self._options = session_options(EngineSettings(threads=1, onnx_runtime=choices))
        self._input = {"x0": np.ones((1, width), np.float32)}

    def answer(self, request: ModelRequest) -> dict[str, Any]:
        """Return how long a new server of a model takes until its first answer."""
        began = time.perf_counter()
        made = self._cache.publish(request, self._target, timeout_seconds=_TIMEOUT_SECONDS)
        session = onnxruntime.InferenceSession(
            str(self._target / "model.onnx"), self._options, providers=["CPUExecutionProvider"]
        )
        session.run(None, self._input)
        seconds = time.perf_counter() - began
        del session
        self._cache.unpublish(self._target)
        if self._evicts_all:
            self._store.remove_unused(made.key)
        return {"seconds": seconds, "wasCached": made.was_cached}


def main() -> int:
    """Answer the requests, print the times and return the exit code."""
    given = _parser().parse_args()
    models = json.loads(given.models.read_bytes())
    store = ObjectStore("key", "secret", endpoint=given.endpoint)
    requests = [ModelRequest(each["uri"], each["sha256"], "bench", store) for each in models]
    rng = np.random.default_rng(given.seed)
    order = rng.choice(len(models), given.requests, p=popularity(len(models)))
    answers = FirstAnswers(given.folder, given.quota_bytes, given.width, evicts_all=given.evict_all)
    began = time.perf_counter()
    found = [answers.answer(requests[index]) for index in order]
    line = {"firstAnswers": found, "seconds": time.perf_counter() - began}
    sys.stdout.write(json.dumps(line) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure first answers from a model cache.")
    parser.add_argument("--models", type=Path, required=True, help="JSON: uri and sha256 of each")
    parser.add_argument("--endpoint", required=True, help="of the S3 store that has them")
    parser.add_argument("--folder", type=Path, required=True, help="of the cache; empty")
    parser.add_argument("--quota-bytes", type=int, required=True)
    parser.add_argument("--width", type=int, required=True, help="of the input x0")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--evict-all", action="store_true", help="keep no model")
    return parser


if __name__ == "__main__":
    sys.exit(main())
