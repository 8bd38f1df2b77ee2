"""How are the Huffman-coded strings of HPACK read (RFC 7541, section 5.2 and appendix B)?"""

from functools import lru_cache

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
    """A string is no Huffman code of HPACK; the message says why."""


def _codes() -> dict[int, int]:
    """Symbols by their code, with a 1 bit put before it so that its length counts too."""
    codes = {}
    code, length = 0, 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        codes[code | 1 << length] = symbol
        code += 1
    return codes


_SYMBOLS = _codes()


# Header names and most values come again and again; those that do not are never asked for.
@lru_cache(maxsize=1024)
def decode(coded: bytes) -> bytes:
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
