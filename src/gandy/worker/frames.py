"""What a worker and its slot processes say to each other, through one socket for each. Reads and writes nothing.

A slot process says READY, or why it cannot be. Then it gets an assignment, answers, and gets the next; the end of the
link is the end of the process. Short assignments go into its box, a socket of packets that both can read: there the
next ones may wait while it is busy, so that it goes on without waiting for the worker, who can also have them back.
A process starts for every crash and every fresh task, so this module imports next to nothing.
"""

import marshal
import struct
from collections import deque
from typing import Final, NamedTuple

DESCRIPTOR: Final = 3  # of the link, in the slot process
BOX: Final = 4  # the descriptor of its box, which never blocks
MAX_BOX_BYTES: Final = 1 << 13  # of an assignment that goes there
KEPT_JOBS: Final = 4  # whose shared function a slot process keeps, and the worker knows that it does

# Bytes of a call, of what a job shares, or of a result. They are in memory here: more belongs into a file.
MAX_BODY_BYTES: Final = 2 << 30
MAX_NOTE_BYTES: Final = 1 << 16

READY: Final = 0
VALUE: Final = 1  # the body is what the function returned
RAISED: Final = 2  # the body is the exception, the note its description
REFUSED: Final = 3  # it could not even begin; the note says why

PRINTED: Final = 1  # there is output, and the files are the worker's now; the process goes on with the next two
HAS_CHILDREN: Final = 2  # the function left processes behind: they end with its task, so this one must end too
MEASURES: Final = 4  # with READY: knows the peak memory of each task

ASSIGNMENT: Final = struct.Struct("<QIQQ")  # its number, then bytes of: the head, what the job shares, the call
ANSWER: Final = struct.Struct("<BBIQQ")  # kind, flags, bytes of the note, bytes of the body, peak memory or 0


class Head(NamedTuple):
    """An assignment, without the pickles that follow it. Goes from the worker to its child and no other way."""

    job: int
    has_shared: bool  # the call is a chunk, and needs what its job shares
    env: dict[str, str]
    cwd: str


class Answer(NamedTuple):
    """What a slot process says."""

    kind: int
    flags: int = 0
    note: str = ""
    body: bytes = b""
    peak_memory_bytes: int | None = None


class FrameError(Exception):
    """What came cannot be from a slot process of ours."""


def encode_assignment(number: int, head: Head, shared: bytes, call: bytes) -> bytes:
    """What goes before the two pickles."""
    # The same interpreter reads it, so marshal will do. Importing msgspec takes longer than starting Python.
    data = marshal.dumps(tuple(head))
    return ASSIGNMENT.pack(number, len(data), len(shared), len(call)) + data


def read_number(assignment: bytes) -> int:
    """Which one it is."""
    return int(ASSIGNMENT.unpack_from(assignment)[0])


def decode_head(data: bytes | bytearray) -> Head:
    return Head(*marshal.loads(data))  # noqa: S302 - our own worker sent it


def encode_answer(kind: int, flags: int, note: str, body: bytes, peak_memory_bytes: int = 0) -> bytes:
    """What goes before the body."""
    text = note.encode(errors="backslashreplace")[:MAX_NOTE_BYTES]
    return ANSWER.pack(kind, flags, len(text), len(body), peak_memory_bytes) + text


class AnswerReader:
    """Puts one answer after the other together from the pieces that arrive. A long body is copied once."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()  # that are complete
        self._begun = b""  # of a head that is not complete
        self._head: tuple[int, int, str, int | None] | None = None  # whose body is not complete
        self._pieces: list[bytes] = []
        self._missing = 0

    @property
    def is_within(self) -> bool:
        """Whether a body has begun and not ended."""
        return self._head is not None

    def receive_data(self, data: bytes) -> None:
        """Raises: FrameError."""
        while data or self._head is not None:
            if self._head is None:
                data = self._read_head(data)
                if self._head is None:
                    return
            missing = self._missing
            if len(data) < missing:
                self._pieces.append(data)
                self._missing = missing - len(data)
                return
            self.answers.append(self._complete(self._head, data[:missing]))
            data = data[missing:]

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head, if that is complete."""
        if self._begun:
            data = self._begun + data
        self._begun = data
        if len(data) < ANSWER.size:
            return b""
        kind, flags, note_bytes, body_bytes, peak = ANSWER.unpack_from(data)
        if kind > REFUSED or note_bytes > MAX_NOTE_BYTES or body_bytes > MAX_BODY_BYTES:
            raise FrameError("said something that makes no sense")
        end = ANSWER.size + note_bytes
        if len(data) < end:
            return b""
        note = data[ANSWER.size : end].decode(errors="replace") if note_bytes else ""
        self._head = (kind, flags, note, peak or None)
        self._begun, self._missing = b"", body_bytes
        return data[end:]

    def _complete(self, head: tuple[int, int, str, int | None], data: bytes) -> Answer:
        if self._pieces:
            data = b"".join((*self._pieces, data))
            self._pieces.clear()
        self._head = None
        kind, flags, note, peak = head
        return Answer(kind, flags, note, data, peak)
