"""Fetches large arguments of function tasks from the foreman, in pieces, over as many links as it takes."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.core.extensions import Fetch, Piece
from gandy.errors import GandyError, LinkError

PIECE_BYTES: Final = 1 << 20  # in one request
PAUSE: Final = 0.1  # seconds before the next try while there is no link


class Fetcher:
    """One per worker. `send` takes a request and its number, and returns True if there is a link."""

    def __init__(self, send: Callable[[Fetch, int], bool]) -> None:
        self._send = send
        self._count = 0
        self._asked: dict[int, asyncio.Future[Piece]] = {}

    async def fetch(self, name: str) -> bytes:
        """Fetch what the foreman keeps under this name. Raises: GandyError: the foreman does not have it."""
        data = bytearray()
        while True:
            try:
                piece = await self._ask(Fetch(name, len(data), PIECE_BYTES))
            except LinkError:
                await asyncio.sleep(PAUSE)
                continue
            if piece.problem:
                raise GandyError(piece.problem)
            data += piece.data
            if piece.is_last:
                return bytes(data)

    def on_piece(self, seq: int, piece: Piece) -> None:
        waiting = self._asked.get(seq)
        if waiting is not None and not waiting.done():
            waiting.set_result(piece)

    def on_cut(self) -> None:
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(LinkError("the link to the foreman broke"))

    async def _ask(self, request: Fetch) -> Piece:
        self._count = (self._count + 1) & 0xFFFF_FFFF
        number = self._count
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            if not self._send(request, number):
                raise LinkError("there is no link to the foreman")
            return await self._asked[number]
        finally:
            del self._asked[number]
