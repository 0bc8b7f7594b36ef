"""Lines of tasks, packed: a thousand to a row, so that a million lines are a thousand rows. It knows no SQL."""

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


def pack_lines(lines: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Chunks, numbered from 0."""
    for chunk, start in enumerate(range(0, len(lines), LINES_PER_CHUNK)):
        yield chunk, zlib.compress(msgspec.msgpack.encode(lines[start : start + LINES_PER_CHUNK]), _LEVEL)


def chunks_with(first: int, count: int) -> tuple[int, int]:
    """The first and the last chunk that hold these lines. Tasks, and so lines, are numbered from 1."""
    return (first - 1) // LINES_PER_CHUNK, (first + count - 2) // LINES_PER_CHUNK


def unpack_lines(chunks: Iterable[bytes], first: int, count: int) -> list[str]:
    """These lines, out of the chunks that `chunks_with` names."""
    lines = chain.from_iterable(_decoder.decode(zlib.decompress(packed)) for packed in chunks)
    start = (first - 1) % LINES_PER_CHUNK
    return list(lines)[start : start + count]
