"""The figures of the case stacks, out of the results of its runs."""

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import servers
from bench.case import PeerMissingError
from bench.case_stacks import (
    ADDED_GRPC,
    ADDED_HTTP,
    COSINE,
    ENERGY,
    FOUND,
    GRPC,
    HTTP,
    RATE,
    STACKS,
    WIDTH,
    figures_of,
)
from bench.processes import BenchError

from inferometer_api.results.result import (
    Energy,
    Outcome,
    OutputSamples,
    ResultDocument,
    SampledOutput,
    ScenarioResult,
    Verdict,
)
from inferometer_api.results.search import Peak
from support.results import a_result, an_environment
from support.steps import Load, a_step

_ENGINE_SECONDS = 0.002


def _peak(**fields: Any) -> Peak:
    bound = {"percentile": 99.0, "latency_bound_nanoseconds": 50_000_000}
    return Peak.model_validate(bound | fields)


_PEAK = _peak(qps=200.0, low_qps=190.0, high_qps=220.0, stop_reason="Resolved", step="probe 2")


def _latency(milliseconds: float) -> ScenarioResult:
    step = a_step(Load(seconds=2.0, service_milliseconds=milliseconds))
    return ScenarioResult(
        name="latency", kind="singleStream", seed=1, steps=[step], verdict=Verdict(state="VALID")
    )


def _search(
    peak: Peak | None, state: str = "VALID", energy: Energy | None = None
) -> ScenarioResult:
    steps = []
    for label in ("probe 1", "probe 2"):
        step = a_step(Load(seconds=2.0, service_milliseconds=5.0, label=label))
        changed = {} if energy is None or label == "probe 1" else {"energy": energy}
        steps.append(step.model_copy(update=changed))
    return ScenarioResult(
        name="peak",
        kind="findPeak",
        seed=1,
        steps=steps,
        verdict=Verdict.model_validate({"state": state}),
        peak=peak,
    )


def _document(
    *scenarios: ScenarioResult, outputs: tuple[float, ...] = (1.0, 0.0)
) -> ResultDocument:
    values = np.array(outputs, "<f4")
    output = SampledOutput(
        name="y",
        shape=[1, len(outputs)],
        values_per_sample=len(outputs),
        values=b64encode(values.tobytes()).decode(),
        largest=[int(values.argmax())],
    )
    samples = OutputSamples(inputs=["0"], outputs=[output])
    environment = an_environment(output_samples=samples)
    return a_result(scenarios=list(scenarios), environment=environment)


def test_the_figures_of_a_stack_are_those_of_its_runs() -> None:
    """What a server adds is the median less the engine's own; the outputs are compared."""
    grpc = _document(_latency(5.0), _search(_PEAK), outputs=(1.0, 1.0))
    found = figures_of(grpc, _document(_latency(4.0)), _ENGINE_SECONDS, _document())
    assert (found[RATE], found[FOUND]) == (200.0, 1.0)
    assert found[WIDTH] == pytest.approx(0.15)
    assert found[GRPC] > found[HTTP] > 0.003
    assert found[ADDED_GRPC] == pytest.approx(found[GRPC] - _ENGINE_SECONDS)
    assert found[ADDED_HTTP] == pytest.approx(found[HTTP] - _ENGINE_SECONDS)
    assert found[COSINE] == pytest.approx(0.5**0.5)
    assert ENERGY not in found


def test_the_energy_is_that_of_the_probe_nearest_to_the_peak() -> None:
    """It is known only with a counter."""
    energy = Energy(attribution="node", microjoules=1, microjoules_per_inference=2_500_000)
    grpc = _document(_latency(5.0), _search(_PEAK, energy=energy))
    found = figures_of(grpc, _document(_latency(4.0)), _ENGINE_SECONDS, _document())
    assert found[ENERGY] == 2.5


@pytest.mark.parametrize(
    ("peak", "figures"),
    [
        (None, {FOUND: 0.0}),
        (_peak(stop_reason="OutOfTime"), {FOUND: 0.0}),
        (_peak(stop_reason="OutOfTime", low_qps=150.0), {FOUND: 0.0, RATE: 150.0}),
    ],
)
def test_a_search_without_a_peak_has_no_bracket(
    peak: Peak | None, figures: dict[str, float]
) -> None:
    """The rate is the highest that is known to keep the bound; without one it is not known."""
    grpc = _document(_latency(5.0), _search(peak, "INVALID"))
    found = figures_of(grpc, _document(_latency(4.0)), _ENGINE_SECONDS, _document())
    assert {each: found[each] for each in (FOUND, RATE, WIDTH) if each in found} == figures


def test_a_run_without_an_answer_is_an_error() -> None:
    """Its figures would be invented."""
    silent = _latency(5.0).model_copy(update={"steps": []})
    grpc = _document(silent, _search(_PEAK))
    with pytest.raises(BenchError, match="latency answered no query"):
        figures_of(grpc, _document(_latency(4.0)), _ENGINE_SECONDS, _document())


def test_a_run_that_did_not_end_is_an_error() -> None:
    """Its outcome says why: what it measured before would look like a figure."""
    lost = Outcome(state="Failed", reason="LoadPodLost", message="The load pod was killed.")
    grpc = _document(_latency(5.0), _search(_PEAK)).model_copy(update={"outcome": lost})
    with pytest.raises(BenchError, match="The load pod was killed"):
        figures_of(grpc, _document(_latency(4.0)), _ENGINE_SECONDS, _document())


def test_every_other_stack_is_next_to_onnx_runtime_in_our_server() -> None:
    """The column of our figures has those of our server only."""
    own = {"ONNX Runtime", "OpenVINO FP32", "OpenVINO BF16"}
    compared = [row for row in STACKS.rows if row.peer is not None]
    for row in compared:
        assert row.peer is not None
        assert row.ours.side in own
        assert "ONNX Runtime" in {row.ours.side, row.peer.side}
        assert row.ours.figure == row.peer.figure
    sides = {row.ours.side for row in compared} | {row.peer.side for row in compared if row.peer}
    assert sides == {each.name for each in STACKS.sides}


def test_a_server_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says how to get it; the search path has programs for what is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for require, words in (
        (servers.require_triton, "bench/install-tools --with-triton"),
        (servers.require_mlserver, "tests/install-tools verify"),
    ):
        with pytest.raises(PeerMissingError, match=words):
            require()
    found = Path(servers.launcher_path(tmp_path).partition(os.pathsep)[0])
    assert {each.name for each in found.iterdir()} == {"tritonserver", "mlserver"}
    assert all(os.access(each, os.X_OK) for each in found.iterdir())
