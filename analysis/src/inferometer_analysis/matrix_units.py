"""Reduction and prefix scan as products of 16 x 16 tiles, as matrix units compute them.

The oracle of Dakkak et al., "Accelerating Reduction and Scan Using Tensor Core Units" (ICS 2019),
sections 4 and 5. P has ones in its first row, U ones on and above the diagonal, L ones strictly
below it; the paper prints the condition of U with rows and columns exchanged, its figures do not.
Operands are rounded to the input's type before each product; products accumulate in float32.
Partial sums that become operands again are split into three bfloat16 parts, cut off and not
rounded, which hold all bits of a float32 above 2^-117 and cannot overflow as float16 does; the
paper rounds them to float16.

A sum over values that are not finite is what an addition in order gives. A scan is not: each
product multiplies every value of a tile, some by 0, and 0 x inf is NaN, so that an infinite value
makes NaN of elements before it in its tile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TILE = 16
_AREA = TILE * TILE
_PARTS = 3
_UPPER_HALF = np.uint32(0xFFFF0000)
"""The half of a float32 that is a bfloat16."""
_QUIET = np.uint32(0x00400000)
"""The bit that a NaN keeps in its upper half."""

Floats = npt.NDArray[np.float32]

_P: Floats = np.zeros((TILE, TILE), np.float32)
_P[0] = 1
_U: Floats = np.triu(np.ones((TILE, TILE), np.float32))
_L: Floats = np.tril(np.ones((TILE, TILE), np.float32), -1)
_ONES: Floats = np.ones((TILE, TILE), np.float32)


@dataclass(frozen=True, slots=True)
class Operands:
    """The type in which a unit takes its operands: float16, bfloat16 or float32."""

    name: str = "float16"

    def rounded(self, values: npt.ArrayLike) -> Floats:
        """Return values as the unit sees them."""
        array = np.asarray(values, np.float32)
        match self.name:
            case "float16":
                return array.astype(np.float16).astype(np.float32)
            case "bfloat16":
                return _to_bfloat16(array)
            case "float32":
                return array
            case other:
                raise ValueError(f"There are no operands of type {other}.")

    def product(self, left: Floats, right: Floats, start: Floats | None = None) -> Floats:
        """Return left x right + start, with rounded operands, accumulated in float32."""
        with np.errstate(invalid="ignore"):  # 0 x inf, in elements that may not be needed
            found: Floats = np.matmul(self.rounded(left), self.rounded(right))
        return found if start is None else found + start


def reduce_16(values: npt.ArrayLike, operands: Operands) -> Floats:
    """Return the sums of segments of 16: V = P x A, one segment in each column of a tile."""
    tiles = _tiles(values)
    return operands.product(_P, tiles.transpose(0, 2, 1))[:, 0, :].reshape(-1)


def reduce_16n(values: npt.ArrayLike, length: int, operands: Operands) -> Floats:
    """Return the sums of segments of 16 N: V = P x A + V, strided over each segment's parts.

    Raises ValueError if `length` is no multiple of 16.
    """
    segments = _segments(values, length, TILE)
    sums = np.zeros(len(segments), np.float32)
    for start in range(0, len(segments), TILE):
        some = segments[start : start + TILE]
        kept = np.zeros((TILE, TILE), np.float32)
        for part in range(0, length, TILE):
            tile = np.zeros((TILE, TILE), np.float32)
            tile[:, : len(some)] = some[:, part : part + TILE].T
            kept = operands.product(_P, tile, kept)
        sums[start : start + TILE] = kept[0, : len(some)]
    return sums


def reduce_256(values: npt.ArrayLike, operands: Operands) -> Floats:
    """Return the sums of segments of 256: V = P x A, R = V x P^T."""
    columns = operands.product(_P, _tiles(values))
    return _total(columns)


def reduce_256n(values: npt.ArrayLike, length: int, operands: Operands) -> Floats:
    """Return the sums of segments of 256 N: V = P x A + V over the tiles, then one V x P^T.

    Raises ValueError if `length` is no multiple of 256.
    """
    segments = _segments(values, length, _AREA).reshape(-1, length // _AREA, TILE, TILE)
    kept = np.zeros((len(segments), TILE, TILE), np.float32)
    for part in range(segments.shape[1]):
        kept = operands.product(_P, segments[:, part], kept)
    return _total(kept)


def reduce_block(values: npt.ArrayLike, length: int, operands: Operands, warps: int = 8) -> Floats:
    """Return the sums of segments: `warps` partial sums of each, reduced by a tile of their own.

    Raises ValueError if a warp's part is no multiple of 256, or `warps` is not 1 to 256.
    """
    partial = reduce_256n(values, _part_of_warp(length, warps), operands).reshape(-1, warps)
    return _total(_of_sums(_tiles_of_sums(partial), _P, is_right=True))


def reduce_grid(values: npt.ArrayLike, operands: Operands, block: int = 1 << 14) -> np.float32:
    """Return the sum of all values by two kernels: a sum of each block, then of their sums.

    The values are padded with zeros.
    """
    sums = reduce_256n(_padded(values, block), block, operands)
    tiles = _padded(sums, _AREA).reshape(-1, TILE, TILE)
    kept = np.zeros((TILE, TILE), np.float32)
    for tile in tiles:
        kept = kept + _of_sums(tile, _P, is_right=True)
    return np.float32(_total(kept[None])[0])


def scan_16(values: npt.ArrayLike, operands: Operands) -> Floats:
    """Return the inclusive prefix sums of segments of 16: A x U, one segment in each row."""
    return operands.product(_tiles(values), _U).reshape(-1)


def scan_256(values: npt.ArrayLike, operands: Operands) -> Floats:
    """Return the inclusive prefix sums of segments of 256: (L x A) x 1 + A x U."""
    return _scan_tiles(_tiles(values), operands).reshape(-1)


def scan_16n(values: npt.ArrayLike, length: int, operands: Operands) -> Floats:
    """Return the inclusive prefix sums of segments of 16 N.

    The last column of each part is broadcast and added to the next: S + A x U. Raises ValueError if
    `length` is no multiple of 16.
    """
    segments = _segments(values, length, TILE)
    found = np.empty_like(segments)
    carried = np.zeros((len(segments), 1), np.float32)
    for part in range(0, length, TILE):
        rows = operands.product(segments[:, part : part + TILE], _U, carried)
        found[:, part : part + TILE] = rows
        carried = rows[:, -1:]
    return found.reshape(-1)


def scan_256n(values: npt.ArrayLike, length: int, operands: Operands) -> Floats:
    """Return the inclusive prefix sums of segments of 256 N.

    The last element of each tile is broadcast and added to the next. Raises ValueError if `length`
    is no multiple of 256.
    """
    tiles = _segments(values, length, _AREA).reshape(-1, length // _AREA, TILE, TILE)
    found = np.empty_like(tiles)
    carried = np.zeros((len(tiles), 1, 1), np.float32)
    for part in range(tiles.shape[1]):
        found[:, part] = _scan_tiles(tiles[:, part], operands) + carried
        carried = found[:, part, -1:, -1:]
    return found.reshape(-1)


def scan_block(values: npt.ArrayLike, length: int, operands: Operands, warps: int = 8) -> Floats:
    """Return the inclusive prefix sums of segments, each of which `warps` scan in parts.

    A tile of its own scans the sums of the parts, and each is added to the part after it. Raises
    ValueError if a warp's part is no multiple of 256, or `warps` is not 1 to 256.
    """
    part = _part_of_warp(length, warps)
    scanned = scan_256n(values, part, operands).reshape(-1, warps, part)
    before = _scan_tile_of_sums(_tiles_of_sums(scanned[:, :, -1])).reshape(-1, _AREA)
    scanned[:, 1:] += before[:, : warps - 1, None]
    return scanned.reshape(-1)


def _part_of_warp(length: int, warps: int) -> int:
    if not 0 < warps <= _AREA or length % warps:
        raise ValueError(f"{length} values cannot be shared by {warps} warps.")
    return length // warps


def _tiles_of_sums(sums: Floats) -> Floats:
    """Return the sums of each segment's parts as a tile, with zeros behind them."""
    padded = np.zeros((len(sums), _AREA), np.float32)
    padded[:, : sums.shape[1]] = sums
    return padded.reshape(-1, TILE, TILE)


def scan_grid(values: npt.ArrayLike, operands: Operands, block: int = 1 << 14) -> Floats:
    """Return the inclusive prefix sums of all values by three kernels: scan, then propagate.

    Each block is scanned, the blocks' sums are scanned, and each is added to the block after it.
    """
    count = np.size(values)
    scanned = scan_256n(_padded(values, block), block, operands).reshape(-1, block)
    sums = _scan_sums(scanned[:, -1])
    scanned[1:] += sums[:-1, None]
    return scanned.reshape(-1)[:count]


def _scan_sums(sums: Floats) -> Floats:
    """Return the inclusive prefix sums of partial sums, tile by tile."""
    tiles = _padded(sums, _AREA).reshape(-1, TILE, TILE)
    found = np.empty_like(tiles)
    carried = np.float32(0)
    for index, tile in enumerate(tiles):
        found[index] = _scan_tile_of_sums(tile) + carried
        carried = found[index, -1, -1]
    return found.reshape(-1)[: len(sums)]


def _scan_tile_of_sums(tile: Floats) -> Floats:
    before = _of_sums(_of_sums(tile, _L, is_right=True), _ONES)
    return before + _of_sums(tile, _U)


def _scan_tiles(tiles: Floats, operands: Operands) -> Floats:
    rows_before = operands.product(_L, tiles)
    carried = _of_sums(rows_before, _ONES)
    return operands.product(tiles, _U, carried)


def _total(columns: Floats) -> Floats:
    """Return R[0, 0] of R = V x P^T for each tile."""
    found: Floats = _of_sums(columns, _P.T)[..., 0, 0]
    return found


def _of_sums(sums: Floats, ones: Floats, *, is_right: bool = False) -> Floats:
    """Return sums x ones, or ones x sums, with the sums in three bfloat16 parts."""
    found = np.zeros(np.broadcast_shapes(sums.shape, ones.shape), np.float32)
    for part in _parts(sums):
        with np.errstate(invalid="ignore"):  # as in Operands.product
            found = found + (np.matmul(ones, part) if is_right else np.matmul(part, ones))
    return found


def _parts(sums: Floats) -> Iterator[Floats]:
    """Yield the bfloat16 parts of sums; all of what is not finite is in the first."""
    for _ in range(_PARTS):
        part = (sums.view(np.uint32) & _UPPER_HALF).view(np.float32)
        is_finite = np.isfinite(sums)
        yield part
        sums = np.where(is_finite, sums, 0) - np.where(is_finite, part, 0)


def _padded(values: npt.ArrayLike, multiple: int) -> Floats:
    """Return values with zeros up to a multiple."""
    flat = np.asarray(values, np.float32).reshape(-1)
    found = np.zeros(multiple * max(1, -(-len(flat) // multiple)), np.float32)
    found[: len(flat)] = flat
    return found


def _tiles(values: npt.ArrayLike) -> Floats:
    """Return values as tiles in row-major order. Raises ValueError unless they fill tiles."""
    array = np.asarray(values, np.float32).reshape(-1)
    if array.size % _AREA:
        raise ValueError(f"{array.size} values do not fill tiles of {_AREA}.")
    return array.reshape(-1, TILE, TILE)


def _segments(values: npt.ArrayLike, length: int, multiple: int) -> Floats:
    array = np.asarray(values, np.float32).reshape(-1)
    if length < multiple or length % multiple or array.size % length:
        raise ValueError(
            f"{array.size} values are no segments of {length}, a multiple of {multiple}."
        )
    return array.reshape(-1, length)


def _to_bfloat16(array: Floats) -> Floats:
    """Return values rounded to 8 bits of precision, to nearest, ties to even; NaN stays NaN."""
    bits = array.view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    # To round a NaN may carry into its sign, or leave an infinity.
    of_numbers = np.where(np.isnan(array), bits | _QUIET, rounded)
    return (of_numbers & _UPPER_HALF).view(np.float32)
