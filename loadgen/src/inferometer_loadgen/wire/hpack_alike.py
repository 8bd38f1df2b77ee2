"""Does a header block mean what an earlier one means, though values and order may differ?

Proxies write an id, a date or a duration anew into each reply, and some servers write their headers
in another order each time. Headers whose names mean nothing here are passed over.
"""

from dataclasses import dataclass

from inferometer_loadgen.wire import hpack

_LONG = 0x7F
"""A length, or an index, that takes more than one byte."""


@dataclass(frozen=True, slots=True)
class AlikeBlocks:
    """All header blocks that hold these fields once, and else only fields of these names.

    Both are bytes as they stand in a block, so that other codings of the same are not known.
    """

    fields: frozenset[bytes]
    passed_over: frozenset[bytes]

    def hold(self, data: bytes, at: int, end: int) -> bool:
        """Return whether such a block stands here; ``data`` goes on behind its end."""
        missing = len(self.fields)
        while at < end:
            begin = at
            first = data[at]
            if first >= hpack.INDEXED:
                at += 1
            else:
                if first in hpack.NEW_NAME:
                    length = data[at + 1] & _LONG
                    if length == _LONG:
                        return False
                    at += 2 + length
                else:
                    most = 0x3F if first >= hpack.WITH_INDEXING else 0x0F
                    at += 2 if first & most == most else 1
                if at >= end:
                    return False
                length = data[at] & _LONG
                if length == _LONG:
                    return False
                if data[begin:at] in self.passed_over:
                    at += 1 + length
                    continue
                at += 1 + length
            if data[begin:at] not in self.fields:
                return False
            missing -= 1
        return at == end and not missing


def alike(block: bytes, wanted: frozenset[bytes]) -> AlikeBlocks:
    """Return all blocks that mean the same where only ``wanted`` names mean anything.

    Raises HpackError. Where a block's coding is beyond what is known so, it is not one of its own.
    """
    fields, passed_over = set(), set()
    for part in hpack.parts(block, wanted):
        if part.is_passed_over:
            passed_over.add(block[part.start : part.value_start])
        else:
            fields.add(block[part.start : part.end])
    return AlikeBlocks(frozenset(fields), frozenset(passed_over))
