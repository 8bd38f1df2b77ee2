"""The document of a measured node, in the log of its pod."""

from contextlib import aclosing

from pydantic import ValidationError

from inferometer_api.nodes.characteristics import KIND, NodeCharacteristics
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import Json

MOST_BYTES = 900 * 1024
"""A ConfigMap takes 1 MiB."""


class NoDocumentError(Exception):
    """The log holds no document; the message is a sentence."""


async def read_document(reader: Reader, pod: Json) -> tuple[str, NodeCharacteristics]:
    """Return the document in a pod's log, as text too; raise NoDocumentError if there is none.

    The log holds lines about the progress and what libraries print; the document is one line.
    """
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    text = bytearray()
    async with aclosing(
        reader.stream_log(metadata["namespace"], metadata["name"], container)
    ) as log:
        async for piece in log:
            text += piece
            if len(text) > 4 * MOST_BYTES:
                raise NoDocumentError("The log of the pod is longer than a document can be.")
    return find_document(bytes(text))


def find_document(log: bytes) -> tuple[str, NodeCharacteristics]:
    """Return the document in a log; raise NoDocumentError if there is none."""
    for line in reversed(log.splitlines()):
        if KIND.encode() not in line or not line.startswith(b"{"):
            continue
        if len(line) > MOST_BYTES:
            raise NoDocumentError(f"The document has {len(line)} bytes; {MOST_BYTES} can be kept.")
        try:
            return line.decode(), NodeCharacteristics.read_json(line)
        except (ValidationError, UnicodeDecodeError):
            break
    raise NoDocumentError("The log of the pod holds no whole document.")
