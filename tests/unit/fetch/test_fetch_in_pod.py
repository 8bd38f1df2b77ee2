"""Tests of the fetcher in a pod: it reads claims and ConfigMaps and never leaves them."""

import hashlib
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from inferometer_fetch import __main__ as fetcher
from inferometer_fetch.data_files import fetch_inputs
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.graph_inputs import graph_inputs
from inferometer_fetch.model import fetch_model
from inferometer_models import zoo
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from support import onnx_models


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return the folder of a pod's sources: a claim, and a ConfigMap as the kubelet lays it out."""
    claim = tmp_path / "sources" / "claims" / "models"
    (claim / "a b").mkdir(parents=True)
    (claim / "empty").mkdir()
    onnx_models.save(onnx_models.identity(), claim / "a b" / "net.onnx")
    version = tmp_path / "sources" / "configmaps" / "samples" / "..2026_11_21"
    version.mkdir(parents=True)
    np.savez(version / "x.npz", x=np.zeros((2, 3), np.float32))
    (version.parent / "..data").symlink_to(version.name)
    (version.parent / "x.npz").symlink_to("..data/x.npz")
    return tmp_path / "sources"


def _fetch(uri: str, sources: Path) -> Path:
    return fetch_model(uri, sources / "model", relative_to=sources, sources=sources).path


def _inputs(uri: str, sources: Path, max_bytes: int = 1 << 20) -> Path:
    return fetch_inputs(uri, sources / "inputs.npz", sources=sources, max_bytes=max_bytes)


def test_a_model_on_a_claim_stays_there(sources: Path) -> None:
    """Nothing is copied: the path is that of the claim, whatever is escaped in the address."""
    found = fetch_model(
        "pvc://models/a%20b/net.onnx", sources / "model", relative_to=sources, sources=sources
    )
    assert found.path == sources / "claims" / "models" / "a b" / "net.onnx"
    assert found.name == "net"
    assert not (sources / "model").exists()


def test_a_link_within_the_claim_is_followed(sources: Path) -> None:
    """People keep a link to the version that serves."""
    claim = sources / "claims" / "models"
    (claim / "current").symlink_to("a b")
    assert _fetch("pvc://models/current/net.onnx", sources).samefile(claim / "a b" / "net.onnx")


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("pvc://models/a%20b/nat.onnx", r"does not exist: the folder a b has net\.onnx; correct"),
        ("pvc://models/none/net.onnx", "does not exist: its place has a b, empty"),
        ("pvc://models/empty/net.onnx", "does not exist: the folder empty is empty"),
        ("pvc://models/a%20b", "is not a regular file"),
        ("pvc://others/net.onnx", "its folder cannot be read"),
        ("pvc://models/../models/a%20b/net.onnx", "could leave its place"),
        ("pvc://models/%2e%2e/models/a%20b/net.onnx", "could leave its place"),
        ("pvc://models//etc/hostname", "names no file"),
    ],
)
def test_a_missing_path_in_a_claim_is_reported_with_its_contents(
    sources: Path, uri: str, sentence: str
) -> None:
    """A path that leads nowhere is refused with what is there instead."""
    with pytest.raises(ModelRefusedError, match=sentence):
        _fetch(uri, sources)


@pytest.mark.parametrize("target", ["/etc/hostname", "../../configmaps/samples/x.npz", "loop"])
def test_a_link_out_of_the_claim_is_refused(sources: Path, target: str) -> None:
    """A link to another volume or the machine, and one to itself, are refused."""
    (sources / "claims" / "models" / "loop").symlink_to(target)
    with pytest.raises(ModelRefusedError, match=r"leads out of its place|cannot be read"):
        _fetch("pvc://models/loop", sources)


def test_a_file_that_may_not_be_read_is_refused(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the user as which pods read the claim."""
    monkeypatch.setattr(os, "access", lambda *_: False)  # root, as whom tests may run, reads all
    with pytest.raises(ModelRefusedError, match="Permission denied: give user or group 10001"):
        _fetch("pvc://models/a%20b/net.onnx", sources)


def test_a_folder_that_leads_out_of_the_claim_is_refused(sources: Path) -> None:
    """The file may be there and be read: it is not the claim's."""
    onnx_models.save(onnx_models.identity(), sources / "other.onnx")
    (sources / "claims" / "models" / "up").symlink_to("../..")
    with pytest.raises(ModelRefusedError, match="leads out of its place"):
        _fetch("pvc://models/up/other.onnx", sources)


def test_traces_are_fetched_by_name(sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each trace becomes a file by its scenario's name, within what may be written in all."""
    (sources / "configmaps" / "samples" / "t.csv").write_text("0.5\n1\n")
    arguments = [
        *("--sources", str(sources), "--destination", str(sources)),
        "--trace=replay=configmap://samples/t.csv",
        "--trace=again=configmap://samples/t.csv",
    ]
    assert fetcher.main([*arguments, "--max-written-bytes", "12"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {
        "tracePaths": {name: str(sources / f"trace-{name}.csv") for name in ("replay", "again")}
    }
    assert (sources / "trace-again.csv").read_text() == "0.5\n1\n"
    assert fetcher.main([*arguments, "--max-written-bytes", "11"]) == 2
    assert "trace configmap://samples/t.csv" in capsys.readouterr().err


def test_data_are_fetched_by_file(sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Manifests and data sets become files of the given names, with their checksums."""
    content = "kind: ModelManifest\n"
    (sources / "configmaps" / "samples" / "m.yaml").write_text(content)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    arguments = [
        *("--sources", str(sources), "--destination", str(sources)),
        "--data=manifest.yaml=configmap://samples/m.yaml",
    ]
    assert fetcher.main([*arguments, f"--data-sha256=manifest.yaml={sha256}"]) == 0
    path = sources / "manifest.yaml"
    assert json.loads(capsys.readouterr().out) == {"dataPaths": {"manifest.yaml": str(path)}}
    assert path.read_text() == content
    assert fetcher.main([*arguments, f"--data-sha256=manifest.yaml={'a' * 64}"]) == 2
    assert "another file" in capsys.readouterr().err
    assert not path.exists()


def test_inputs_come_from_a_config_map(sources: Path) -> None:
    """The kubelet's own links within a ConfigMap are followed, and the file is copied."""
    found = _inputs("configmap://samples/x.npz", sources)
    assert not found.is_symlink()
    assert np.load(found)["x"].shape == (2, 3)


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("configmap://samples/y.npz", r"does not exist: its place has x\.npz; correct the path"),
        ("configmap://samples/..data/x.npz", "has no key of a ConfigMap|could leave"),
        ("pvc://models/a%20b/net.onnx", r"is not an \.npz file"),
        ("file:a.npz", "has an address that pods cannot reach"),
        ("http://host/a.npz", "has an address that pods cannot reach"),
    ],
)
def test_inputs_that_are_none_are_refused(sources: Path, uri: str, sentence: str) -> None:
    """A missing file, a file that is not .npz and a file on the user's machine are refused."""
    with pytest.raises(ModelRefusedError, match=sentence):
        _inputs(uri, sources)
    assert not (sources / "inputs.npz").exists()


def test_inputs_are_bounded(sources: Path) -> None:
    """A file over the limit is refused, and does not stay."""
    with pytest.raises(ModelRefusedError, match="larger than the 10 bytes"):
        _inputs("configmap://samples/x.npz", sources, max_bytes=10)
    assert not (sources / "inputs.npz").exists()


def test_metadata_of_every_zoo_model_match_its_graph() -> None:
    """What is said of a built-in model without opening it is what its file says."""
    for entry in zoo.entries():
        graph = onnx.load_model_from_string(zoo.read_onnx(entry.name)).graph
        (given,) = graph_inputs(graph) or ()
        shape = tuple(axis if isinstance(axis, int) else -1 for axis in entry.input_shape)
        expected = (given.name, given.datatype, given.shape)
        assert ("input", entry.input_datatype, shape) == expected, entry.name


def test_a_zoo_model_in_a_pod_is_whole(tmp_path: Path) -> None:
    """Graph and weights lie in the folder, with the reported sizes and checksums."""
    fetched = fetch_model(
        "zoo://espcn_x3", tmp_path, relative_to=tmp_path, file_name="deep/model.onnx"
    )
    assert fetched.path == tmp_path / "deep" / "model.onnx"
    graph = read_graph(fetched.path, max_bytes=1 << 30)
    assert fetched.inputs == graph_inputs(graph.model.graph)
    assert (fetched.sha256, fetched.size_bytes) == (graph.sha256, graph.size_bytes)
    assert fetched.external_sha256 == graph.external_sha256
    assert list(fetched.external_sha256) == ["espcn_x3.onnx.data"]


def test_a_zoo_model_is_held_to_checksum_and_limit(tmp_path: Path) -> None:
    """A built-in model that is not the one meant, or too large, is refused like any other."""
    with pytest.raises(ModelRefusedError, match="should have the sha256"):
        fetch_model("zoo://resnet50", tmp_path, relative_to=tmp_path, sha256="0" * 64)
    with pytest.raises(ModelRefusedError, match="at most 10 are allowed"):
        fetch_model("zoo://resnet50", tmp_path, relative_to=tmp_path, max_bytes=10)


def _main(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    code = fetcher.main(words)
    output = capsys.readouterr()
    return code, json.loads(output.out or "{}"), output.err


def test_a_pod_gets_both_files(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Model and inputs file lie in the folder under the names that the pod's commands have."""
    code, report, _ = _main(
        capsys,
        *("--uri", "zoo://espcn_x3", "--inputs-uri", "configmap://samples/x.npz"),
        *("--destination", str(tmp_path / "model"), "--file-name", "model.onnx"),
        *("--sources", str(sources)),
    )
    assert code == 0
    assert report["path"] == str(tmp_path / "model" / "model.onnx")
    assert report["inputsPath"] == str(tmp_path / "model" / "inputs.npz")
    assert report["name"] == "espcn_x3"
    content = (tmp_path / "model" / "model.onnx").read_bytes()
    assert report["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../../configmaps/samples/secret.bin", "linked.bin"]
)
def test_external_data_that_escapes_is_refused_and_not_quoted(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], location: str
) -> None:
    """By an absolute path, by "..", or by a link: code 2, and no byte of the other file."""
    claim = sources / "claims" / "models"
    secret = sources / "configmaps" / "samples" / "secret.bin"
    secret.write_bytes(b"the-password-of-another")
    onnx_models.write_with_external_data(claim, location)
    (claim / "linked.bin").symlink_to(secret)
    code, report, error = _main(
        capsys,
        *("--uri", "pvc://models/model.onnx", "--sources", str(sources)),
        *("--destination", str(tmp_path / "m")),
    )
    assert (code, report) == (2, {})
    assert "outside its own folder" in error
    assert "the-password" not in error
    assert "root:" not in error


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("inputs.npz", ("--inputs-uri", "configmap://samples/x.npz")),
        ("manifest.yaml", ("--data=manifest.yaml=configmap://samples/x.npz",)),
    ],
)
def test_external_data_keeps_its_name(
    sources: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: tuple[str, ...],
) -> None:
    """No other file of the pod takes the place of data that a model was checked with."""
    claim = sources / "claims" / "models"
    onnx_models.write_with_external_data(claim, name)
    (claim / "weights.bin").rename(claim / name)
    code, _, error = _main(
        capsys,
        *("--uri", "pvc://models/model.onnx", "--copy-model", "--sources", str(sources)),
        *("--destination", str(tmp_path / "m"), "--file-name", "model.onnx", *words),
    )
    assert code == 2
    assert f"has external data called {name}, which is what" in error


def test_a_pods_room_is_shared(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the model takes is not there for the inputs, but a model on a claim takes nothing."""
    inputs = ("--inputs-uri", "configmap://samples/x.npz", "--sources", str(sources))
    taken = zoo.entry("espcn_x3").size_bytes
    room = ("--destination", str(tmp_path / "m"), "--max-written-bytes", str(taken + 100))
    code, _, error = _main(capsys, "--uri", "zoo://espcn_x3", *inputs, *room)
    assert code == 2
    assert "inputs file configmap://samples/x.npz is larger than" in error
    code, report, _ = _main(capsys, "--uri", "pvc://models/a%20b/net.onnx", *inputs, *room)
    assert code == 0
    assert report["path"].endswith("/claims/models/a b/net.onnx")


def test_a_restarted_fetch_writes_its_files_again(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An init container that is started again writes its files again."""
    words = (
        *("--uri", "zoo://espcn_x3", "--inputs-uri", "configmap://samples/x.npz"),
        *("--destination", str(tmp_path / "m"), "--sources", str(sources)),
    )
    before = time.time_ns() // 1000
    (code, first, _), (again, second, _) = _main(capsys, *words), _main(capsys, *words)
    times = [each.pop("startedMicroseconds") for each in (first, second)]
    assert (code, first) == (again, second)
    assert before <= times[0] < times[1] <= time.time_ns() // 1000


def test_a_folder_that_cannot_be_written_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with 1, and a sentence that names folder and fault."""
    (tmp_path / "file").touch()
    code, _, error = _main(
        capsys, "--uri", "zoo://espcn_x3", "--destination", str(tmp_path / "file")
    )
    assert code == 1
    assert error.startswith("failed: zoo://espcn_x3 could not be written to")


def test_nothing_to_fetch_is_refused(tmp_path: Path) -> None:
    """A command line without an address is refused with exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        fetcher.main(["--destination", str(tmp_path)])


def test_a_model_is_copied_with_its_data_into_the_layout(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that reads a folder gets a claim's model, its external data and further files."""
    claim = sources / "claims" / "models"
    onnx_models.write_with_external_data(claim)
    folder = tmp_path / "model" / "repository" / "net"
    code, report, _ = _main(
        capsys,
        *("--uri", "pvc://models/model.onnx", "--sources", str(sources)),
        *("--destination", str(tmp_path / "model")),
        *("--file-name", "repository/net/1/model.onnx", "--copy-model"),
        *("--write=repository/net/config.pbtxt=a=b", "--write=empty="),
    )
    assert code == 0
    assert report["path"] == str(folder / "1" / "model.onnx")
    for name in ("model.onnx", "weights.bin"):
        assert (folder / "1" / name).read_bytes() == (claim / name).read_bytes()
    assert (folder / "config.pbtxt").read_text() == "a=b"
    assert (tmp_path / "model" / "empty").read_text() == ""
    copied = read_graph(folder / "1" / "model.onnx", max_bytes=1 << 20)
    assert (report["sha256"], report["sizeBytes"]) == (copied.sha256, copied.size_bytes)
    assert report["sourcePath"] == str(claim / "model.onnx")


def test_a_local_model_is_copied_if_the_server_needs_it(tmp_path: Path) -> None:
    """A file: model stays where it is unless the layout of its server requires a copy."""
    source = onnx_models.save(onnx_models.identity(), tmp_path / "net.onnx")
    stays = fetch_model("file:net.onnx", tmp_path / "m", relative_to=tmp_path, file_name="a/b")
    assert (stays.path, stays.source) == (source, None)
    copied = fetch_model(
        "file:net.onnx", tmp_path / "m", relative_to=tmp_path, file_name="a/b", is_copied=True
    )
    assert (copied.path, copied.name) == (tmp_path / "m" / "a" / "b", "net")
    assert copied.source == source
    assert copied.path.read_bytes() == source.read_bytes()


def test_a_model_that_changes_while_it_is_copied_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has the checksum of the model that was checked, or the fetch fails."""
    onnx_models.save(onnx_models.identity(), tmp_path / "net.onnx")
    monkeypatch.setattr("inferometer_fetch.model.file_chunks", lambda _: [b"other"])
    with pytest.raises(FetchFailedError, match=r"net\.onnx changed while it was copied"):
        fetch_model("file:net.onnx", tmp_path / "m", relative_to=tmp_path, is_copied=True)


def test_files_of_a_layout_take_room(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copied model and the further files leave less for the inputs file."""
    words = (
        *("--uri", "pvc://models/a%20b/net.onnx", "--sources", str(sources)),
        *("--inputs-uri", "configmap://samples/x.npz", "--destination", str(tmp_path / "m")),
    )
    model = (sources / "claims" / "models" / "a b" / "net.onnx").stat().st_size
    inputs = (sources / "configmaps" / "samples" / "x.npz").stat().st_size
    room = ("--max-written-bytes", str(inputs + model + 2))
    assert _main(capsys, *words, *room, "--copy-model", "--write=a=bc")[0] == 0
    assert _main(capsys, *words, *room, "--copy-model", "--write=a=bcd")[0] == 2


@pytest.mark.parametrize("option", ["--write={}=text", "--file-name={}"])
@pytest.mark.parametrize(
    "name", ["/etc/a", "../a", "b/../../a", "out/a", "out/deep/a", "loop/a", ""]
)
def test_files_of_a_layout_stay_below_the_destination(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An absolute path, a path with '..' and a path over a link that leads out are refused."""
    destination = tmp_path / "here" / "model"
    destination.mkdir(parents=True)
    (destination / "out").symlink_to("../..")
    (destination / "loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    code, _, error = _main(
        capsys,
        *("--uri", "zoo://espcn_x3", "--destination", str(destination), option.format(name)),
    )
    assert code == 2
    assert f"refused: The file {name!r} is not below {destination}: give a relative path" in error
    left = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert left <= {"espcn_x3.onnx", "espcn_x3.onnx.data"}


def test_a_link_within_the_destination_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link at the place of a file is replaced, and a link to a folder within is followed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a" / "c").symlink_to("/etc/hostname")
    words = ("--uri", "zoo://espcn_x3", "--destination", str(tmp_path))
    assert _main(capsys, *words, "--write=b/c=text")[0] == 0
    assert not (tmp_path / "a" / "c").is_symlink()
    assert (tmp_path / "a" / "c").read_text() == "text"


_MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: net
version: 1.0.0
license: MIT
framework: {name: onnxruntime, version: "<2"}
inputs: [{name: input}]
outputs: [{name: output}]
systemRequirements: {architectures: [ARCHITECTURE]}
"""


@pytest.mark.parametrize(
    ("version", "architecture", "code", "words"),
    [
        ("1.31.1", platform.machine(), 0, ""),
        ("", platform.machine(), 0, ""),
        ("2.0.1", platform.machine(), 3, "the nearest is onnxruntime 2.0.1"),
        ("1.31.1", "z80", 3, "it needs the architecture z80, and this is"),
    ],
)
def test_a_manifest_is_compared_with_engine_and_node_before_the_model_is_fetched(
    sources: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    architecture: str,
    code: int,
    words: str,
) -> None:
    """In a pod whose manifest the operator does not read: then its server never starts."""
    text = _MANIFEST.replace("ARCHITECTURE", architecture)
    (sources / "claims" / "models" / "model.yaml").write_text(text)
    arguments = (
        *("--uri", "pvc://models/a%20b/net.onnx", "--copy-model", "--file-name", "net.onnx"),
        *("--data", "manifest.yaml=pvc://models/model.yaml", "--check-manifest", "manifest.yaml"),
        *("--engine", "onnxruntime", "--engine-version", f"onnxruntime={version}"),
        *("--sources", str(sources), "--destination", str(sources / "model")),
    )
    assert fetcher.main(arguments) == code
    assert words in capsys.readouterr().err
    assert (sources / "model" / "net.onnx").exists() is (code == 0)
    assert (sources / "model" / "manifest.yaml").read_text() == text
