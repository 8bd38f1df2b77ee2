"""Which result documents do tests of the report and of the table need?

Documents as a real run leaves them, computed from seeded samples: the latencies of a server with
one thread, a queue before it in open loop, and the real HdrHistogram encoding.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

from inferometer_api.result import (
    Counts,
    Distribution,
    Energy,
    Environment,
    ErrorExample,
    Finding,
    ModelFacts,
    Node,
    Outcome,
    OutcomeState,
    PercentileValue,
    ResultDocument,
    ScenarioResult,
    ServerFacts,
    Step,
    Tensor,
    UsageSample,
    Verdict,
    Window,
)
from inferometer_api.run import BenchmarkRun

Nanoseconds = npt.NDArray[np.int64]

_SECOND = 1_000_000_000
_MIB = 2**20
_PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9, 99.99)
_NO_AGENT = "this machine has no readable RAPL counter and no GPU"


@dataclass(frozen=True, slots=True)
class Load:
    """What the samples of one step are made of."""

    seconds: float = 20.0
    service_milliseconds: float = 21.0
    qps: float | None = None
    """Rate of an open loop; absent: one query after another."""
    batch_size: int = 1
    label: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    seed: int = 7


@dataclass(frozen=True, slots=True)
class _Samples:
    scheduled: Nanoseconds
    lag: Nanoseconds
    done: Nanoseconds
    service: Nanoseconds

    @property
    def latency(self) -> Nanoseconds:
        return self.done - self.scheduled


def a_run(
    scenarios: list[dict[str, Any]] | None = None, name: str = "resnet50-cpu"
) -> BenchmarkRun:
    """Return a run of resnet50 on the CPU with these scenarios."""
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": name},
            "spec": {
                "model": {"uri": "zoo://classification/resnet50"},
                "server": {"threads": 1},
                "scenarios": scenarios or _THREE,
                "validity": {"warmUpSeconds": 2, "minDurationSeconds": 20, "minQueries": 256},
            },
        }
    )


_THREE: list[dict[str, Any]] = [
    {"name": "latency", "singleStream": {}},
    {"name": "traffic", "server": {"targetQps": "38.5", "latencyBoundMicroseconds": 120_000}},
    {"name": "throughput", "batch": {"batchSizes": [1, 8, 32]}},
]


def a_result(**changes: Any) -> ResultDocument:
    """Return a complete run of three scenarios on resnet50, of which the second is INVALID."""
    fields: dict[str, Any] = {
        "api_version": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkResult",
        "schema_version": 1,
        "run_id": "01JZ3V5M2K8Q4W7Y6T9R1P0N3D",
        "inferometer_version": "0.1.0",
        "started_at": "2026-03-12T14:03:21Z",
        "finished_at": "2026-03-12T14:05:02Z",
        "outcome": Outcome(state="Complete", reason="Measured"),
        "run": a_run(),
        "environment": an_environment(),
        "scenarios": [_single_stream(), _traffic(), _batches()],
    }
    return ResultDocument(**(fields | changes))


def a_valid_result() -> ResultDocument:
    """Return a complete run of one VALID scenario, without any caution."""
    latency = _single_stream()
    valid = latency.model_copy(update={"verdict": Verdict(state="VALID")})
    return a_result(run=a_run([_THREE[0]]), scenarios=[valid])


def an_unfinished_result(state: OutcomeState = "Interrupted") -> ResultDocument:
    """Return a run that ended while its second scenario was measured."""
    messages: dict[OutcomeState, tuple[str, str]] = {
        "Complete": ("Measured", ""),
        "Interrupted": ("Interrupted", "Ctrl-C was pressed while scenario traffic was measured."),
        "Terminated": ("Terminated", "SIGTERM came while scenario traffic was measured."),
        "Failed": (
            "ServerDied",
            "The server ended with exit code 139 (SIGSEGV) while scenario traffic was measured; "
            "its last lines follow. See whether it has enough memory.\n"
            "14:03:59 info  ready on 127.0.0.1:38211\n"
            "14:04:11 fatal segmentation fault in session.run",
        ),
        "Refused": ("PortInUse", "Port 8000 was asked for and another process listens on it."),
    }
    reason, message = messages[state]
    ended = a_step(Load(qps=38.5, seconds=7.4)).model_copy(update={"ended_early": True})
    finding = Finding(
        rule="MinDuration",
        message="Scenario traffic was measured for 7.4 s, and 20 s were asked: let it run longer.",
        figure="7.4 s",
        limit="20 s",
    )
    traffic = ScenarioResult(
        name="traffic",
        kind="server",
        seed=42,
        steps=[ended],
        verdict=Verdict(state="INVALID", reasons=[finding]),
    )
    outcome = Outcome(state=state, reason=reason, message=message)
    return a_result(outcome=outcome, scenarios=[_single_stream(), traffic])


def a_refused_result() -> ResultDocument:
    """Return a run that ended before the server was ready: no environment, nothing measured."""
    message = (
        "The model file:models/missing.onnx was asked for, and there is no such file: correct "
        "spec.model.uri, which is relative to the run file."
    )
    outcome = Outcome(state="Refused", reason="ModelNotFound", message=message)
    return a_result(outcome=outcome, environment=None, scenarios=[])


def a_long_result(seconds: int = 600) -> ResultDocument:
    """Return a run with so many windows of one second, in which errors came up."""
    load = Load(seconds=seconds, qps=35.0, failures={"timeout": 14, "status": 3})
    long = ScenarioResult(
        name="traffic",
        kind="server",
        seed=42,
        steps=[a_step(load)],
        verdict=Verdict(state="VALID", cautions=[_co_located()]),
    )
    scenario = {"name": "traffic", "server": {"targetQps": 35, "latencyBoundMicroseconds": 900_000}}
    return a_result(run=a_run([scenario]), scenarios=[long])


def an_environment(**changes: Any) -> Environment:
    """Return the conditions of a local run on a small machine."""
    fields: dict[str, Any] = {
        "place": "Local",
        "node": Node(
            hostname="bench-01",
            operating_system="Debian GNU/Linux 12 (bookworm)",
            kernel="6.1.0-31-amd64",
            architecture="x86_64",
            cpu_model="AMD EPYC 7B13",
            cpu_count=4,
            memory_bytes=16 * 2**30,
            cpu_governor="performance",
        ),
        "server": ServerFacts(
            launched=True,
            url="http://127.0.0.1:38211",
            name="inferometer",
            version="0.1.0",
            extensions=["binary_tensor_data"],
            settings={
                "onnxruntime": "1.22.1",
                "threads": "1",
                "instances": "1",
                "providers": "CPUExecutionProvider",
            },
            nodes_by_provider={"CPUExecutionProvider": 122},
        ),
        "model": ModelFacts(
            name="resnet50",
            version="1",
            uri="zoo://classification/resnet50",
            sha256="9f2d1c0b7a4e83f65d21c9b0a7e6f5d4c3b2a19087f6e5d4c3b2a1908f7e6d5c",
            inputs=[Tensor(name="input", datatype="FP32", shape=[-1, 3, 224, 224])],
            outputs=[Tensor(name="logits", datatype="FP32", shape=[-1, 1000])],
        ),
        "packages": {"uvloop": "0.21.0", "hdrhistogram": "0.10.8", "python": "3.11.2"},
        "notes": ["resources.cpu and resources.memory are not enforced in local runs."],
    }
    return Environment(**(fields | changes))


def a_distribution(nanoseconds: Nanoseconds) -> Distribution:
    """Return the distribution of these times, with bounds by order statistics."""
    histogram = HdrHistogram(1, 3600 * _SECOND, 3)
    for value in nanoseconds.tolist():
        histogram.record_value(value)
    ordered = np.sort(nanoseconds)
    return Distribution(
        count=len(ordered),
        min_nanoseconds=int(ordered[0]),
        mean_nanoseconds=int(ordered.mean()),
        max_nanoseconds=int(ordered[-1]),
        percentiles=[_percentile(ordered, percentile) for percentile in _PERCENTILES],
        histogram=histogram.encode().decode("ascii"),
    )


def a_step(load: Load) -> Step:
    """Return what was found under this load."""
    samples = _samples(load)
    open_loop = load.qps is not None
    count = len(samples.done)
    duration = int(samples.done.max())
    failed = sum(load.failures.values())
    return Step(
        label=load.label,
        batch_size=load.batch_size,
        started_at="2026-03-12T14:03:31Z",
        warm_up_nanoseconds=2 * _SECOND,
        warm_up_queries=int(2 * count / load.seconds),
        duration_nanoseconds=duration,
        counts=Counts(
            queries=count + failed,
            samples=count * load.batch_size,
            succeeded=count,
            failed=failed,
            errors=load.failures,
            scheduled=count + failed if open_loop else None,
            waited_for_connection=3 if open_loop else 0,
            checked_replies=min(count, 32),
        ),
        scheduled_qps=(count + failed) / duration * _SECOND if open_loop else None,
        achieved_qps=count / duration * _SECOND,
        achieved_samples_per_second=count * load.batch_size / duration * _SECOND,
        latency=a_distribution(samples.latency),
        service_time=a_distribution(samples.service) if open_loop else None,
        dispatch_lag=a_distribution(samples.lag) if open_loop else None,
        windows=_windows(samples, load),
        usage=_usage(load),
        server_cpu_seconds=load.seconds * 0.93,
        client_cpu_seconds=load.seconds * 0.02,
        error_examples=[
            ErrorExample(kind=kind, message=f"no reply ({kind})") for kind in load.failures
        ],
        energy=Energy(attribution="unavailable", reason=_NO_AGENT),
    )


def _samples(load: Load) -> _Samples:
    random = np.random.default_rng(load.seed)
    mean = load.service_milliseconds * load.batch_size**0.86 * 1e6
    count = int((load.qps or _SECOND / mean) * load.seconds)
    service = (mean * (0.97 + random.lognormal(-3.6, 0.9, count))).astype(np.int64)
    if load.qps is None:
        done = np.cumsum(service)
        return _Samples(done - service, np.zeros_like(done), done, service)
    scheduled = np.cumsum(random.exponential(_SECOND / load.qps, count)).astype(np.int64)
    lag = random.lognormal(10.4, 0.6, count).astype(np.int64)
    done = np.empty_like(scheduled)
    free_at = 0
    for query in range(count):
        free_at = max(free_at, int(scheduled[query] + lag[query])) + int(service[query])
        done[query] = free_at
    return _Samples(scheduled, lag, done, done - scheduled - lag)


def _percentile(ordered: Nanoseconds, percentile: float) -> PercentileValue:
    count, share = len(ordered), percentile / 100
    spread = 1.96 * np.sqrt(count * share * (1 - share))
    low, high = int(count * share - spread), int(np.ceil(count * share + spread))
    return PercentileValue(
        percentile=percentile,
        nanoseconds=int(ordered[min(count - 1, int(np.ceil(count * share)) - 1)]),
        low_nanoseconds=int(ordered[low]) if low >= 0 else None,
        high_nanoseconds=int(ordered[high]) if high < count else None,
    )


def _windows(samples: _Samples, load: Load) -> list[Window]:
    windows = []
    failed_in = {2 + 5 * index for index in range(sum(load.failures.values()))}
    for second in range(int(np.ceil(samples.done.max() / _SECOND))):
        start, end = second * _SECOND, (second + 1) * _SECOND
        answered = (samples.done >= start) & (samples.done < end)
        due = (samples.scheduled >= start) & (samples.scheduled < end)
        latency = np.sort(samples.latency[answered])
        some = len(latency) > 0
        windows.append(
            Window(
                start_milliseconds=second * 1000,
                duration_milliseconds=1000,
                scheduled=int(due.sum()) if load.qps is not None else None,
                succeeded=len(latency),
                failed=1 if second in failed_in else 0,
                p50_nanoseconds=int(latency[len(latency) // 2]) if some else None,
                p99_nanoseconds=int(latency[int(len(latency) * 0.99)]) if some else None,
                max_nanoseconds=int(latency[-1]) if some else None,
            )
        )
    return windows


def _usage(load: Load) -> list[UsageSample]:
    random = np.random.default_rng(load.seed + 1)
    grown = 180 + 6 * load.batch_size
    return [
        UsageSample(
            at_milliseconds=second * 1000,
            server_cpu_cores=None if second == 0 else 0.93 + 0.04 * random.random(),
            server_memory_bytes=int((grown + 2 * random.random()) * _MIB),
            client_cpu_cores=0.015 + 0.01 * random.random(),
            client_memory_bytes=int((96 + random.random()) * _MIB),
        )
        for second in range(int(load.seconds) + 1)
    ]


def _co_located() -> Finding:
    return Finding(
        rule="CoLocated",
        message="Server and load generator shared the 4 CPUs of bench-01: the server may have had "
        "less than a machine of its own would give it.",
        figure="same node",
        limit="nodes of their own",
    )


def _single_stream() -> ScenarioResult:
    verdict = Verdict(state="VALID", cautions=[_co_located()])
    return ScenarioResult(
        name="latency", kind="singleStream", seed=42, steps=[a_step(Load())], verdict=verdict
    )


def _traffic() -> ScenarioResult:
    step = a_step(Load(qps=38.5, failures={"timeout": 2, "connection": 1}))
    latency = step.latency
    p99 = 0.0 if latency is None else latency.percentiles[4].nanoseconds / 1e6
    reasons = [
        Finding(
            rule="LatencyBound",
            message=f"The 99th percentile of the latency is {p99:.0f} ms, and at most 120 ms were "
            "asked: lower targetQps or give the server more threads.",
            figure=f"{p99:.0f} ms",
            limit="120 ms",
        ),
        Finding(
            rule="ErrorRate",
            message="3 of 770 queries failed (0.39 %), and 0.1 % is the most that a valid "
            "scenario may have: see the errors below.",
            figure="0.39 %",
            limit="0.1 %",
        ),
    ]
    verdict = Verdict(state="INVALID", reasons=reasons, cautions=[_co_located()])
    return ScenarioResult(name="traffic", kind="server", seed=42, steps=[step], verdict=verdict)


def _batches() -> ScenarioResult:
    steps = [a_step(Load(batch_size=size, label=f"batch {size}")) for size in (1, 8, 32)]
    verdict = Verdict(state="VALID", cautions=[_co_located()])
    return ScenarioResult(name="throughput", kind="batch", seed=42, steps=steps, verdict=verdict)
