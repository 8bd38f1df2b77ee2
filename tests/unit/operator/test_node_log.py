"""The document of a measured node is read from any log within a bound."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import repeat
from typing import Any, cast

import pytest

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure
from inferometer_api.nodes.document_size import within_bounds
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.wiring.nodes.log import NoDocumentError, read_document
from support.node_documents import a_node_document, recorded_gpu_node


class _PodLog:
    """The log of a pod, piece by piece."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def stream_log(self, *_: str) -> AsyncIterator[bytes]:
        """Yield the log."""
        for piece in self._pieces:
            yield piece


def _document_in(pieces: Iterable[bytes]) -> tuple[str, NodeCharacteristics]:
    pod = {
        "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"containers": [{"name": "nodebenchmark"}]},
    }
    return asyncio.run(read_document(cast("Reader", _PodLog(pieces)), pod))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_the_document_is_found_among_other_lines(size: int) -> None:
    """Progress, and what libraries print before and after it, in pieces of any size."""
    document = a_node_document()
    text = document.model_dump_json(exclude_none=True)
    log = f'{{"event": "progress"}}\nA warning.\n{text}\nA later warning.\n'.encode()
    for whole in (log, log.partition(b"\nA later")[0]):
        assert _document_in(_pieces(whole, size)) == (text, document)
    for cut in (log.replace(text[-20:].encode(), b""), b""):
        with pytest.raises(NoDocumentError, match="no whole document"):
            _document_in(_pieces(cut, size))


def test_a_document_of_a_newer_major_version_is_refused_with_the_reason() -> None:
    """Images of two versions may run in one cluster; a newer minor version is read."""
    text = a_node_document().model_dump_json(exclude_none=True)
    newer = text.replace('"schemaVersion":"1.0"', '"schemaVersion":"1.9"')
    assert _document_in([newer.encode()])[1].schema_version == "1.9"
    newer = text.replace('"schemaVersion":"1.0"', '"schemaVersion":"2.0"')
    with pytest.raises(NoDocumentError, match=r"has schema version 2\.0, and this program reads"):
        _document_in([newer.encode()])


def _pieces(log: bytes, size: int) -> Iterator[bytes]:
    return (log[at : at + size] for at in range(0, len(log), size))


def _with_gpus(count: int, numa_nodes: int) -> NodeCharacteristics:
    """Return what a machine with so many GPUs gives, with all digits, as if each were recorded."""
    recorded = recorded_gpu_node()
    figures = [each for each in recorded.figures if "gpu" not in each.setting]
    of_gpu = [each for each in recorded.figures if "gpu" in each.setting]
    of_pair = [each for each in of_gpu if each.name == "cudaMemcpyAsync_GPUToHost"]
    for gpu in range(count):
        for node in range(numa_nodes):
            figures += [_moved(each, gpu=gpu, node=node) for each in of_gpu]
        for peer in set(range(count)) - {gpu}:
            for way in range(9):
                named = [each.model_copy(update={"name": f"pair/{way}"}) for each in of_pair]
                figures += [_moved(each, gpu=gpu, peer=peer) for each in named]
    return recorded.model_copy(update={"figures": figures})


def _moved(figure: NodeFigure, **setting: int) -> NodeFigure:
    settings = {name: str(each) for name, each in setting.items()}
    return figure.model_copy(
        update={
            "setting": figure.setting | settings,
            "value": figure.value / 3,
            "samples": [each / 3 for each in figure.samples],
        }
    )


@pytest.mark.parametrize(("gpus", "lost"), [(1, 0), (8, 2), (16, 10)])
def test_a_node_keeps_its_figures_whatever_the_number_of_its_gpus(gpus: int, lost: int) -> None:
    """Figures of GPUs lose their samples, then names of them are left out; never the CPU's."""
    measured = _with_gpus(gpus, numa_nodes=2)
    reported = json.dumps({"event": "measured", "figures": _in_json(measured)["figures"]})
    text = json.dumps(_in_json(within_bounds(measured)), separators=(",", ":"))
    _, kept = _document_in(_pieces(f"{reported}\n{text}\n".encode(), 1 << 16))
    assert _of_cpu(kept) == _of_cpu(measured)
    missing = {each.name for each in measured.figures} - {each.name for each in kept.figures}
    assert len(missing) == lost
    assert missing == kept.unavailable.keys() - measured.unavailable.keys()
    if gpus == 1:
        assert kept == measured
    else:
        assert "no samples" in kept.cautions[-1]


def _in_json(document: NodeCharacteristics) -> dict[str, Any]:
    return document.model_dump(mode="json", by_alias=True, exclude_none=True)


def _of_cpu(document: NodeCharacteristics) -> list[NodeFigure]:
    return [each for each in document.figures if "gpu" not in each.setting]


_OPEN = b'{"kind":"NodeCharacteristics",'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"\n" * (1 << 16), "longer than"),
        (b"{}\n" * (1 << 14), "longer than"),
        (b"x" * (1 << 16), "longer than"),
        (_OPEN + b'"cautions":[' + b'"",' * 250_000 + b'""]}\n', "values"),
        (_OPEN + b'"unavailable":{' + b'"a":"",' * 100_000 + b'"a":""}}\n', "values"),
        (_OPEN + b'"figures":[' + b"{}," * 250_000 + b"{}]}\n", "values"),
        (_OPEN + b"[" * 800_000 + b"\n", "values"),
        (_OPEN + b'"id":"' + b"x" * (1 << 20) + b'"}\n', "larger than"),
    ],
    ids=["newlines", "lines", "one line", "list", "map", "objects", "nested", "text"],
)
def test_no_log_of_a_node_takes_more_than_16_mib(line: bytes, words: str) -> None:
    """A user who may create pods in a namespace can play the pod of a node, and write its log."""
    whole = words != "longer than"
    tracemalloc.start()
    try:
        with pytest.raises(NoDocumentError, match=words):
            _document_in(_pieces(line, 1 << 16) if whole else repeat(line, 200))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 16 << 20
