"""One manifest in a run: neither the server's nor the load generator's may be another one."""

import hashlib
from pathlib import Path

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import Tensor
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.refusals import ModelNotServedError
from inferometer_loadgen.server.servers import check_same_model
from inferometer_loadgen.task.model_task import load_task, manifest_info
from inferometer_tasks.errors import TaskRefusedError
from support.digits import MANIFEST
from support.load_runs import a_plan

_SHA256 = hashlib.sha256(MANIFEST.encode()).hexdigest()
_OTHER = "1" * 64


def _planned(folder: Path, sha256: str | None = None, text: str = MANIFEST) -> LoadPlan:
    path = folder / "model.yaml"
    path.write_text(text)
    plan = a_plan("http://127.0.0.1:1", {"singleStream": {}})
    return plan.model_copy(update={"manifest_file": str(path), "manifest_sha256": sha256})


def _server(**settings: str) -> ServerDescription:
    inputs = [Tensor(name="image", datatype="FP32", shape=[-1, 1, 8, 8])]
    outputs = [Tensor(name="scores", datatype="FP32", shape=[-1, 10])]
    engine = {"runtime": "onnxruntime", "runtime_version": "1.31.0"}
    return ServerDescription("s", "1", [], ["1"], inputs, outputs, {**engine, **settings})


def test_a_server_with_another_manifest_is_refused(tmp_path: Path) -> None:
    """Without a checksum in the spec it may change between the two fetches of a run."""
    plan = _planned(tmp_path)
    for read in (manifest_info, lambda plan, found: load_task(plan, found, ["Top1"])):
        with pytest.raises(TaskRefusedError) as refused:
            read(plan, _server(steps="normalize,reshape,softmax,topK", manifest_sha256=_OTHER))
        assert _OTHER in str(refused.value)
        assert _SHA256 in str(refused.value)
        assert "spec.model.manifest.sha256" in str(refused.value)


@pytest.mark.parametrize("settings", [{"manifest_sha256": _SHA256}, {}], ids=["same", "none"])
def test_the_result_has_the_checksum_of_what_was_read(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    """A server without steps has read no manifest."""
    info = manifest_info(_planned(tmp_path, _SHA256), _server(**settings))
    assert info is not None
    assert info.sha256 == _SHA256


def test_a_manifest_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    """The command has checked another one, and earlier scenarios have used it."""
    plan = _planned(tmp_path, _OTHER)
    with pytest.raises(TaskRefusedError, match=f"was {_OTHER} and is {_SHA256}"):
        manifest_info(plan, _server())
    with pytest.raises(TaskRefusedError, match="was changed during the run"):
        load_task(plan, _server(), ["Top1"])


def test_servers_that_share_requests_have_one_manifest() -> None:
    """Each pod fetches it: replicas, and the server of each repeat."""
    found = [_server(manifest_sha256=each) for each in (_SHA256, _OTHER)]
    with pytest.raises(
        ModelNotServedError, match=f"manifest_sha256 is {_SHA256} at a and {_OTHER}"
    ):
        check_same_model(["a", "b"], found)
    check_same_model(["a", "b"], [found[0], found[0]])


@pytest.mark.parametrize(
    ("engine", "version", "is_taken"),
    [
        ("onnxruntime", "1.31.0", True),
        ("onnxruntime", "1.19.2", False),
        ("onnxruntime", "", True),
        ("openvino", "", False),
        ("", "", True),
    ],
)
def test_an_engine_is_compared_as_far_as_the_server_names_it(
    tmp_path: Path, engine: str, version: str, *, is_taken: bool
) -> None:
    """Triton names its engine without a version; other servers may name none."""
    server = _server(runtime=engine, runtime_version=version)
    if is_taken:
        info = manifest_info(_planned(tmp_path), server)
        assert info is not None
        assert (info.resolved_engine, info.resolved_version) == (engine, version)
        return
    with pytest.raises(TaskRefusedError, match=f"the server has {engine} ?{version}:"):
        manifest_info(_planned(tmp_path), server)


_ONE = 'framework: {name: onnxruntime, version: ">=1.20 <2"}'
_EITHER = 'framework: [{name: onnxruntime, version: ">=1.20 <2"}, {name: openvino, version: ^2025}]'


@pytest.mark.parametrize(
    ("engine", "version", "framework", "constraint"),
    [
        ("onnxruntime", "1.31.0", "onnxruntime", ">=1.20 <2"),
        ("openvino", "2025.4.1-19998-abc", "openvino", "^2025"),
        ("", "", "onnxruntime >=1.20 <2 or openvino ^2025", ""),
    ],
)
def test_the_result_has_the_engine_of_several_that_the_server_has(
    tmp_path: Path, engine: str, version: str, framework: str, constraint: str
) -> None:
    """All of them if the server reports none."""
    assert _ONE in MANIFEST
    plan = _planned(tmp_path, text=MANIFEST.replace(_ONE, _EITHER))
    info = manifest_info(plan, _server(runtime=engine, runtime_version=version))
    assert info is not None
    assert (info.framework, info.framework_constraint) == (framework, constraint)
    assert (info.resolved_engine, info.resolved_version) == (engine, version)


def test_a_server_with_none_of_several_engines_is_refused(tmp_path: Path) -> None:
    """With what each needs."""
    plan = _planned(tmp_path, text=MANIFEST.replace(_ONE, _EITHER))
    words = r"needs onnxruntime >=1\.20 <2 or openvino \^2025, but the server has openvino 2026\.1:"
    with pytest.raises(TaskRefusedError, match=words):
        manifest_info(plan, _server(runtime="openvino", runtime_version="2026.1"))
