"""The document of a measured node is read from any log within a bound."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import repeat
from typing import cast

import pytest

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.wiring.node_log import NoDocumentError, read_document
from support.node_documents import a_node_document


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


def _pieces(log: bytes, size: int) -> Iterator[bytes]:
    return (log[at : at + size] for at in range(0, len(log), size))


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
            _document_in(_pieces(line, 1 << 16) if whole else repeat(line, 100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 16 << 20
