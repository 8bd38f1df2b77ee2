"""The case model-cache-mix: first answers of 20 models, of which the node's cache holds 8."""

import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import psutil
from bench.cache_mix import SHAPE
from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import ROOT, BenchError
from onnx import TensorProto, helper, numpy_helper

from support.gated_store import GatedStore

_MODELS, _FIT, _REQUESTS = 20, 8, 100
_WIDTH, _LAYERS = 2048, 4
_BUCKET = "models"
_CACHED, _EVICTED = "model cache", "evict-all"
_RATE, _P50, _P99 = "first answers per second", "p50", "p99"
_HIT, _MISS, _SHARE = "p50 of those from memory", "p50 of those from the store", "share from memory"
_MS, _PER_SECOND, _PERCENT = Unit(" ms", 1), Unit(" /s", 1), Unit(" %", 0)


def _require_mounts() -> None:
    if shutil.which("unshare") is None or psutil.Process().uids().effective != 0:
        raise PeerMissingError("Mounts need root and the program unshare (util-linux).")


def _write_models(folder: Path) -> tuple[list[dict[str, str]], int]:
    """Write the models with external weights; return their addresses and the bytes of one."""
    found = []
    for number in range(_MODELS):
        model, place = _model(number), folder / str(number)
        place.mkdir(parents=True)
        file = place / "model"
        onnx.save_model(model, file, save_as_external_data=True, location="weights")
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        found.append({"uri": f"s3://{_BUCKET}/{number}/model", "sha256": sha256})
    return found, sum(each.stat().st_size for each in (folder / "0").iterdir())


def _model(number: int) -> onnx.ModelProto:
    rng = np.random.default_rng(number)
    weights = [
        numpy_helper.from_array(rng.standard_normal((_WIDTH, _WIDTH), np.float32) * 0.02, f"w{at}")
        for at in range(_LAYERS)
    ]
    nodes = [
        helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"]) for at in range(_LAYERS)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _WIDTH])
        for name in ("x0", f"x{_LAYERS}")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    bucket = place.folder / "store" / _BUCKET
    models, model_bytes = _write_models(bucket)
    (place.folder / "models.json").write_text(json.dumps(models))
    with _store(bucket.parent) as port:
        words = [
            *("--models", str(place.folder / "models.json")),
            *("--endpoint", f"http://127.0.0.1:{port}"),
            *("--quota-bytes", str(_FIT * model_bytes + model_bytes // 2)),
            *("--width", str(_WIDTH), "--requests", str(_REQUESTS), "--seed", "0"),
        ]
        turns = {
            _CACHED: partial(_turn, place, words),
            _EVICTED: partial(_turn, place, [*words, "--evict-all"]),
        }
        yield {name: turn for name, turn in turns.items() if name in sides}


@contextmanager
def _store(folder: Path) -> Iterator[int]:
    """Serve the models on loopback; yield the port."""
    server = GatedStore(("127.0.0.1", 0), folder, lambda _: None)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _turn(place: Place, words: list[str]) -> Figures:
    """Answer all requests, from a cache that is empty at first."""
    with TemporaryDirectory(dir=place.folder) as folder:
        command = [
            *("unshare", "--mount", "--propagation", "private"),
            *(sys.executable, "-m", "bench.cache_mix", "--folder", folder, *words),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"The requests were not answered: {done.stderr[-1500:]}")
    return figures_of(json.loads(done.stdout))


def figures_of(found: Mapping[str, Any]) -> Figures:
    """Return rate and percentiles of what bench.cache_mix printed, by tier."""
    answers = [each["seconds"] * 1e3 for each in found["firstAnswers"]]
    hits = [each["seconds"] * 1e3 for each in found["firstAnswers"] if each["wasCached"]]
    misses = [each["seconds"] * 1e3 for each in found["firstAnswers"] if not each["wasCached"]]
    figures = {
        _RATE: len(answers) / found["seconds"],
        _P50: statistics.median(answers),
        _P99: float(np.percentile(answers, 99)),
        _MISS: statistics.median(misses),
        _SHARE: 100 * len(hits) / len(answers),
    }
    return {**figures, _HIT: statistics.median(hits)} if hits else figures


def _row(figure: str, unit: Unit, *goal: Bound, peer: str | None = None) -> Row:
    source = Source(_EVICTED, peer or figure)
    return Row(f"{_CACHED}: {figure}", Source(_CACHED, figure), unit, source, goal)


MODEL_CACHE_MIX = Case(
    name="model-cache-mix",
    title="First answers of 20 models, of which a node's cache holds 8",
    text=f"""\
{_REQUESTS} times a new server opens one of {_MODELS} models and answers once. Each model has 4
products with 2,048 x 2,048 weights (64 MiB), which are mapped into memory. The models follow a
Pareto distribution (shape {SHAPE}): a fifth of them gets four fifths of the requests.

The cache holds {_FIT} and is empty at first; *evict-all* is the same cache, but keeps nothing. A
first answer includes download, mount, load and inference; the process with the engine is there
already. The store is a small S3 server on loopback. A slower store favours the cache.

Goals: at least 3 times the first answers per second of evict-all, those from memory at most 0.1
times evict-all's median, p50 at most 0.4 times and p99 at most 1.1 times. For 37 models in twice
the memory of a GPU, TrIMS reports up to 8 times the throughput.""",
    commands=(".venv/bin/python bench/run.py --case model-cache-mix",),
    sides=(Side(_CACHED, _require_mounts), Side(_EVICTED, _require_mounts)),
    stage=_stage,
    rows=(
        _row(_RATE, _PER_SECOND, Bound("ratio", "at least", 3)),
        _row(_P50, _MS, Bound("ratio", "at most", 0.4)),
        _row(_P99, _MS, Bound("ratio", "at most", 1.1)),
        _row(_HIT, _MS, Bound("ratio", "at most", 0.1), peer=_P50),
        _row(_MISS, _MS),
        Row(f"{_CACHED}: {_SHARE}", Source(_CACHED, _SHARE), _PERCENT),
    ),
    minutes=8,
    repeats=3,
    is_pinned=False,
)
