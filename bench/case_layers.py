"""The cases layers-sum, profile-overhead and bounds: what the layers of models show."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import BenchError
from bench.zoo_study import document, inferometer, run_python, study

from inferometer_analysis.layers import outermost
from inferometer_analysis.samples import difference
from inferometer_api.results.reading import read_result
from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_models import zoo
from inferometer_results.profile import (
    ProfiledStep,
    layers_of,
    layers_share,
    overhead_of,
    profiled_steps,
)

_PAIRS = 150
_PROCESSES, _OPENINGS, _RUNS = 3, 3, 6
_POINTS = 0.03
_OURS = "Inferometer"
_PERCENT = Unit(" %", 1, 100)
_COUNT = Unit("", 0)
SUMMED = (
    *(
        f"classification/{name}"
        for name in (
            *("alexnet", "convnext_atto", "densenet121", "efficientnet_b0", "ghostnet_100"),
            *("googlenet", "inception_v3", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large"),
            *("regnet_y_400mf", "repvgg_a0", "resnet18", "resnet34", "resnet50", "resnext50_32x4d"),
            *("seresnet50", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11", "vit_base_patch16_224"),
        )
    ),
    "detection/ssdlite320_mobilenet_v3_large",
    "image_processing/espcn_x3",
    "image_processing/fast_style_transfer",
    "regression/depth_mobilenet_v2",
    "segmentation/lraspp_mobilenet_v3_large",
    "segmentation/segformer_b0",
    "text/bert_base",
    "text/distilbert",
    "text/minilm_l6",
)
"""30 models of all kinds."""
BOUNDED = (
    *(
        f"classification/{name}"
        for name in (
            *("alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3"),
            *("mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "regnet_x_800mf", "resnet18"),
            *("resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11"),
        )
    ),
    "classification/vit_base_patch16_224",
    "segmentation/unet",
    "text/bert_base",
    "text/distilbert",
    "text/minilm_l6",
)
"""20 models of all kinds."""


def _profiled(model: str) -> ProfiledStep:
    with TemporaryDirectory(prefix="inferometer-bench-") as folder:
        words = ("profile", f"zoo://{model}", "--seconds", "2", "--iterations", str(_PAIRS))
        # A busy machine makes the load INVALID, and the profile is there all the same.
        inferometer(*words, "--output", folder, "--json", accepted=(0, 3))
        content = (Path(folder) / "result.json").read_bytes()
    (step,) = profiled_steps(read_result(content, source=model).document)
    return step


def _profile(model: str) -> dict[str, Any]:
    step = _profiled(model)
    layers = outermost(layers_of(step.profile))
    total_ns = sum(layer.latency_ns for layer in layers)
    return {
        "share": layers_share(step.profile),
        "shareWithoutProfiler": total_ns / median(step.profile.model_nanoseconds),
        "layers": len(layers),
    }


def _sums() -> Figures:
    found = study("layers-sum", SUMMED, _profile)
    off = [abs(1 - each["share"]) for each in found.values()]
    plain = [abs(1 - each["shareWithoutProfiler"]) for each in found.values()]
    return {
        "plain within": sum(each <= 0.05 for each in plain),
        "plain median": median(plain),
        "plain worst": max(plain),
        "within": sum(each <= 0.05 for each in off),
        "median": median(off),
        "worst": max(off),
    }


def _overhead(model: str) -> dict[str, Any]:
    """Return the overhead that a profile reports, and that of ONNX Runtime alone, in ns."""
    before = _bare_pairs(model)
    reported = overhead_of(_profiled(model).profile)
    pairs = before + _bare_pairs(model)
    if reported is None or reported.low is None:
        raise BenchError("There are too few pairs for an interval.")
    return {
        "reported": asdict(reported),
        "alone": [difference(each["profiled"], each["plain"]).value for each in pairs],
        "inference": median(took_ns for each in pairs for took_ns in each["plain"]),
    }


def _bare_pairs(model: str) -> list[dict[str, list[int]]]:
    """Return the runs of several processes; where a process has its memory makes a difference."""
    path = cached_model(zoo.entry(model), zoo_cache())
    words = ("--openings", str(_OPENINGS), "--runs", str(_RUNS), str(path))
    processes = (run_python("-m", "bench.bare_runs", *words) for _ in range(_PROCESSES))
    return [pair for each in processes for pair in json.loads(each)]


def _overheads() -> Figures:
    found = study("profile-overhead", BOUNDED, _overhead).values()
    off = [
        abs(each["reported"]["value"] - fmean(each["alone"])) / each["inference"] for each in found
    ]
    return {
        "covered": sum(_covers(each["reported"], fmean(each["alone"])) for each in found),
        "openings": fmean(
            _covers(each["reported"], alone) for each in found for alone in each["alone"]
        ),
        "width": median(
            (each["reported"]["high"] - each["reported"]["low"]) / 2 / each["inference"]
            for each in found
        ),
        "within": sum(each <= _POINTS for each in off),
        "median": median(off),
        "worst": max(off),
        "share": median(fmean(each["alone"]) / each["inference"] for each in found),
    }


def _covers(interval: Mapping[str, float], value: float) -> bool:
    return interval["low"] <= value <= interval["high"]


@contextmanager
def _overheads_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _overheads}


@contextmanager
def _sums_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _sums}


def _bounded(model: str) -> dict[str, Any]:
    words = ("bound", f"zoo://{model}", "--fill", "--rounds", str(_ROUNDS))
    found = document(*words)
    for _ in range(_TRIES - 1):
        if not _was_disturbed(found):
            break
        found = document(*words)  # its layers are known by now
    return {name: found[name] for name in _KEPT}


def _was_disturbed(found: Mapping[str, Any]) -> bool:
    """Return whether other processes had the CPU in every run of most rounds."""
    most = max(each.get("disturbedRounds", 0) for each in found["measured"].values())
    return 2 * int(most) > _ROUNDS


_ROUNDS, _TRIES = 15, 3
_KEPT = ("sequentialNanoseconds", "coverage", "boundIsWrong", "measured", "rooflineNanoseconds")


def _bounds() -> Figures:
    found = study("bounds", BOUNDED, _bounded).values()
    ratios = [
        each["sequentialNanoseconds"]
        / min(variant["nanoseconds"] for variant in each["measured"].values())
        for each in found
    ]
    return {
        "models": len(ratios),
        "wrong": sum(each["boundIsWrong"] for each in found),
        "disturbed": sum(map(_was_disturbed, found)),
        "median": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "coverage": min(each["coverage"] for each in found),
    }


@contextmanager
def _bounds_stage(_: Place, __: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {_OURS: _bounds}


LAYERS_SUM = Case(
    name="layers-sum",
    title="Do the layers of a model sum to its inference?",
    text="""\
30 models of the zoo under `inferometer profile`: batch 1, one thread, ONNX Runtime. The times of
the layers, without the profiler's own time within each, are summed and divided by the time of an
inference without the profiler, which takes turns with the profiled ones; a model counts with the
medians over 150 inferences. The sum is also divided by the profiled inference's own time: what is
left there is the profiler, which writes between the layers.""",
    commands=(".venv/bin/python bench/run.py --case layers-sum",),
    sides=(Side(_OURS),),
    stage=_sums_stage,
    minutes=10,
    repeats=1,
    rows=(
        Row(
            "Models within 5 % of an inference without the profiler, of 30",
            Source(_OURS, "plain within"),
            _COUNT,
            goal=(Bound("figure", "at least", 30),),
        ),
        Row("Difference from that inference, median", Source(_OURS, "plain median"), _PERCENT),
        Row("Difference from that inference, worst", Source(_OURS, "plain worst"), _PERCENT),
        Row("Models within 5 % of the profiled inference", Source(_OURS, "within"), _COUNT),
        Row("Difference from the profiled one, median", Source(_OURS, "median"), _PERCENT),
        Row("Difference from the profiled one, worst", Source(_OURS, "worst"), _PERCENT),
    ),
    is_pinned=False,
)
PROFILE_OVERHEAD = Case(
    name="profile-overhead",
    title="Is the reported overhead of the profiler right?",
    text="""\
20 models of the zoo: batch 1, one thread, ONNX Runtime. `inferometer profile` reports what the
profiler of the layers adds to an inference, from 150 pairs of inferences with and without it, on
sessions that are opened 5 times. Its interval is that in which 95 % of further openings lie.

The judge is a program of its own, without any part of ours: two sessions of ONNX Runtime, one with
its profiler, opened 18 times, take turns 6 times each. Half of its openings are before the profile
and half after it, by 3 processes each. An opening counts with its median difference.""",
    commands=(".venv/bin/python bench/run.py --case profile-overhead",),
    sides=(Side(_OURS),),
    stage=_overheads_stage,
    minutes=10,
    repeats=1,
    rows=(
        Row(
            "Models whose reported interval covers the judge's overhead, of 20",
            Source(_OURS, "covered"),
            _COUNT,
            goal=(Bound("figure", "at least", 18),),
        ),
        Row(
            "The judge's openings within the interval of their model",
            Source(_OURS, "openings"),
            _PERCENT,
        ),
        Row("Half of the interval by an inference, median", Source(_OURS, "width"), _PERCENT),
        Row(
            "Models within 3 points of an inference, of 20",
            Source(_OURS, "within"),
            _COUNT,
            goal=(Bound("figure", "at least", 20),),
        ),
        Row("Difference by an inference, median", Source(_OURS, "median"), _PERCENT),
        Row("Difference by an inference, worst", Source(_OURS, "worst"), _PERCENT),
        Row("The judge's overhead by an inference, median", Source(_OURS, "share"), _PERCENT),
    ),
    is_pinned=False,
)
BOUNDS = Case(
    name="bounds",
    title="How close is the lower bound to the latency?",
    text="""\
20 models of the zoo under `inferometer bound --fill`: batch 1, one thread, FP32. The bound is the
sum of the fastest timings of all layers by ONNX Runtime and OpenVINO; the latency is that of the
faster of the two on the whole model, in rounds of the same process.

A bound above the upper end of the latency's 95 % interval is wrong. Runs during which another
process took the CPU are repeated. If most rounds had no other runs, the model is measured again,
at most three times; if that does not help, it counts as on a busy machine: its latency is too
high, and the bound seems too low.""",
    commands=(".venv/bin/python bench/run.py --case bounds",),
    sides=(Side(_OURS),),
    stage=_bounds_stage,
    minutes=25,
    repeats=1,
    rows=(
        Row("Models", Source(_OURS, "models"), _COUNT, goal=(Bound("figure", "at least", 20),)),
        Row("Wrong bounds", Source(_OURS, "wrong"), _COUNT, goal=(Bound("figure", "at most", 0),)),
        Row(
            "Bound by latency, median",
            Source(_OURS, "median"),
            _PERCENT,
            goal=(Bound("figure", "at least", 0.7),),
        ),
        Row("Models on a busy machine", Source(_OURS, "disturbed"), _COUNT),
        Row("Bound by latency, lowest", Source(_OURS, "lowest"), _PERCENT),
        Row("Bound by latency, highest", Source(_OURS, "highest"), _PERCENT),
        Row(
            "Lowest coverage",
            Source(_OURS, "coverage"),
            _PERCENT,
            goal=(Bound("figure", "at least", 0.9),),
        ),
    ),
    is_pinned=False,
)
