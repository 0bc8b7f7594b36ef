"""The worker's end of the channel to one slot process: assignments out, answers in. Never blocks, knows no tasks."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from gandy.worker.frames import Answer, AnswerReader, FrameError

FIRST_BYTES: Final = 1 << 13  # in one read of short answers: allocating more would cost more than the read
PIECE_BYTES: Final = 1 << 18  # in one read of a long answer; the kernel buffers about as much


class SlotChannel:
    """Calls `on_answer` for each answer, `on_read` after each read by the loop, and `on_broken` once at the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        link: socket.socket,
        on_answer: Callable[[Answer], None],
        on_read: Callable[[], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._socket = link
        self._on_answer = on_answer
        self._on_read = on_read
        self._on_broken = on_broken
        self._reader = AnswerReader()
        self._unsent: list[memoryview] = []
        self._is_open = True
        link.setblocking(False)
        self.listen()

    def listen(self) -> None:
        """Read answers as soon as they arrive."""
        if self._is_open:
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def stop_listening(self) -> None:
        """Read nothing until `listen` or `drain`. Meanwhile, an answer does not wake the loop."""
        if self._is_open:
            self._loop.remove_reader(self._socket.fileno())

    def send(self, *parts: bytes) -> None:
        """Send one message, now or piece by piece. Raises: OSError, if the process has died."""
        self._unsent = [memoryview(part) for part in parts if part]
        if self._write():
            self._loop.add_writer(self._socket.fileno(), self._write_more)

    def drain(self) -> bool:
        """Read everything that has arrived. False: nothing has."""
        self._deliver()
        has_read = False
        while self._is_open and (size := self._read()):
            has_read = True
            if size < FIRST_BYTES:
                break
        return has_read

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._stop_writing()
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _write(self) -> bool:
        """Write what the kernel takes. True if something is left."""
        try:
            sent = self._socket.sendmsg(self._unsent)
        except BlockingIOError:
            return True
        while self._unsent and sent >= len(self._unsent[0]):
            sent -= len(self._unsent.pop(0))
        if self._unsent:
            self._unsent[0] = self._unsent[0][sent:]
        return bool(self._unsent)

    def _write_more(self) -> None:
        try:
            is_left = self._write()
        except OSError:  # the process died, and its exit will be noticed
            is_left = False
        if not is_left:
            self._stop_writing()

    def _stop_writing(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._unsent.clear()

    def _on_readable(self) -> None:
        self._read()
        self._on_read()

    def _read(self) -> int:
        """Read once. Returns the number of bytes."""
        try:
            data = self._socket.recv(PIECE_BYTES if self._reader.is_within else FIRST_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.close()
            self._on_broken("closed its link to the worker")
            return 0
        try:
            self._reader.receive_data(data)
        except FrameError as error:
            self._deliver()
            self.close()
            self._on_broken(str(error))
            return 0
        self._deliver()
        return len(data)

    def _deliver(self) -> None:
        # `on_answer` may call `drain`, and so this method: each answer is removed before it is delivered.
        while self._reader.answers:
            self._on_answer(self._reader.answers.popleft())
