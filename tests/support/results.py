"""Result documents for tests of the report and of the table.

Documents as a real run leaves them: complete, ended early, refused, long.
"""

from typing import Any

from inferometer_api.results.result import (
    SCHEMA_VERSION,
    Environment,
    Finding,
    ModelInfo,
    Node,
    Outcome,
    OutcomeState,
    ResultDocument,
    ScenarioResult,
    ServerInfo,
    Tensor,
    Verdict,
)
from inferometer_api.spec.run import BenchmarkRun
from support.energies import Machine, metered
from support.steps import Load, a_step


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
        "schema_version": SCHEMA_VERSION,
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


def a_metered_result(*machines: Machine) -> ResultDocument:
    """Return the complete run of three scenarios with the reports of these nodes' agents.

    Without machines: one node with counters, that its servers share.
    """
    whole = a_result()
    scenarios = [
        result.model_copy(
            update={"steps": [metered(step, *(machines or (Machine(),))) for step in result.steps]}
        )
        for result in whole.scenarios
    ]
    return whole.model_copy(update={"scenarios": scenarios})


def an_unfinished_result(state: OutcomeState = "Interrupted") -> ResultDocument:
    """Return a run that ended while its second scenario was measured."""
    messages: dict[OutcomeState, tuple[str, str]] = {
        "Complete": ("Measured", ""),
        "Interrupted": ("Interrupted", "Ctrl-C was pressed while scenario traffic was measured."),
        "Terminated": ("Terminated", "SIGTERM came while scenario traffic was measured."),
        "Failed": (
            "ServerDied",
            (
                "The server ended with exit code 139 (SIGSEGV) while scenario traffic was "
                "measured; its last lines follow. See whether it has enough memory.\n"
                "14:03:59 info  ready on 127.0.0.1:38211\n"
                "14:04:11 fatal segmentation fault in session.run"
            ),
        ),
        "Refused": ("PortInUse", "Port 8000 is configured, and another process listens on it."),
    }
    reason, message = messages[state]
    ended = a_step(Load(qps=38.5, seconds=7.4)).model_copy(update={"ended_early": True})
    finding = Finding(
        rule="MinDuration",
        message="Scenario traffic was measured for 7.4 s, and 20 s are required: run it longer.",
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
        "Model file not found: file:models/missing.onnx. Correct "
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
        "server": ServerInfo(
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
            graph_nodes_by_provider={"CPUExecutionProvider": 122},
        ),
        "model": ModelInfo(
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
            message=f"The 99th percentile of the latency is {p99:.0f} ms, and at most 120 ms are "
            "allowed: lower targetQps or give the server more threads.",
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
