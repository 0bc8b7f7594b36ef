"""The command that every worker offers to clients of the round-robin queue."""

import random
from collections.abc import AsyncIterator
from typing import Final

from gandy.doors.roundrobin.streams import BLOCK_TOTAL, make_blocks
from gandy.doors.roundrobin.wire import parse_count
from gandy.worker.commands import Command, Way


async def rr_stream(_host_id: bytes | str, size: bytes | str | int) -> AsyncIterator[bytes]:
    """The stream of the original's workers: 1,024 bytes in blocks of any length. The host id is its reader's."""
    text = str(size).encode() if isinstance(size, int | str) else size
    if parse_count(text) != BLOCK_TOTAL:
        raise ValueError(f"rr_stream sends {BLOCK_TOTAL} bytes, not {text[:20].decode(errors='replace')}")
    for block in make_blocks(BLOCK_TOTAL, random.randint):
        yield block


BUILT_IN: Final = (Command("rr_stream", rr_stream, Way.LOOP_STREAM),)
