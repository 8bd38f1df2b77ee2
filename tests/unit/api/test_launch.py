"""A run becomes what it means, and the command lines that do it."""

import argparse
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.document import milli
from inferometer_api.plan.fetch_commands import (
    FetchingPod,
    fetch_command,
    fetch_inputs_command,
    pod_layout,
)
from inferometer_api.plan.launch import load_command, load_plan, server_containers
from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_api.plan.spec_warnings import local_notes
from inferometer_api.runtimes.descriptor import FetchedLayout, Listen, ServerStart
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.resolve import fill_defaults, whole_cpus
from inferometer_api.spec.run import BenchmarkRun
from inferometer_serving.command_line import add_options
from support.run_table import rows
from support.runs import Run, a_run, a_scenario, an_external_run, with_value


def read(run: Run) -> BenchmarkRun:
    """Return a valid run, resolved."""
    return fill_defaults(BenchmarkRun.model_validate(run))


def options(command: tuple[str, ...]) -> dict[str, str]:
    """Return the options of a command line; its first three words start the module."""
    words = iter(command[3:])
    found = {}
    for word in words:
        flag, separator, value = word.partition("=")
        found[flag] = value if separator else next(words)
    return found


def server_command(run: BenchmarkRun, start: ServerStart) -> tuple[str, ...]:
    """Return the command line of a run's server."""
    return server_containers(run, launch_of(run.spec), start)[0].command


@pytest.mark.parametrize(
    ("cpu", "threads"),
    [("1", 1), ("2", 1), ("4", 3), ("500m", 1), ("0.5", 1), ("2500m", 1), ("3.9", 2), (16, 15)],
)
def test_threads_are_whole_cpus_less_one(cpu: object, threads: int) -> None:
    """The default of threads leaves one CPU for the protocol, and is at least one."""
    assert read(a_run(server={"resources": {"cpu": cpu}})).spec.server.threads == threads


@given(st.integers(1, 999_999))
def test_cpus_are_read_alike_in_every_spelling(cpus: int) -> None:
    """A number of CPUs is the same written whole, with decimals, or in thousandths."""
    assert whole_cpus(str(cpus)) == whole_cpus(f"{cpus}.999") == whole_cpus(f"{cpus}500m") == cpus


def test_explicit_settings_are_kept() -> None:
    """Resolving changes nothing that a person wrote, and nothing twice."""
    run = read(a_run(server={"threads": 5, "device": "GPU", "gpu": {"resource": "a/b"}}))
    assert run.spec.server.threads == 5
    assert run.spec.server.gpu is not None
    assert run.spec.server.gpu.resource == "a/b"
    assert fill_defaults(run) == run


def test_a_gpu_is_filled_in() -> None:
    """Device GPU without more means one nvidia.com/gpu."""
    gpu = read(a_run(server={"device": "GPU"})).spec.server.gpu
    assert gpu is not None
    assert (gpu.resource, gpu.count) == ("nvidia.com/gpu", 1)


def test_an_external_server_has_settings_of_its_own() -> None:
    """Nothing is filled in for a server that Inferometer does not start."""
    assert read(an_external_run()).spec.server.threads is None


def test_every_valid_run_stays_valid_once_resolved() -> None:
    """A resolved run can be written and read again, as a plan and a result do."""
    for row in rows():
        if row.valid:
            run = read(row.run)
            text = run.model_dump_json(exclude_none=True)
            assert BenchmarkRun.model_validate_json(text, by_name=False) == run, row.name


def test_a_local_run_lists_what_it_does_not_enforce() -> None:
    """Resources always, placement and retention if they are set."""
    assert [note.partition(" ")[0] for note in local_notes(read(a_run()))] == [
        "spec.server.resources"
    ]
    run = read(
        a_run(
            server={
                "placement": {"nodeSelector": {"a": "b"}},
                "device": "GPU",
                "gpu": {"resource": "nvidia.com/mig-1g.10gb"},
            },
            retention={"cleanup": "Never"},
        )
    )
    assert [note.partition(" ")[0] for note in local_notes(run)] == [
        "spec.server.resources",
        "spec.server.placement",
        "spec.server.gpu.resource",
        "spec.retention",
    ]
    assert local_notes(read(an_external_run())) == ()


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("zoo://classification/resnet50", "resnet50"),
        ("zoo://resnet50", "resnet50"),
        ("file:model.onnx", "model"),
        ("file:a/b/my%20model.onnx", "my-model"),
        ("file:///abs/net.v2.onnx", "net.v2"),
        ("file:/abs/dir/", "dir"),
        ("file:..", "model"),
        ("https://host/a/m.onnx?token=x/y.z", "m"),
    ],
)
def test_a_served_model_is_called_by_its_file(uri: str, name: str) -> None:
    """The server's name for a model is the last part of its address, safe in a URL."""
    model = {"uri": uri, "sha256": "0" * 64} if uri.startswith("https") else {"uri": uri}
    assert read(a_run(model=model)).spec.model.served_name == name


def test_an_external_model_is_called_as_it_was_named() -> None:
    """With an External server the name is spec.model.name."""
    assert read(an_external_run(model={"name": "my model"})).spec.model.served_name == "my model"


def test_batch_sizes_are_those_that_the_scenarios_send() -> None:
    """The server is warmed up for each batch size that will be sent, and no other."""
    run = a_run(
        scenarios=[
            {"name": "a", "batch": {"batchSizes": [32, 8]}},
            {"name": "b", "multiStream": {"samplesPerQuery": 4}},
            {"name": "c", "offline": {"batchSize": 64}},
            {"name": "d", "server": {"targetQps": 1}},
        ]
    )
    assert read(run).spec.request_batch_sizes == (1, 4, 8, 32, 64)
    assert read(a_scenario(batch={"batchSizes": [8]})).spec.request_batch_sizes == (8,)


def test_the_server_is_started_with_the_runs_settings() -> None:
    """The server's command line has model, device, threads, instances, batching and warm-up."""
    run = read(
        a_run(
            server={
                "threads": 3,
                "instances": 2,
                "device": "GPU",
                "batching": {"maxBatchSize": 16, "maxDelayMicroseconds": 700},
            },
            load={"inputs": {"random": {"shapes": {"a=b": [1, 3, 8], "scalar": []}}}},
            scenarios=[{"name": "a", "batch": {"batchSizes": [8, 1]}}],
        )
    )
    command = server_command(
        run, ServerStart(layout=FetchedLayout(model_file="/m.onnx"), python="py")
    )
    assert command[:3] == ("py", "-m", "inferometer_serving")
    assert options(command) == {
        "--model": "/m.onnx",
        "--model-name": "resnet50",
        "--engine": "onnxruntime",
        "--device": "GPU",
        "--precision": "Default",
        "--threads": "3",
        "--instances": "2",
        "--max-batch-size": "16",
        "--max-delay-microseconds": "700",
        "--host": "127.0.0.1",
        "--http-port": "0",
        "--grpc-port": "0",
        "--warm-up-batch-sizes": "1,8",
        "--run": "a-run",
        "--run-namespace": "local",
        "--warm-up-shape": "a=b=1,3,8",
    }


def test_a_server_that_runs_steps_is_started_with_the_manifest() -> None:
    """Python steps need their own permission."""
    run = read(a_run())
    start = ServerStart(layout=FetchedLayout(model_file="m"), python="py", manifest_file="/m.yaml")
    found = options(server_command(run, start))
    assert found["--manifest"] == "/m.yaml"
    assert "--allow-python-steps" not in found
    allowed = options(server_command(run, replace(start, allow_python_steps=True)))
    assert allowed["--allow-python-steps"] == "on"


def test_shapes_of_a_file_warm_the_server_up() -> None:
    """A caller that sends a file's tensors gives their shapes."""
    run = read(a_run(load={"inputs": {"file": {"uri": "file:a.npz"}}}))
    assert "--warm-up-shape" not in options(
        server_command(run, ServerStart(layout=FetchedLayout(model_file="m"), python="py"))
    )
    command = server_command(
        run, ServerStart(layout=FetchedLayout(model_file="m"), python="py", shapes={"x": (1, 5)})
    )
    assert options(command)["--warm-up-shape"] == "x=1,5"


def test_a_name_is_no_option() -> None:
    """An input whose name looks like an option is an input to the server all the same."""
    shapes = {"--host=0.0.0.0": [1, 8]}
    run = read(a_run(load={"inputs": {"random": {"shapes": shapes}}}))
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    add_options(parser)
    command = server_command(
        run, ServerStart(layout=FetchedLayout(model_file="m.onnx"), python="py")
    )
    found, _ = parser.parse_known_args(command[3:])
    assert dict(found.warm_up_shapes) == {"--host=0.0.0.0": (1, 8)}
    assert found.host == "127.0.0.1"


def test_a_server_in_a_pod_gets_its_listen_addresses() -> None:
    """Host and ports are the pod's, and the shapes of samples come from the file itself."""
    run = read(a_run(load={"inputs": {"file": {"uri": "configmap://a/b.npz"}}}))
    command = server_command(
        run,
        ServerStart(
            layout=FetchedLayout(model_file="m"),
            python="py",
            inputs_file="/model/inputs.npz",
            listen=Listen("0.0.0.0", 8000, 8001),  # noqa: S104 - nothing listens here
            max_model_bytes=7,
        ),
    )
    flags = options(command)
    assert flags["--host"] == "0.0.0.0"  # noqa: S104 - nothing listens here
    assert (flags["--http-port"], flags["--grpc-port"]) == ("8000", "8001")
    assert flags["--warm-up-inputs"] == "/model/inputs.npz"
    assert flags["--max-model-bytes"] == "7"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("zoo://resnet50", "/model/model.onnx"),
        ("https://h/m.onnx", "/model/model.onnx"),
        ("s3://b/a/m.onnx", "/model/model.onnx"),
        ("pvc://claim/a/m%20n.onnx", "/sources/claims/claim/a/m n.onnx"),
    ],
)
def test_the_model_path_in_a_pod_follows_its_uri(uri: str, path: str) -> None:
    """A model on a claim is served where it lies, every other one from the folder of the pod."""
    model = {"uri": uri, "sha256": "0" * 64} if uri.startswith("https") else {"uri": uri}
    run = read(a_run(model=model))
    layout = pod_layout(run, launch_of(run.spec), destination="/model", sources="/sources")
    assert (layout.root, layout.model_path) == ("/model", path)


def test_a_pod_fetches_model_and_inputs_at_once() -> None:
    """The fetcher of a pod gets its folders, its limits and the inputs file."""
    pod = FetchingPod("/sources", max_model_bytes=5, max_written_bytes=7)
    file = {"inputs": {"file": {"uri": "configmap://a/b.npz"}}}
    run = read(a_run(load=file))
    assert options(
        fetch_command(run, launch_of(run.spec), destination="/model", python="py", pod=pod)
    ) == {
        "--uri": "zoo://classification/resnet50",
        "--destination": "/model",
        "--file-name": "model.onnx",
        "--max-model-bytes": "5",
        "--inputs-uri": "configmap://a/b.npz",
        "--sources": "/sources",
        "--max-written-bytes": "7",
    }
    assert options(fetch_inputs_command(run, destination="/inputs", python="py", pod=pod)) == {
        "--inputs-uri": "configmap://a/b.npz",
        "--destination": "/inputs",
        "--sources": "/sources",
        "--max-written-bytes": "7",
    }
    with pytest.raises(ValueError, match="nothing is fetched"):
        fetch_inputs_command(read(a_run()), destination="/inputs", python="py", pod=pod)


def test_only_a_launched_server_has_a_command() -> None:
    """An External server is neither fetched for nor started."""
    run = read(an_external_run())
    with pytest.raises(ValueError, match="starts no server with the runtime External"):
        server_command(run, ServerStart(layout=FetchedLayout(model_file="m"), python="py"))
    with pytest.raises(ValueError, match="nothing is fetched"):
        fetch_command(run, launch_of(read(a_run()).spec), base=".", destination=".", python="py")


def test_the_model_is_fetched_with_its_checksum() -> None:
    """The fetcher is given the address, the folder that it begins in, and the checksum."""
    model = {"uri": "https://h/m.onnx", "sha256": "0" * 64}
    run = read(a_run(model=model))
    command = fetch_command(
        run, launch_of(run.spec), base="/here", destination="/there", python="py"
    )
    assert command[:3] == ("py", "-m", "inferometer_fetch")
    assert command[-1] == "--zoo-cache"
    assert options(command[:-1]) == {
        "--uri": model["uri"],
        "--sha256": model["sha256"],
        "--relative-to": "/here",
        "--destination": "/there",
        "--file-name": "model.onnx",
    }
    run, launch = read(a_run()), launch_of(run.spec)
    unchecked = fetch_command(run, launch, base="/h", destination="/t", python="py")
    assert "--sha256" not in unchecked


def test_the_load_generator_reads_its_plan() -> None:
    """A plan survives being written to the load generator's standard input."""
    run = read(with_value(an_external_run(), ("spec", "model", "version"), "3"))
    plan = load_plan(
        run,
        place="Local",
        servers=[PlannedServer(url="http://127.0.0.1:1")],
        server_process_ids=[7],
        notes=["a"],
    )
    assert load_command("py") == ("py", "-m", "inferometer_loadgen")
    assert options(load_command("py", plan_path="/p.json", port=8080)) == {
        "--plan": "/p.json",
        "--listen": "8080",
    }
    assert options(load_command("py", metrics_port=0)) == {"--metrics-listen": "0"}
    assert LoadPlan.model_validate_json(plan.model_dump_json(exclude_none=True)) == plan
    assert (plan.launched, plan.model_name, plan.model_version) == (False, "resnet", "3")
    assert load_plan(read(a_run()), place="Local", servers=[PlannedServer(url="http://a")]).launched


@given(st.integers(0, 9_999_999), st.integers(0, 999))
def test_a_rate_is_exact_in_thousandths(whole: int, thousandths: int) -> None:
    """A decimal is the same number in thousandths, whatever its spelling."""
    assert milli(f"{whole}.{thousandths:03}") == whole * 1000 + thousandths
    assert milli(whole) == whole * 1000
