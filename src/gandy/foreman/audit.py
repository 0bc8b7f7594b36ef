"""The audit: which peer connected, was refused, submitted, cancelled or changed keys, and from where. As JSON lines.

It never holds a secret, a shell line or a value of an environment. Of a flood of refusals it holds the number.
"""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.limits import MAX_AUDIT_BYTES, MAX_AUDIT_REFUSALS, MAX_AUDIT_TEXT
from gandy.moments import LONG_AGO, Monotonic
from gandy.net.links import Visitor

log = logging.getLogger("gandy.foreman")

NAME: Final = "audit.jsonl"
OLD: Final = ".1"  # behind the name of the file before this one
PERIOD: Final = 10.0  # seconds

SEVERAL: Final = Visitor("several", "several places")


class Audit:
    """A file in the foreman's home. `note` takes a verb, and details by the names that people see."""

    def __init__(self, home: str, max_bytes: int = MAX_AUDIT_BYTES) -> None:
        self._path = Path(home) / NAME
        self._max_bytes = max_bytes
        self._file: int | None = None
        self._is_torn = False  # the last line was not written to its end
        self._period_began = LONG_AGO  # in monotonic time
        self._refusals = 0
        self.foreman = ""  # the name of this foreman, in a crew with many
        self.on_line: Callable[[str], None] = lambda _line: None

    def note(self, what: str, who: Visitor, **about: object) -> None:
        """A full disk stops no work: what cannot be written is in the log."""
        if what != "refused" or self._may_note_refusal(read_monotonic()):
            self._write(what, who, about)

    def close(self) -> None:
        self._note_refusals()
        self._close_file()

    def _write(self, what: str, who: Visitor, about: dict[str, object]) -> None:
        entry = {"time": round(float(read_wall()), 3), "what": what, "who": who.name, "from": who.place}
        more = ("as", who.role), ("key", who.key), ("foreman", self.foreman)
        entry |= {name: value for name, value in more if value}
        details = (entry | about).items()
        short = {name: value[:MAX_AUDIT_TEXT] if isinstance(value, str) else value for name, value in details}
        # In ASCII: no name that a peer made up moves the cursor of a terminal that shows the file.
        line = json.dumps(short) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            log.error("the audit log cannot be written: %s: %s", error, line.strip())
        self.on_line(line.strip())

    def _append(self, line: bytes) -> None:
        if self._file is not None and os.fstat(self._file).st_size > self._max_bytes:
            self._close_file()
            os.replace(self._path, f"{self._path}{OLD}")  # noqa: PTH105
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._file).st_size
            self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"  # by a crash
        if self._is_torn:
            line = b"\n" + line  # so that the torn line does not spoil this one
        self._is_torn = True
        self._is_torn = os.write(self._file, line) < len(line)

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _may_note_refusal(self, now: Monotonic) -> bool:
        if now - self._period_began >= PERIOD:
            self._note_refusals()
            self._period_began = now
        self._refusals += 1
        return self._refusals <= MAX_AUDIT_REFUSALS

    def _note_refusals(self) -> None:
        """How many there were beyond those that were written."""
        more, self._refusals = self._refusals - MAX_AUDIT_REFUSALS, 0
        if more > 0:
            self._write("refused", SEVERAL, {"count": more, "seconds": PERIOD})
