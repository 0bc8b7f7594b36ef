"""Packs lines of tasks, a thousand to a row, so that a million lines are a thousand rows. It knows no SQL."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from gandy.core.model import Input

# Enough that a row costs little beside its lines, and few enough that reading one line unpacks little.
LINES_PER_CHUNK: Final = 1_000

# Lines are much alike: the fastest level compresses them nearly as well as the best.
_LEVEL: Final = 1

# The first byte of compressed data. No list in msgpack begins with it.
ZLIB_MARK: Final = 0x78

_decode_lines = msgspec.msgpack.Decoder(list[str]).decode
_decode_pickled = msgspec.msgpack.Decoder(list[bytes]).decode


def pack_lines(lines: Sequence[Input], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Chunks, each with the number of its first line."""
    for start in range(0, len(lines), LINES_PER_CHUNK):
        packed = msgspec.msgpack.encode(lines[start : start + LINES_PER_CHUNK])
        # Compressing pickled arguments does not pay: most are read back once, within milliseconds.
        yield first + start, zlib.compress(packed, _LEVEL) if isinstance(lines[start], str) else packed


def _unpack(packed: bytes) -> Sequence[Input]:
    return _decode_lines(zlib.decompress(packed)) if packed[0] == ZLIB_MARK else _decode_pickled(packed)


def unpack_lines(chunks: Iterable[tuple[int, bytes]], first: int, count: int) -> list[Input]:
    """`count` lines from number `first` on, out of consecutive chunks that contain them."""
    found = list(chunks)
    if not found or count <= 0:
        return []
    lines = chain.from_iterable(_unpack(packed) for _, packed in found)
    start = first - found[0][0]
    return list(lines)[start : start + count]
