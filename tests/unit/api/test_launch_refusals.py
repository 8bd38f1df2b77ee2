"""Files and commands of launched servers of other projects: Triton, MLServer, and an admin's."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferometer_api.plan.launch import server_containers
from inferometer_api.runtimes.custom import AllowedServer, custom_launch
from inferometer_api.runtimes.descriptor import (
    INSTANCE_ID,
    Listen,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.run import BenchmarkRun
from support.manifests import read
from support.runs import a_run

LISTEN = Listen("127.0.0.1", 1, 2, 3)
DIGEST = "sha256:" + "0" * 64
WORD = f'{{ string_value: "{INSTANCE_ID}" }}'


def run_of(**server: Any) -> BenchmarkRun:
    """Return a resolved run with such a server."""
    return read(a_run(model={"uri": "zoo://classification/resnet50"}, server=server))


def container(run: BenchmarkRun, launch: ServerLaunch | None = None) -> ServerContainer:
    """Return the container of a run's server, in the folder /m."""
    launch = launch or launch_of(run.spec)
    layout = launch.layout(run).located("/m")
    (found,) = server_containers(
        run, launch, ServerStart(layout=layout, python="py", listen=LISTEN)
    )
    return found


def triton_config(**server: Any) -> list[str]:
    """Return the lines of the config.pbtxt of such a Triton."""
    run = run_of(runtime="Triton", **server)
    text = launch_of(run.spec).layout(run).files["resnet50/config.pbtxt"]
    return text.splitlines()


def test_triton_gets_a_repository() -> None:
    """Model, configuration and folder are where Triton looks for them."""
    run = run_of(runtime="Triton", threads=3, instances=2)
    layout = launch_of(run.spec).layout(run)
    assert layout.model_path == "repository/resnet50/1/model.onnx"
    assert triton_config(threads=3, instances=2) == [
        'name: "resnet50"',
        'backend: "onnxruntime"',
        "max_batch_size: 0",
        "instance_group [{ kind: KIND_CPU count: 2 }]",
        f'parameters {{ key: "inferometer.instance_id" value: {WORD} }}',
        'parameters { key: "inferometer.runtime" value: { string_value: "onnxruntime" } }',
        'parameters { key: "intra_op_thread_count" value: { string_value: "3" } }',
    ]
    assert layout.programs == {}


def test_triton_joins_requests_as_the_spec_says() -> None:
    """Batching becomes Triton's dynamic batching; without it Triton must not add its own."""
    lines = triton_config(batching={"maxBatchSize": 8, "maxDelayMicroseconds": 500})
    assert "max_batch_size: 8" in lines
    assert "dynamic_batching { max_queue_delay_microseconds: 500 }" in lines
    command = container(run_of(runtime="Triton")).command
    assert "--backend-config=default-max-batch-size=0" in command


def test_triton_gets_its_ports_and_folder() -> None:
    """All addresses and ports are those of the place."""
    command = container(run_of(runtime="Triton")).command
    assert command[0] == "tritonserver"
    assert {
        "--model-repository=/m/repository",
        *("--http-address=127.0.0.1", "--http-port=1"),
        *("--grpc-address=127.0.0.1", "--grpc-port=2"),
        *("--metrics-address=127.0.0.1", "--metrics-port=3"),
    } <= set(command)


def test_triton_runs_on_the_gpu_or_by_another_back_end() -> None:
    """The spec chooses back end and kind of instances."""
    assert "instance_group [{ kind: KIND_GPU count: 1 }]" in triton_config(device="GPU")
    lines = triton_config(tritonBackend="OpenVino", threads=3)
    assert 'backend: "openvino"' in lines
    assert 'parameters { key: "INFERENCE_NUM_THREADS" value: { string_value: "3" } }' in lines
    run = run_of(runtime="Triton", tritonBackend="Python")
    assert launch_of(run.spec).layout(run).programs == {"resnet50/1/model.py": "triton_model"}
    with pytest.raises(ValidationError, match="tritonBackend is only for runtime Triton"):
        run_of(tritonBackend="Python")


def test_mlserver_gets_settings_and_a_class() -> None:
    """The model's settings name the class next to it, its threads and its batching."""
    batching = {"maxBatchSize": 8, "maxDelayMicroseconds": 500}
    run = run_of(runtime="MLServer", threads=3, batching=batching)
    layout = launch_of(run.spec).layout(run)
    assert layout.model_path == "models/resnet50/model.onnx"
    assert layout.programs == {"resnet50/inferometer_model.py": "mlserver_model"}
    assert json.loads(layout.files["resnet50/model-settings.json"]) == {
        "name": "resnet50",
        "implementation": "inferometer_model.OnnxModel",
        "parameters": {"uri": "./model.onnx", "extra": {"threads": 3}},
        "max_batch_size": 8,
        "max_batch_time": 0.0005,
    }


@pytest.mark.parametrize(
    ("server", "workers", "extensions"),
    [
        ({}, "0", '["statistics"]'),
        ({"instances": 3}, "3", "[]"),
        ({"batching": {"maxBatchSize": 2, "maxDelayMicroseconds": 1}}, "0", "[]"),
    ],
)
def test_mlserver_gets_its_ports_and_processes(
    server: dict[str, Any], workers: str, extensions: str
) -> None:
    """Several instances are processes; statistics are announced only where they are whole."""
    found = container(run_of(runtime="MLServer", **server))
    assert found.command == ("mlserver", "start", "/m/models")
    ports = {name: found.env[f"MLSERVER_{name}_PORT"] for name in ("HTTP", "GRPC", "METRICS")}
    assert ports == {"HTTP": "1", "GRPC": "2", "METRICS": "3"}
    assert found.env["MLSERVER_PARALLEL_WORKERS"] == workers
    assert found.env["MLSERVER_EXTENSIONS"] == extensions


def test_a_server_of_the_admins_is_a_template() -> None:
    """Placeholders are replaced once, in command, arguments, environment and the model's path."""
    allowed = AllowedServer.model_validate(
        {
            "image": f"mirror/ovms@{DIGEST}",
            "arguments": ["--rest_port={httpPort}", "--model_path={modelFolder}/{modelName}"],
            "env": {"THREADS": "{threads}", "TEXT": "{unknown}"},
            "modelFile": "{modelName}/1/model.onnx",
            "httpPort": 9001,
            "grpcPort": 9000,
            "readyPath": "/v2/health/ready",
        }
    )
    run = run_of(runtime="Custom", custom={"name": "ovms"}, threads=3)
    launch = custom_launch(allowed)
    found = container(run, launch)
    assert found.command == ()
    assert found.arguments == ("--rest_port=1", "--model_path=/m/resnet50")
    assert found.env == {"THREADS": "3", "TEXT": "{unknown}"}
    assert launch.layout(run).model_path == "resnet50/1/model.onnx"
    assert (launch.port("HTTP"), launch.port("GRPC"), launch.scraped_port) == (9001, 9000, 9001)
    assert launch.images == {"custom": f"mirror/ovms@{DIGEST}"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": "mirror/ovms:latest"},
        {"image": f"mirror/ovms@{DIGEST}", "modelFile": "/etc/passwd"},
        {"image": f"mirror/ovms@{DIGEST}", "httpPort": 80},
        {"image": f"mirror/ovms@{DIGEST}", "privileged": True},
    ],
)
def test_an_entry_that_is_not_safe_is_refused(wrong: dict[str, Any]) -> None:
    """Images come by digest, models stay below their folder, and nothing adds privileges."""
    with pytest.raises(ValidationError):
        AllowedServer.model_validate(wrong)
