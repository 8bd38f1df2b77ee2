"""A runtime is one module with a descriptor and one row of the table; nothing else knows it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest
from docgen.runtime_lists import runtime_lists

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.fetch_commands import fetch_command
from inferometer_api.plan.launch import server_containers
from inferometer_api.plan.spec_warnings import local_notes
from inferometer_api.runtimes import table
from inferometer_api.runtimes.descriptor import LOOPBACK, Place, ServerStart
from inferometer_api.runtimes.table import launch_of
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import check_installed
from support.condition_rows import a_cluster
from support.manifests import PLAIN, after, mounts, read, server_pod
from support.runs import Run, a_run
from support.toy_runtime import NAME, TOY


@pytest.fixture(autouse=True)
def _row() -> Iterator[None]:
    rows = dict(table._ROWS)
    table._ROWS[NAME] = TOY
    yield
    # In their order, which messages show.
    table._ROWS.clear()
    table._ROWS.update(rows)


def toy_run(uri: str = "zoo://classification/resnet50", **server: object) -> Run:
    """Return a run with the toy as its server."""
    return a_run(model={"uri": uri}, server={"runtime": NAME, **server})


@pytest.mark.parametrize("place", get_args(Place))
def test_its_row_makes_it_available(place: Place) -> None:
    """What the descriptor supports is accepted, and the rest refused with its sentences."""
    assert unavailable(read(toy_run()), place=place) == ()
    assert unavailable(read(toy_run(device="GPU", instances=2)), place=place) == (
        "spec.server.device: GPU is not available in this version; available: CPU.",
        "spec.server.instances: the toy has one instance; leave it out.",
    )
    table._ROWS.pop("Triton")
    others = unavailable(read(a_run(server={"runtime": "Triton"})), place=place)
    assert f"available: OnnxRuntime, OpenVino, {NAME}, KServe, Custom, External." in others[0]


def test_its_row_puts_it_into_the_rules() -> None:
    """The lists by which the API server judges a run follow from the descriptor."""
    assert f'"{NAME}"' not in runtime_lists()
    table._ROWS[NAME] = replace(TOY, holds_several_models=True, runs_steps=True)
    several, steps = runtime_lists().split("RUN_STEPS")
    assert f'"{NAME}"' in several
    assert f'"{NAME}"' in steps


def test_its_pod_follows_from_the_descriptor() -> None:
    """Image, command, ports, probe, metrics, grace and files of the pod are the descriptor's."""
    pod = server_pod(toy_run())
    (server,) = pod["containers"]
    assert server["image"] == "registry.example.com/toy:1.0"
    assert server["command"] == [
        *("toyserver", "--repository", "/model/repository", "--address", "0.0.0.0"),  # noqa: S104
        *("--http", "9000", "--grpc", "9001", "--metrics", "9002"),
    ]
    assert {"name": "TOY", "value": "1"} in server["env"]
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {
        "http": 9002,
        "grpc": 9001,
        "requests": 9000,
    }
    assert server["startupProbe"]["httpGet"] == {"path": "/ready", "port": 9000}
    assert pod["terminationGracePeriodSeconds"] == 7
    (fetcher,) = pod["initContainers"]
    assert fetcher["image"] == PLAIN.images.serving
    assert after("--file-name", fetcher["command"]) == "repository/resnet50/1/model.onnx"
    config = '--write=repository/resnet50/config.pbtxt=name: "resnet50"\nmax_batch_size: 8'
    assert config in fetcher["command"]


def test_requests_go_to_its_port() -> None:
    """The plan of the load generator has the descriptor's port of the protocol."""
    for protocol, scheme, port in (("HTTP", "http", 9000), ("GRPC", "grpc", 9001)):
        cluster = a_cluster({"server": {"runtime": NAME}, "load": {"protocol": protocol}})
        cluster.settle().schedule().start_server()
        plan = json.loads(cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"])
        (server,) = plan["servers"]
        assert server["url"].startswith(f"{scheme}://")
        assert server["url"].endswith(f":{port}")


def test_its_image_can_come_from_a_mirror() -> None:
    """The operator's settings override the descriptor's reference."""
    images = PLAIN.images.model_copy(update={"servers": {"toy": "mirror/toy:2"}})
    pod = server_pod(toy_run(), PLAIN.model_copy(update={"images": images}))
    assert pod["containers"][0]["image"] == "mirror/toy:2"


def test_a_model_on_a_claim_is_copied_into_its_layout() -> None:
    """The copy takes the storage of the pod, whose limit holds for it."""
    pod = server_pod(toy_run("pvc://claim/a/net.onnx"))
    (fetcher,), (server,) = pod["initContainers"], pod["containers"]
    assert "--copy-model" in fetcher["command"]
    assert after("--file-name", fetcher["command"]) == "repository/net/1/model.onnx"
    assert after("--max-model-bytes", fetcher["command"]) == str(10 << 30)
    assert after("--repository", server["command"]) == "/model/repository"
    assert mounts(server)["/model"] is True


def test_its_local_command_follows_from_the_descriptor() -> None:
    """A local run uses the same layout and the same command with paths and ports of its own."""
    run = read(toy_run("file:net.onnx"))
    fetch = fetch_command(run, launch_of(run.spec), base="/b", destination="/t", python="py")
    assert "--copy-model" in fetch
    assert after("--file-name", list(fetch)) == "repository/net/1/model.onnx"
    layout = launch_of(run.spec).layout(run).located("/t", "/t/repository/net/1/model.onnx")
    assert layout.model_path == "/t/repository/net/1/model.onnx"
    start = ServerStart(layout=layout, python="py", listen=LOOPBACK)
    (server,) = server_containers(run, launch_of(run.spec), start)
    assert after("--repository", list(server.command)) == "/t/repository"
    assert after("--address", list(server.command)) == "127.0.0.1"
    assert local_notes(run) == ()


def test_its_program_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a local run is refused with the descriptor's installation."""
    local = launch_of(read(toy_run()).spec).local
    with pytest.raises(RefusedError, match=r"Toy server is not installed.*from toy\.example\.com"):
        check_installed(local)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/toyserver")
    check_installed(local)
