"""A built-in model is made once, whole, and found again by later runs."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_fetch import __main__ as fetcher
from inferometer_fetch.built_in import cached_model, zoo_cache
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.model import fetch_model
from inferometer_models import zoo
from inferometer_models.graph_file import read_graph
from inferometer_models.zoo import ZooEntry
from support.waiting import DEADLINE_SECONDS, wait_until


@pytest.fixture
def entry() -> ZooEntry:
    """Return the smallest model."""
    return zoo.entry("espcn_x3")


def _files(folder: Path) -> set[str]:
    return {each.name for each in folder.rglob("*") if each.is_file()} - {".lock"}


def _full_disk(_: str) -> Iterator[bytes]:
    yield bytes(1000)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_cache_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is below $XDG_CACHE_HOME; without it, or where that is no absolute path, in the home."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert zoo_cache() == Path("/caches/inferometer/zoo")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert zoo_cache() == Path("/home/someone/.cache/inferometer/zoo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert zoo_cache() == Path("/home/someone/.cache/inferometer/zoo")


def test_a_model_is_made_once(tmp_path: Path, entry: ZooEntry) -> None:
    """The first use writes files with the checksums of the index; the next writes nothing."""
    path = cached_model(entry, tmp_path)
    assert path.parent == tmp_path / "image_processing" / f"espcn_x3-{entry.sha256[:12]}"
    graph = read_graph(path, max_bytes=1 << 30)
    assert graph.sha256 == entry.sha256
    assert graph.external_sha256 == {"espcn_x3.onnx.data": entry.weights_sha256}
    assert graph.size_bytes == entry.size_bytes
    before = {each: each.stat() for each in path.parent.iterdir()}
    assert cached_model(entry, tmp_path) == path
    assert {each: each.stat() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["espcn_x3.onnx", "espcn_x3.onnx.data"])
@pytest.mark.parametrize("damage", ["changed", "absent"])
def test_a_damaged_model_is_made_again(
    tmp_path: Path, entry: ZooEntry, name: str, damage: str
) -> None:
    """A file of other bytes, or none, is replaced by the right one."""
    path = cached_model(entry, tmp_path)
    file = path.parent / name
    right = file.read_bytes()
    if damage == "absent":
        file.unlink()
    else:
        file.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    cached_model(entry, tmp_path)
    assert file.read_bytes() == right


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, entry: ZooEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names folder, size, cause and remedy, and no part of a file is left."""
    monkeypatch.setattr(zoo, "weight_chunks", _full_disk)
    with pytest.raises(FetchFailedError) as caught:
        cached_model(entry, tmp_path)
    assert str(caught.value) == (
        "Cannot write the model zoo://image_processing/espcn_x3 (1 MB) to "
        f"{tmp_path}/image_processing/espcn_x3-{entry.sha256[:12]}: No space left on device. "
        "Make room there, or set XDG_CACHE_HOME to another folder."
    )
    assert _files(tmp_path) == set()


def test_other_weights_are_never_handed_out(
    tmp_path: Path, entry: ZooEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that makes other numbers than those of the index gets an error and no file."""
    monkeypatch.setattr(zoo, "weight_chunks", lambda _: iter([b"other"]))
    with pytest.raises(FetchFailedError, match="should have the sha256"):
        cached_model(entry, tmp_path)
    with pytest.raises(FetchFailedError, match="should have the sha256"):
        fetch_model("zoo://espcn_x3", tmp_path / "pod", relative_to=tmp_path)
    assert _files(tmp_path) == set()


def test_many_first_uses_at_once_make_one_model(tmp_path: Path, entry: ZooEntry) -> None:
    """Processes that start together all get the whole model."""
    command = [sys.executable, "-m", "inferometer_fetch", "--uri", "zoo://espcn_x3"]
    words = ("--zoo-cache", "--destination", str(tmp_path / "run"))
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    started = [
        subprocess.Popen([*command, *words], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    printed = [process.communicate(timeout=DEADLINE_SECONDS)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    documents = [json.loads(each) for each in printed]
    assert len({each.pop("startedMicroseconds") for each in documents}) == 4
    assert all(each == documents[0] for each in documents)
    path = tmp_path / "caches/inferometer/zoo" / f"{entry.name}-{entry.sha256[:12]}/espcn_x3.onnx"
    assert documents[0]["path"] == str(path)
    assert documents[0]["sizeBytes"] == entry.size_bytes
    assert _files(tmp_path) == {"espcn_x3.onnx", "espcn_x3.onnx.data"}


def test_a_killed_first_use_is_made_good(tmp_path: Path, entry: ZooEntry) -> None:
    """What a killed process left half-written is removed, and its lock is free again."""
    code = (
        "import sys, time\n"
        "from inferometer_fetch.built_in import cached_model\n"
        "from inferometer_models import zoo\n"
        "from pathlib import Path\n"
        "def hang(name):\n"
        "    yield bytes(100_000)\n"
        "    time.sleep(600)\n"
        "zoo.weight_chunks = hang\n"
        "cached_model(zoo.entry('espcn_x3'), Path(sys.argv[1]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        wait_until(lambda: bool(list(tmp_path.rglob(".*.partial"))), "the half-written file")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
    cached_model(entry, tmp_path)
    assert _files(tmp_path) == {"espcn_x3.onnx", "espcn_x3.onnx.data"}


def test_a_layout_of_its_own_gets_a_copy(tmp_path: Path, entry: ZooEntry) -> None:
    """A server that reads a folder gets the cached model with its weights next to it."""
    cache, destination = tmp_path / "cache", tmp_path / "model"
    copied = fetch_model(
        "zoo://espcn_x3",
        destination,
        relative_to=tmp_path,
        file_name="repository/net/1/model.onnx",
        is_copied=True,
        cache=cache,
    )
    assert copied.path == destination / "repository" / "net" / "1" / "model.onnx"
    graph = read_graph(copied.path, max_bytes=1 << 30)
    assert (graph.sha256, graph.size_bytes) == (entry.sha256, entry.size_bytes)
    stays = fetch_model("zoo://espcn_x3", destination, relative_to=tmp_path, cache=cache)
    assert stays.path.is_relative_to(cache)


def test_a_pod_keeps_no_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --zoo-cache the model is written to the destination and nowhere else."""
    words = ("--uri", "zoo://espcn_x3", "--file-name", "model.onnx")
    assert fetcher.main([*words, "--destination", str(tmp_path / "model")]) == 0
    assert f'"path":"{tmp_path}/model/model.onnx"' in capsys.readouterr().out
    assert _files(tmp_path) == {"model.onnx", "espcn_x3.onnx.data"}
