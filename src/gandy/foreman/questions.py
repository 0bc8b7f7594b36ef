"""Questions to workers, besides their tasks. Each has a number, which the answer repeats."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gandy.core.extensions import PIECE, PIECES, RETRACTED
from gandy.core.links import Link
from gandy.core.steps import Question
from gandy.foreman.messenger import Messenger
from gandy.talk.events import ExtensionReceived

ANSWERS: Final = frozenset({PIECE, PIECES, RETRACTED})  # types of messages that answer a question


class Questions:
    """Questions that wait for their answers."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._count = 0
        self._waiting: dict[tuple[Link, int], asyncio.Future[bytes | None]] = {}  # by link and number

    async def ask(self, questions: Sequence[Question], seconds: float) -> list[bytes | None]:
        """The payload of each answer; None if there is none in time, or the worker's link breaks."""
        return await asyncio.gather(*(self._ask(question, seconds) for question in questions))

    async def _ask(self, question: Question, seconds: float) -> bytes | None:
        self._count = (self._count + 1) & 0xFFFF_FFFF
        key = (question.link, self._count)
        if not self._messenger.send(question.link, question.kind, question.payload, self._count):
            return None
        self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._waiting[key]
        except TimeoutError:
            return None
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
                waiting.set_result(None)
