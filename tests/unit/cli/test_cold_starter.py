"""The state that a local cold start sets, and what it measures of it."""

import asyncio
import mmap
import shutil
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer_api.plan.load_plan import StartEvidence
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.local import cold_start
from inferometer_cli.local.cold_start import ColdStarter
from inferometer_cli.local.server import LaunchedModel, TargetServer
from support import onnx_models


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Hold the pages of a file in memory, as a process that maps it does."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        assert len(mapping[:]) == path.stat().st_size
        yield


@pytest.fixture
def copied(tmp_path: Path) -> LaunchedModel:
    """Return a model with external data that the fetcher copied into its own folder."""
    (tmp_path / "source").mkdir()
    onnx_models.write_with_external_data(tmp_path / "source")
    shutil.copytree(tmp_path / "source", tmp_path / "fetched")
    return LaunchedModel(
        folder=str(tmp_path / "fetched"),
        path=str(tmp_path / "fetched" / "model.onnx"),
        sha256="",
        shapes=None,
        source_path=str(tmp_path / "source" / "model.onnx"),
    )


def _start(state: str, model: LaunchedModel, monkeypatch: pytest.MonkeyPatch) -> StartEvidence:
    """Start once; neither fetcher nor server is a process."""

    async def fetch(_: AsyncExitStack) -> LaunchedModel:
        return model

    async def start_server(*_: object) -> TargetServer:
        return TargetServer(url="grpc://127.0.0.1:1")

    monkeypatch.setattr(cold_start, "start_server", start_server)
    run = BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "start"},
            "spec": {
                "model": {"uri": "file:model.onnx"},
                "scenarios": [{"name": "start", "coldStart": {"state": state}}],
            },
        }
    )

    async def start() -> TargetServer:
        async with AsyncExitStack() as stack:
            return await ColdStarter(run, model, fetch).start(stack)

    evidence = asyncio.run(start()).start
    assert evidence is not None
    return evidence


@pytest.mark.parametrize("name", ["model.onnx", "weights.bin"])
def test_the_source_of_a_copy_counts_if_the_start_copies_it(
    copied: LaunchedModel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that another process keeps in memory, or its external data, is not cold."""
    source = Path(copied.source_path or "").parent
    with _mapped(source / name):
        found = _start("ImagePresent", copied, monkeypatch)
    sizes = {each: (source / each).stat().st_size for each in ("model.onnx", "weights.bin")}
    assert (found.model_bytes, found.resident_bytes) == (sum(sizes.values()), sizes[name])
    assert not Path(copied.path).exists()


def test_the_source_of_a_copy_leaves_the_page_cache(
    copied: LaunchedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that was only read before is cold at the start."""
    Path(copied.source_path or "").read_bytes()
    found = _start("ImagePresent", copied, monkeypatch)
    assert found.model_bytes
    assert found.resident_bytes == 0


def test_the_fetch_begins_once_its_process_has_started(
    copied: LaunchedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate of a copy has no time of the interpreter that copies."""
    late = time.time_ns() // 1000 + 1_000_000
    model = replace(copied, fetch_started_microseconds=late)
    found = _start("ImagePresent", model, monkeypatch)
    begin, fetch = found.phases
    assert (begin.name, fetch.name) == ("fetcherStarted", "modelFetched")
    assert begin.start_microseconds == found.created_microseconds
    assert (begin.end_microseconds, fetch.start_microseconds) == (late, late)
    assert (begin.bytes, fetch.bytes is None) == (None, False)


def test_the_source_does_not_count_if_the_start_reads_the_copy(
    copied: LaunchedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ModelCached the start opens the copy alone, so only the copy has to be cold."""
    source = Path(copied.source_path or "")
    with _mapped(source):
        assert _start("ModelCached", copied, monkeypatch).resident_bytes == 0
    with _mapped(Path(copied.path)):
        found = _start("ModelCached", copied, monkeypatch)
    assert found.resident_bytes == source.stat().st_size


@pytest.mark.parametrize("state", ["ImagePresent", "ModelCached"])
@pytest.mark.parametrize("name", ["model.onnx", "weights.bin"])
def test_further_models_of_the_server_count(
    copied: LaunchedModel, state: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start reads them too: their pages leave memory, and what stays is counted."""
    source = Path(copied.source_path or "").parent
    sizes = {each: (source / each).stat().st_size for each in ("model.onnx", "weights.bin")}
    other = str(source / "model.onnx")
    mixed = replace(copied, source_path=None, others={"one": other, "same": other})
    (source / name).read_bytes()
    first = _start("ModelCached", mixed, monkeypatch)
    assert (first.model_bytes, first.resident_bytes) == (2 * sum(sizes.values()), 0)
    with _mapped(source / name):
        found = _start(state, mixed, monkeypatch)
    copies = 0 if state == "ImagePresent" else sum(sizes.values())
    assert (found.model_bytes, found.resident_bytes) == (
        copies + sum(sizes.values()),
        sizes[name],
    )
