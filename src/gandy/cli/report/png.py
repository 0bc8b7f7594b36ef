"""Writes a PNG picture whose pixels are numbers of colours. Pure."""

import struct
import zlib
from collections.abc import Sequence
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_BITS: Final = 8  # of a pixel; the compression finds that there are few colours
_PALETTE: Final = 3  # the type of such pictures


def encode_png(pixels: bytes, width: int, palette: Sequence[tuple[int, int, int]]) -> bytes:
    """Rows of so many pixels, each the number of a colour. The last row is filled up with the last colour."""
    rows = -(-len(pixels) // width)
    padded = pixels.ljust(rows * width, bytes([len(palette) - 1]))
    lines = b"".join(b"\0" + padded[row * width : (row + 1) * width] for row in range(rows))
    head = struct.pack(">IIBBBBB", width, rows, _BITS, _PALETTE, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    transparency = b"\xff" * (len(palette) - 1) + b"\0"  # the last colour
    parts = (
        (b"IHDR", head),
        (b"PLTE", colours),
        (b"tRNS", transparency),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_encode_chunk(kind, data) for kind, data in parts)


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
