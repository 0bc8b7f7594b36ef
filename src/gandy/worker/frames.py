"""The frames between a worker and its slot processes, over one channel for each. Does no I/O.

A slot process first sends READY, or why it cannot run. Then it answers one assignment after the other until the channel
ends. Short assignments go into its box, a packet socket that both can read (`assignment_box`). Slot processes start
after every crash and for every fresh task, so this module imports next to nothing.
"""

import marshal
import struct
from collections import deque
from typing import Final, NamedTuple

from gandy.limits import MAX_NOTE_BYTES, MAX_PICKLE_BYTES
from gandy.moments import Wall

DESCRIPTOR: Final = 3  # of the channel, in the slot process
BOX: Final = 4  # the descriptor of the box, in the slot process; it never blocks
BOX_BYTES: Final = 1 << 13  # that an assignment in the box may have
KEPT_JOBS: Final = 4  # jobs whose shared function a slot process keeps; the worker keeps track of which

READY: Final = 0
VALUE: Final = 1  # the body is what the function returned
RAISED: Final = 2  # the body is the exception, the note its description
REFUSED: Final = 3  # the task could not begin; the note says why
NOT_RETRIED: Final = 4  # like RAISED, and the task is not to be tried again

PRINTED: Final = 1  # there is output: the two files belong to the task, and the process opens the next two
HAS_CHILDREN: Final = 2  # the function left processes behind: they must end with the task, so this process must end too
MEASURES: Final = 4  # with READY: the process measures the peak memory of each task
SHORT: Final = 8  # with REFUSED: something that any task needs is short, and the process must end

ASSIGNMENT: Final = struct.Struct("<QQqIQQ")  # number, task, attempt, bytes of: setting, what the job shares, input
ANSWER: Final = struct.Struct("<BBIQQdd")  # kind, flags, bytes of note, of body, peak memory or 0, when it ran
NO_TIME: Final = Wall(0.0)  # in an answer to a task that did not run


class Setting(NamedTuple):
    """The environment and the folder of a job's tasks.

    It is sent with each task, so that any task can be taken back. A process decodes the same bytes only once.
    """

    job: int
    has_shared: bool  # the tasks are chunks of a map, and need the function that their job shares
    env: dict[str, str]
    cwd: str


class Answer(NamedTuple):
    """What a slot process sends: READY, or how a task ended."""

    kind: int
    flags: int = 0
    note: str = ""
    body: bytes = b""
    peak_memory_bytes: int | None = None
    started: Wall = NO_TIME
    ended: Wall = NO_TIME


class FrameError(Exception):
    """The bytes cannot be from a slot process of ours."""


def encode_setting(setting: Setting) -> bytes:
    # The same interpreter reads it, so marshal is enough. Importing msgspec takes longer than starting Python.
    return marshal.dumps(tuple(setting))


def decode_setting(data: bytes | bytearray) -> Setting:
    return Setting(*marshal.loads(data))  # noqa: S302 - our own worker sent it


def encode_assignment(number: int, task: int, attempt: int, setting: bytes, shared: bytes, packed: bytes) -> bytes:
    """Encode what goes before the two pickles."""
    return ASSIGNMENT.pack(number, task, attempt, len(setting), len(shared), len(packed)) + setting


def read_number(assignment: bytes) -> int:
    """Return the number by which the worker knows the assignment."""
    return int(ASSIGNMENT.unpack_from(assignment)[0])


def encode_answer(
    kind: int,
    flags: int,
    note: str,
    body: bytes,
    peak_memory_bytes: int = 0,
    started: Wall = NO_TIME,
    ended: Wall = NO_TIME,
) -> bytes:
    """Encode what goes before the body."""
    text = note.encode(errors="backslashreplace")[:MAX_NOTE_BYTES]
    return ANSWER.pack(kind, flags, len(text), len(body), peak_memory_bytes, started, ended) + text


class AnswerReader:
    """Assembles answers from the pieces that arrive. A long body is copied once."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()  # complete ones
        self._begun = b""  # bytes of an answer whose body has not begun
        self._answer: Answer | None = None  # the answer whose body is arriving
        self._pieces: list[bytes] = []
        self._missing = 0

    @property
    def is_within(self) -> bool:
        """True if a body has begun and not ended."""
        return self._answer is not None

    def receive_data(self, data: bytes) -> None:
        """Raises: FrameError."""
        if self._answer is not None:
            data = self._receive_body(self._answer, data)
        at = 0
        if self._begun:
            data = self._begun + data
        while len(data) - at >= ANSWER.size:
            kind, flags, note_bytes, body_bytes, peak, started, ended = ANSWER.unpack_from(data, at)
            if kind > NOT_RETRIED or note_bytes > MAX_NOTE_BYTES or body_bytes > MAX_PICKLE_BYTES:
                raise FrameError("sent an invalid answer")
            body_at = at + ANSWER.size + note_bytes
            if len(data) < body_at:
                break
            note = data[body_at - note_bytes : body_at].decode(errors="replace") if note_bytes else ""
            at = body_at + body_bytes
            answer = Answer(kind, flags, note, data[body_at:at], peak or None, started, ended)
            if len(data) < at:
                self._answer, self._pieces, self._missing = answer, [answer.body], at - len(data)
            else:
                self.answers.append(answer)
        self._begun = data[at:]

    def _receive_body(self, answer: Answer, data: bytes) -> bytes:
        """Add data to the body. Returns what follows the body."""
        self._pieces.append(data[: self._missing])
        rest = data[self._missing :]
        self._missing -= min(self._missing, len(data))
        if not self._missing:
            self.answers.append(answer._replace(body=b"".join(self._pieces)))
            self._answer = None
            self._pieces.clear()
        return rest
