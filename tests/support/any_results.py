"""Strategies for every possible result document.

A strategy for documents that hold to their schema and to nothing else: no windows, no replies,
zeros, huge figures, any text wherever the document may have one.
"""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import numpy as np
from hypothesis import strategies as st

from inferometer_api.results.result import (
    Counts,
    Energy,
    EnergyDomain,
    ErrorExample,
    Finding,
    NodeSample,
    NodeTelemetry,
    Outcome,
    ResultDocument,
    ScenarioResult,
    Step,
    UsageSample,
    Verdict,
    Window,
)
from inferometer_api.status.run_status import Attribution
from support.results import a_result, a_run, an_environment
from support.steps import a_distribution

Made = TypeVar("Made")

TEXTS = st.sampled_from(
    [
        "",
        "plain",
        "<script>alert(1)</script>",
        '"><img src=x>',
        "{{ 1234567 * 7 }}",
        "a|b",
        "\x1b[2J",
        "é漢",
    ]
)
_TIMESTAMPS = st.sampled_from(
    ["2026-03-12T14:03:31Z", "2026-03-12T14:03:31.123+01:00", "9999-99-99T99:99:99Z"]
)


def _made(make: Callable[..., Made], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Made]:
    """Return what `make` makes of these fields; st.builds would read pydantic's wire names."""
    return st.fixed_dictionaries(fields).map(lambda values: make(**values))


_COUNTS = st.integers(min_value=0, max_value=2**53 - 1)
_SMALL_INTEGERS = st.integers(min_value=0, max_value=5_000)
_RATES = st.floats(min_value=0, max_value=1e9)
_KINDS = st.sampled_from(["singleStream", "server", "batch", "concurrency", "offline"])

_TIMES = st.lists(st.integers(min_value=0, max_value=3_600_000_000_000), min_size=1, max_size=8)
_DISTRIBUTIONS = st.none() | _TIMES.map(lambda times: a_distribution(np.array(times)))
_DAMAGED = _TIMES.map(
    lambda times: a_distribution(np.array(times)).model_copy(update={"histogram": "damaged"})
)

_WINDOWS = _made(
    Window,
    start_milliseconds=_SMALL_INTEGERS,
    duration_milliseconds=_SMALL_INTEGERS,
    scheduled=st.none() | _SMALL_INTEGERS,
    succeeded=_SMALL_INTEGERS,
    failed=_SMALL_INTEGERS,
    p50_nanoseconds=st.none() | _COUNTS,
    p99_nanoseconds=st.none() | _COUNTS,
    max_nanoseconds=st.none() | _COUNTS,
)
_USAGES = _made(
    UsageSample,
    at_milliseconds=_SMALL_INTEGERS,
    server_cpu_cores=st.none() | _RATES,
    server_memory_bytes=st.none() | _COUNTS,
    client_cpu_cores=_RATES,
    client_memory_bytes=_COUNTS,
)
_COUNTED = _made(
    Counts,
    queries=_COUNTS,
    samples=_COUNTS,
    succeeded=_COUNTS,
    failed=_COUNTS,
    errors=st.dictionaries(TEXTS, _COUNTS, max_size=2),
    scheduled=st.none() | _COUNTS,
)
_NODES = st.sampled_from(["node-a", "node-b", "<b>node</b>", ""])
_DOMAINS = st.sampled_from(["package-0", "package-1", "package-0-dram", "gpu-0", "gpu-10", "cpu"])
_NETS = st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1)
_ATTRIBUTIONS = st.sampled_from(get_args(Attribution))
_ENERGY_DOMAINS = _made(
    EnergyDomain,
    node=_NODES,
    domain=_DOMAINS | TEXTS,
    method=st.sampled_from(["Counter", "PowerIntegral", "Estimate"]),
    attribution=_ATTRIBUTIONS,
    share=st.floats(min_value=0, max_value=1),
    domain_microjoules=_COUNTS,
    microjoules=_COUNTS,
    baseline_milliwatts=st.none() | _COUNTS,
    net_microjoules=st.none() | _NETS,
)
_ENERGIES = _made(
    Energy,
    attribution=_ATTRIBUTIONS,
    reason=TEXTS,
    microjoules=st.none() | _COUNTS,
    microjoules_per_inference=st.none() | _COUNTS,
    baseline_milliwatts=st.none() | _COUNTS,
    net_microjoules=st.none() | _NETS,
    net_microjoules_per_inference=st.none() | _NETS,
    window_nanoseconds=st.none() | _COUNTS,
    domains=st.lists(_ENERGY_DOMAINS, max_size=3),
    not_covered=st.lists(TEXTS, max_size=2),
)


def _by(
    names: st.SearchStrategy[str], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, values, max_size=7)


_GPUS = st.sampled_from([f"gpu-{n}" for n in range(7)]) | TEXTS
_NODE_SAMPLES = _made(
    NodeSample,
    at_milliseconds=st.integers(min_value=-60_000, max_value=60_000),
    watts=_by(_DOMAINS | TEXTS, _RATES),
    cpu_cores=st.none() | _RATES,
    steal_cores=st.none() | _RATES,
    cpu_frequency_hertz=st.none() | _COUNTS,
    temperature_celsius=st.none() | st.floats(min_value=-300, max_value=1e6),
    server_cpu_cores=st.none() | _RATES,
    server_memory_bytes=st.none() | _COUNTS,
    server_throttled_cores=st.none() | _RATES,
    server_cpu_pressure=st.none() | _RATES,
    gpu_utilization=_by(_GPUS, st.floats(min_value=0, max_value=1)),
    gpu_memory_bytes=_by(_GPUS, _COUNTS),
    gpu_clock_hertz=_by(_GPUS, _COUNTS),
    gpu_throttle_reasons=_by(_GPUS, st.lists(TEXTS | st.just("SwPowerCap"), max_size=2)),
)
_TELEMETRY = _made(
    NodeTelemetry,
    node=_NODES,
    agent_version=TEXTS,
    cpu_count=st.none() | _COUNTS,
    governor=st.none() | TEXTS,
    server_cpu_seconds=st.none() | _RATES,
    server_throttled_seconds=st.none() | _RATES,
    samples=st.lists(_NODE_SAMPLES, max_size=3),
    missing=st.lists(TEXTS, max_size=2),
)
_STEPS = _made(
    Step,
    label=TEXTS,
    batch_size=st.integers(min_value=0, max_value=4096),
    started_at=_TIMESTAMPS,
    warm_up_nanoseconds=_COUNTS,
    duration_nanoseconds=_COUNTS,
    ended_early=st.booleans(),
    counts=_COUNTED,
    scheduled_qps=st.none() | _RATES,
    achieved_qps=_RATES,
    achieved_samples_per_second=_RATES,
    latency=_DISTRIBUTIONS | _DAMAGED,
    service_time=_DISTRIBUTIONS,
    dispatch_lag=_DISTRIBUTIONS,
    windows=st.lists(_WINDOWS, max_size=3),
    usage=st.lists(_USAGES, max_size=3),
    error_examples=st.lists(_made(ErrorExample, kind=TEXTS, message=TEXTS), max_size=2),
    energy=_ENERGIES,
    telemetry=st.lists(_TELEMETRY, max_size=2),
)
_FINDINGS = st.lists(
    _made(Finding, rule=TEXTS, message=TEXTS, figure=TEXTS, limit=TEXTS, step=TEXTS), max_size=2
)
_VERDICTS = _made(
    Verdict, state=st.sampled_from(["VALID", "INVALID"]), reasons=_FINDINGS, cautions=_FINDINGS
)
_SCENARIOS = _made(
    ScenarioResult,
    name=TEXTS | st.just("traffic"),
    kind=_KINDS | TEXTS,
    repeat=st.integers(min_value=1, max_value=3),
    seed=_COUNTS,
    steps=st.lists(_STEPS, max_size=3),
    verdict=_VERDICTS,
)
_OUTCOMES = _made(
    Outcome,
    state=st.sampled_from(["Complete", "Failed", "Refused", "Interrupted", "Terminated"]),
    reason=TEXTS,
    message=TEXTS | st.just("It ended.\nits last line"),
)


def any_results() -> st.SearchStrategy[ResultDocument]:
    """Return the strategy for any document that holds to the schema."""
    return _made(
        a_result,
        outcome=_OUTCOMES,
        run=st.just(a_run()),
        environment=st.none() | _made(an_environment, notes=st.lists(TEXTS, max_size=2)),
        scenarios=st.lists(_SCENARIOS, max_size=2),
        started_at=_TIMESTAMPS,
        run_id=TEXTS,
    )
