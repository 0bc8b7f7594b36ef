"""Questions to workers, beside their tasks. Each has a number, and the worker that was asked repeats it."""

import asyncio

from gandy.core.extensions import PIECE, PIECES, RETRACTED
from gandy.core.links import Link
from gandy.foreman.server import Server
from gandy.talk.events import ExtensionReceived

ANSWERS = frozenset({PIECE, PIECES, RETRACTED})  # types of messages that answer an errand


class Errands:
    """Those of one foreman that are under way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._count = 0
        self._waiting: dict[tuple[Link, int], asyncio.Future[bytes]] = {}  # by link and number

    async def ask(self, link: Link, kind: int, payload: bytes, seconds: float) -> bytes:
        """The payload of the answer. Raises: TimeoutError, when there is none in time or the worker's link breaks."""
        self._count = (self._count + 1) & 0xFFFF_FFFF
        key = (link, self._count)
        if not self._server.send(link, kind, payload, self._count):
            raise TimeoutError(f"the link {link.name} is cut")
        self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._waiting[key]
        finally:
            del self._waiting[key]

    def on_answer(self, link: Link, message: ExtensionReceived) -> None:
        waiting = self._waiting.get((link, message.seq))  # of the worker that was asked, and no other
        if waiting is not None and not waiting.done():
            waiting.set_result(message.payload)

    def on_gone(self, link: Link) -> None:
        """A worker's link is cut: it will not answer."""
        for key, waiting in self._waiting.items():
            if key[0] is link and not waiting.done():
                waiting.set_exception(TimeoutError(f"the link {link.name} is cut"))
