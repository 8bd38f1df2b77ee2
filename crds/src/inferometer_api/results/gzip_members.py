"""Compression of result documents, in one or more gzip members."""

import zlib
from collections.abc import Iterator

DOCUMENT_BYTES = 8 * 1024 * 1024
"""Largest document that is transferred: parsed, it takes 17 times its size in memory."""
_READ_BYTES = DOCUMENT_BYTES + 64 * 1024
"""The operator adds how the run ended, and image digests."""
_STEP_BYTES = 64 * 1024
"""How much is decompressed at once: a few bytes may stand for megabytes."""
_GZIP = 31  # zlib's window bits for its largest window with gzip's head and checksum


class IncompleteError(ValueError):
    """Not a whole result document; the message is a sentence."""


def compress(document: bytes) -> bytes:
    """Return a document in gzip's format; the same document gives the same bytes."""
    gzip = zlib.compressobj(level=9, wbits=_GZIP)
    return gzip.compress(document) + gzip.flush()


def decompress(gz: bytes | bytearray) -> bytearray:
    """Return what `compress` was given, for all members; raises IncompleteError."""
    document = bytearray()
    for part in decompressed(gz):
        document += part
    return document


def decompressed(gz: bytes | bytearray) -> Iterator[bytes]:
    """Yield a document in small parts; raises IncompleteError."""
    members, size = GzipMembers(), 0
    for at in range(0, len(gz), _STEP_BYTES):
        for _, _, part in members.feed(bytes(gz[at : at + _STEP_BYTES])):
            size += len(part)
            if size > _READ_BYTES:
                raise IncompleteError(f"The result document is larger than {_READ_BYTES} bytes.")
            yield part
    if not members.has_ended:
        raise IncompleteError(f"The result document of {len(gz)} compressed bytes is cut.")


class GzipMembers:
    """Decompresses gzip members, one behind another, that arrive in pieces of any size."""

    def __init__(self) -> None:
        self.index = 0
        """Of the member that was fed last."""
        self._gzip = zlib.decompressobj(wbits=_GZIP)

    @property
    def has_ended(self) -> bool:
        """Whether the last member is whole."""
        return self._gzip.eof

    def feed(self, gz: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the member, compressed bytes and what they stand for, at most 64 KiB each.

        Raises IncompleteError.
        """
        has_more = bool(gz)
        while has_more:
            if self._gzip.eof:
                self.index, self._gzip = self.index + 1, zlib.decompressobj(wbits=_GZIP)
            try:
                part = self._gzip.decompress(gz, _STEP_BYTES)
            except zlib.error as error:
                raise IncompleteError(
                    f"The result document cannot be decompressed: {error}."
                ) from error
            rest = self._gzip.unused_data or self._gzip.unconsumed_tail
            yield self.index, gz[: len(gz) - len(rest)], part
            gz = rest
            has_more = bool(gz) or (len(part) == _STEP_BYTES and not self._gzip.eof)
