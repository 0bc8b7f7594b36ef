"""Types for values that come from a peer: msgspec checks their bounds when it decodes bytes.

The numbers and their reasons are in `limits`. Constructing such a value in Python checks nothing; the peer that decodes
it does.
"""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gandy import moments
from gandy.ids import JobId, TaskNumber
from gandy.limits import (
    LAST_INTEGER,
    MAX_AFTER,
    MAX_ATTEMPT,
    MAX_COMMAND_NAME,
    MAX_FOLLOWED,
    MAX_INPUT_BYTES,
    MAX_JOB_NAME,
    MAX_KEY_BYTES,
    MAX_LINE,
    MAX_LINES,
    MAX_NAME,
    MAX_NAMED_TASKS,
    MAX_PATH,
    MAX_READ_BYTES,
    MAX_RESULT_BYTES,
    MAX_SECONDS,
    MAX_SLOTS,
    MAX_SPEC_BYTES,
    MAX_TAGS,
    MAX_TAIL_BYTES,
    MAX_TASKS,
    MAX_TEXT,
    MAX_VARIABLES,
)

# Characters that move the cursor, begin a line or change the direction of text: names are shown in tables and logs.
_UNPRINTABLE: Final = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
PRINTABLE: Final = rf"^[^{_UNPRINTABLE}]*\Z"
WITHOUT_NUL: Final = r"^[^\x00]*\Z"  # no kernel takes a NUL in an argument, a variable or a path
_not_printable: Final = re.compile(f"[{_UNPRINTABLE}]")

# Numbers. A comparison with NaN is false, so the bounds of floats refuse it too.
JobNumber = Annotated[JobId, Meta(ge=0, le=LAST_INTEGER)]
TaskIndex = Annotated[TaskNumber, Meta(ge=0, le=MAX_TASKS)]
AttemptNumber = Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)]
Count = Annotated[int, Meta(ge=0, le=LAST_INTEGER)]
OutputBytes = Annotated[int, Meta(ge=-1, le=LAST_INTEGER)]  # -1: some is missing
Positive = Annotated[int, Meta(ge=1, le=LAST_INTEGER)]
Integer = Annotated[int, Meta(ge=-LAST_INTEGER - 1, le=LAST_INTEGER)]
ExitCode = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Slots = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Moment = Annotated[float, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]  # also the difference between two clocks
WallMoment = Annotated[moments.Wall, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]
SharedMoment = Annotated[moments.Shared, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]

# Texts.
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE)]
OptionalName = Annotated[str, Meta(max_length=MAX_NAME, pattern=PRINTABLE)]
CommandName = Annotated[str, Meta(min_length=1, max_length=MAX_COMMAND_NAME, pattern=PRINTABLE)]
JobName = Annotated[str, Meta(max_length=MAX_JOB_NAME, pattern=PRINTABLE)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
WireText = Annotated[str, Meta(max_length=MAX_SPEC_BYTES)]  # in the original protocols only the frame limits it
# Part of every task that a worker gets. Without patterns, which cost a microsecond or more: a NUL fails in the kernel.
WireWords = Annotated[tuple[WireText, ...], Meta(max_length=MAX_SPEC_BYTES)]
WireEnvironment = Annotated[dict[WireText, WireText], Meta(max_length=MAX_VARIABLES)]
Path = Annotated[str, Meta(max_length=MAX_PATH, pattern=WITHOUT_NUL)]
Line = Annotated[str, Meta(max_length=MAX_LINE)]
ShellLine = Annotated[str, Meta(min_length=1, max_length=MAX_SPEC_BYTES, pattern=WITHOUT_NUL)]
Word = Annotated[str, Meta(max_length=MAX_SPEC_BYTES, pattern=WITHOUT_NUL)]  # an argument, a shell line, a variable

# Bytes.
Tail = Annotated[bytes, Meta(max_length=MAX_TAIL_BYTES)]
Result = Annotated[bytes, Meta(max_length=MAX_RESULT_BYTES)]
Pickled = Annotated[bytes, Meta(max_length=MAX_INPUT_BYTES)]
Shared = Annotated[bytes, Meta(max_length=MAX_SPEC_BYTES)]
PieceData = Annotated[bytes, Meta(max_length=MAX_READ_BYTES)]
KeyData = Annotated[bytes, Meta(max_length=MAX_KEY_BYTES)]

# Lists and maps.
Words = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=MAX_SPEC_BYTES)]
Environment = Annotated[dict[Word, Word], Meta(max_length=MAX_VARIABLES)]
Tags = Annotated[tuple[Name, ...], Meta(max_length=MAX_TAGS)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=MAX_LINES)]
JobNumbers = Annotated[tuple[JobNumber, ...], Meta(max_length=MAX_AFTER)]
FollowedJobs = Annotated[tuple[JobNumber, ...], Meta(max_length=MAX_FOLLOWED)]
NamedTasks = Annotated[tuple[TaskIndex, ...], Meta(max_length=MAX_NAMED_TASKS)]

# Everything that msgspec raises for bytes that it cannot decode: malformed or mistyped, not UTF-8, nested too deep.
BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_PATTERNS: Final = {repr(PRINTABLE): "of printable characters", repr(WITHOUT_NUL): "without a NUL"}


def describe(error: Exception) -> str:
    """Describe a `BROKEN` error for users, with words in place of regular expressions."""
    text = str(error)
    for pattern, words in _PATTERNS.items():
        text = text.replace(f"matching regex {pattern}", words)
    return text


def escape_controls(text: str) -> str:
    """Return the text with every character that a name may not contain as an escape."""
    return _not_printable.sub(lambda found: ascii(found[0])[1:-1], text)
