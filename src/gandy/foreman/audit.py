"""The audit: who came, was refused, submitted, cancelled or changed keys, from where. One JSON object on each line.

It never holds a secret, a shell line or a value of an environment. A flood of refusals is told by its number.
"""

import json
import logging
import os
import time
from pathlib import Path
from typing import Final, TextIO

log = logging.getLogger("gandy.foreman")

NAME: Final = "audit.jsonl"
MAX_BYTES: Final = 50_000_000  # then it becomes audit.jsonl.1, and the one before that is gone
MAX_REFUSALS: Final = 20  # that are written in one period
PERIOD: Final = 10.0  # seconds


class Audit:
    """One for each foreman."""

    def __init__(self, home: str) -> None:
        self._path = Path(home) / NAME
        self._file: TextIO | None = None
        self._period_began = 0.0
        self._refusals = 0

    def _open(self) -> TextIO:
        """A new one, where there is none or the old one is full."""
        if self._file is not None and self._file.tell() > MAX_BYTES:
            self.close()
            os.replace(self._path, f"{self._path}.1")  # noqa: PTH105
        if self._file is None:
            number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(number, "a", encoding="utf-8")
        return self._file

    def note(self, what: str, who: str, **about: object) -> None:
        """A full disk stops no work: what cannot be written is in the log."""
        now = time.time()
        if what == "refused" and not self._may_note_refusal(now):
            return
        line = json.dumps({"time": round(now, 3), "what": what, "who": who, **about}, ensure_ascii=False) + "\n"
        try:
            file = self._open()
            file.write(line)
            file.flush()
        except OSError as error:
            log.error("the audit cannot be written: %s: %s", error, line.strip())

    def close(self) -> None:
        self._tell_refusals()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _may_note_refusal(self, now: float) -> bool:
        if now - self._period_began >= PERIOD:
            self._tell_refusals()
            self._period_began, self._refusals = now, 0
        self._refusals += 1
        return self._refusals <= MAX_REFUSALS

    def _tell_refusals(self) -> None:
        more, self._refusals = self._refusals - MAX_REFUSALS, 0
        if more > 0:
            self.note("refusals", "several", count=more, seconds=PERIOD)
