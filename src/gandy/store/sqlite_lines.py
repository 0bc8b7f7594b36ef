"""Lines of tasks, packed: up to a thousand to a row, so that a million lines are a thousand rows. It knows no SQL."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

# Enough that a row costs little beside its lines, and few enough that reading one line unpacks little.
LINES_PER_CHUNK: Final = 1_000

# Lines are much alike: the quickest level finds nearly all there is to gain.
_LEVEL: Final = 1

_decoder = msgspec.msgpack.Decoder(list[str])


def pack_lines(lines: Sequence[str], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Chunks, each with the number of its first line."""
    for start in range(0, len(lines), LINES_PER_CHUNK):
        packed = zlib.compress(msgspec.msgpack.encode(lines[start : start + LINES_PER_CHUNK]), _LEVEL)
        yield first + start, packed


def unpack_lines(chunks: Iterable[tuple[int, bytes]], first: int, count: int) -> list[str]:
    """These lines, out of chunks that follow one another and hold at least these."""
    found = list(chunks)
    if not found or count <= 0:
        return []
    lines = chain.from_iterable(_decoder.decode(zlib.decompress(packed)) for _, packed in found)
    start = first - found[0][0]
    return list(lines)[start : start + count]
