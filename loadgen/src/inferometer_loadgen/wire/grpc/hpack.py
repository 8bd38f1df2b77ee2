"""HPACK header compression without shared state, and its Huffman code (RFC 7541).

The client allows the server no dynamic table (SETTINGS_HEADER_TABLE_SIZE 0), so the decoder needs
none. A block's meaning is then a function of its bytes alone, which makes decoded blocks cacheable.
The encoder does use the server's table: a connection sends the same headers again and again, so all
requests after the first refer to the table if it holds them.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from inferometer_loadgen.wire.grpc.frames import DEFAULT_HEADER_TABLE_BYTES

# The code is canonical: the lengths of all symbols (0 to 255, then EOS) determine it.
# fmt: off
_LENGTHS = (
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
)
# fmt: on
_EOS = 256


class HuffmanError(ValueError):
    """A string is not valid Huffman code of HPACK; the message says why."""


def _codes() -> dict[int, int]:
    """Return symbols by code, each code prefixed with a 1 bit so that its length counts too."""
    codes = {}
    code, length = 0, 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        codes[code | 1 << length] = symbol
        code += 1
    return codes


_SYMBOLS = _codes()


# Names, and the values that matter, repeat in each block; a proxy's new values are passed over.
@lru_cache(maxsize=1024)
def decode_huffman(coded: bytes) -> bytes:
    """Decode one string; raises HuffmanError on EOS and on padding that is not all ones."""
    text = bytearray()
    code = 1
    for byte in coded:
        for shift in range(7, -1, -1):
            code = code << 1 | (byte >> shift & 1)
            symbol = _SYMBOLS.get(code)
            if symbol is None:
                continue
            if symbol == _EOS:
                raise HuffmanError("A Huffman-coded header holds the end-of-string symbol.")
            text.append(symbol)
            code = 1
    padding_bits = code.bit_length() - 1
    if padding_bits > 7 or code != (1 << padding_bits + 1) - 1:
        raise HuffmanError("A Huffman-coded header ends in the middle of a symbol.")
    return bytes(text)


Field = tuple[bytes, bytes]

# fmt: off
STATIC_TABLE: tuple[Field, ...] = (
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"),
    (b":path", b"/index.html"), (b":scheme", b"http"), (b":scheme", b"https"),
    (b":status", b"200"), (b":status", b"204"), (b":status", b"206"), (b":status", b"304"),
    (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""),
    (b"accept", b""), (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""),
    (b"authorization", b""), (b"cache-control", b""), (b"content-disposition", b""),
    (b"content-encoding", b""), (b"content-language", b""), (b"content-length", b""),
    (b"content-location", b""), (b"content-range", b""), (b"content-type", b""), (b"cookie", b""),
    (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""),
    (b"if-range", b""), (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""),
    (b"location", b""), (b"max-forwards", b""), (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""), (b"range", b""), (b"referer", b""), (b"refresh", b""),
    (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""),
    (b"vary", b""), (b"via", b""), (b"www-authenticate", b""),
)
# fmt: on
SIZE_UPDATE_TO_ZERO = b"\x20"

INDEXED = 0x80
WITH_INDEXING = 0x40
_SIZE_UPDATE = 0x20
_HUFFMAN = 0x80
NEW_NAME = frozenset((WITH_INDEXING, 0x00, 0x10))
"""First byte of a literal whose name is not in the table."""
_LARGEST_INTEGER = (1 << 31) - 1
_ENTRY_BYTES = 32
"""Size of a table entry in addition to its name and value (RFC 7541, section 4.1)."""
_BY_FIELD = {field: index for index, field in enumerate(STATIC_TABLE, 1)}
_BY_NAME = {name: index for index, (name, _) in reversed(list(enumerate(STATIC_TABLE, 1)))}


class HpackError(ValueError):
    """A header block cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class RequestBlocks:
    """The same request headers in three encodings.

    ``first`` enters them into the server's table and ``later`` refers to the table. ``plain`` does
    neither, for servers whose table is too small. All three are ``plain`` if the headers exceed a
    table of the default size: the oldest entries would be evicted by the newest.
    """

    first: bytes
    later: bytes
    plain: bytes


def encode_request(fields: list[Field]) -> RequestBlocks:
    """Encode the headers that all requests of a connection share."""
    first, later, plain = bytearray(), bytearray(), bytearray()
    entered = [field for field in fields if field not in _BY_FIELD]
    for field in fields:
        if (index := _BY_FIELD.get(field)) is not None:
            reference = encode_integer(index, 7, INDEXED)
            first += reference
            later += reference
            plain += reference
            continue
        first += _literal(field, 6, WITH_INDEXING)
        plain += _literal(field, 4, 0)
        # The newest entry of the dynamic table has the lowest index.
        age = len(entered) - 1 - entered.index(field)
        later += encode_integer(len(STATIC_TABLE) + 1 + age, 7, INDEXED)
    entered_bytes = sum(len(name) + len(value) + _ENTRY_BYTES for name, value in entered)
    if entered_bytes > DEFAULT_HEADER_TABLE_BYTES:
        first = later = plain
    return RequestBlocks(bytes(first), bytes(later), bytes(plain))


def encode_once(field: Field) -> bytes:
    """Encode a header of a single request, which enters no table."""
    return _literal(field, 4, 0)


def _literal(field: Field, prefix_bits: int, pattern: int) -> bytes:
    name, value = field
    index = _BY_NAME.get(name, 0)
    start = encode_integer(index, prefix_bits, pattern)
    return start + (b"" if index else _string(name)) + _string(value)


def _string(text: bytes) -> bytes:
    return encode_integer(len(text), 7, 0) + text


def encode_integer(value: int, prefix_bits: int, pattern: int) -> bytes:
    """Encode an integer after the bits of a pattern (RFC 7541, section 5.1)."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes((pattern | value,))
    coded = bytearray((pattern | limit,))
    value -= limit
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    coded.append(value)
    return bytes(coded)


def decode(block: bytes, wanted: frozenset[bytes] | None = None) -> list[Field]:
    """Return the fields of a header block in their order; raises HpackError.

    With ``wanted``, literals with other names are skipped and their values not decoded: headers
    that a proxy changes in each reply then cost little.
    """
    return [part.field for part in parts(block, wanted) if part.field is not None]


class HeaderPart(NamedTuple):
    """A field and its position in its block."""

    field: Field | None
    """None: its value was skipped."""
    start: int
    value_start: int
    """Position of the value's length; the end of a field that has none of its own."""
    end: int

    @property
    def is_skipped(self) -> bool:
        """Whether its value was skipped."""
        return self.field is None


def parts(block: bytes, wanted: frozenset[bytes] | None = None) -> list[HeaderPart]:
    """Return the fields of a header block, as `decode` does, with their positions."""
    try:
        return _parts(block, wanted)
    except IndexError:
        raise HpackError("A header block ends in the middle of a header.") from None
    except HuffmanError as error:
        raise HpackError(str(error)) from None


def _parts(block: bytes, wanted: frozenset[bytes] | None) -> list[HeaderPart]:
    found: list[HeaderPart] = []
    position, end = 0, len(block)
    while position < end:
        start = position
        first = block[position]
        if first >= INDEXED:
            index, position = decode_integer(block, position, 7)
            found.append(HeaderPart(_static(index), start, position, position))
            continue
        if _SIZE_UPDATE <= first < WITH_INDEXING:
            size, position = decode_integer(block, position, 5)
            if size or found:
                raise HpackError(
                    f"A header block sets the table to {size} bytes; the client allows 0."
                )
            continue
        if first in NEW_NAME:
            index, position = 0, position + 1
        else:
            index, position = decode_integer(block, position, 6 if first >= WITH_INDEXING else 4)
        if index:
            name = _static(index)[0]
        else:
            name, position = _read_string(block, position)
        value_start = position
        field = None
        if wanted is None or name in wanted:
            value, position = _read_string(block, position)
            field = (name, value)
        else:
            position = _string_bounds(block, position)[1]
        found.append(HeaderPart(field, start, value_start, position))
    return found


def _static(index: int) -> Field:
    if not 0 < index <= len(STATIC_TABLE):
        raise HpackError(f"A header block refers to entry {index}; the table has entries 1 to 61.")
    return STATIC_TABLE[index - 1]


def _string_bounds(block: bytes, position: int) -> tuple[int, int]:
    length, start = block[position] & 0x7F, position + 1
    if length == 0x7F:
        length, start = decode_integer(block, position, 7)
    if start + length > len(block):
        raise HpackError("A header block ends in the middle of a string.")
    return start, start + length


def _read_string(block: bytes, position: int) -> tuple[bytes, int]:
    start, end = _string_bounds(block, position)
    text = block[start:end]
    return decode_huffman(text) if block[position] & _HUFFMAN else text, end


def decode_integer(block: bytes, position: int, prefix_bits: int) -> tuple[int, int]:
    """Return an integer and the position behind it; raises IndexError if the block ends first."""
    limit = (1 << prefix_bits) - 1
    value = block[position] & limit
    position += 1
    if value < limit:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if value > _LARGEST_INTEGER or shift > 28:
            raise HpackError("A header block holds an integer of more than 31 bits.")
        if byte < 0x80:
            return value, position
        shift += 7
