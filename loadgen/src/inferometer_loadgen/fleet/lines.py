"""How does a measuring process read orders and tell words without ever waiting for its reader?"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from inferometer_loadgen.fleet.messages import ORDERS, WORDS, Order, Word

LONGEST_BYTES = 64 * 2**20
"""The longest line: a plan with its inputs' shapes, or all counters of a step."""


class Lines:
    """Reads orders from standard input, and writes words to where standard output led."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls) -> "Lines":
        """Take standard input and output; what libraries print goes to standard error from now."""
        loop = asyncio.get_running_loop()
        told = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reader = asyncio.StreamReader(limit=LONGEST_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb"))
        writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(told, "wb"))
        return cls(reader, writer)

    def tell(self, word: Word) -> None:
        """Write a word; it is kept until the reader takes it."""
        self._writer.write(WORDS.dump_json(word) + b"\n")

    async def orders(self) -> AsyncIterator[Order]:
        """Yield each order until nobody gives any more."""
        while line := await self._reader.readline():
            yield ORDERS.validate_json(line)
