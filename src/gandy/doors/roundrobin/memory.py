"""Remembers who registered at the round-robin door when the foreman is gone.

Its workers do not notice that their server was started again. So the next foreman asks those of the last one, as they
connect, and takes back those that answer.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from pathlib import Path
from typing import Final

from gandy.doors.roundrobin.registered import MAX_LOST, Workers

MEMORY_NAME: Final = "roundrobin.json"
SAVE_PAUSE: Final = 0.5  # seconds from a change until it is written, with all that follow

log = logging.getLogger("gandy.foreman")


class Memory:
    """Routing ids and slots of workers, in a file. Without it workers have to be told to register, and that is all."""

    def __init__(self, path: Path, workers: Workers) -> None:
        self._path = path
        self._workers = workers
        self._saving: asyncio.TimerHandle | None = None

    def open(self, now: float) -> None:
        for routing_id, slots in self._load().items():
            self._workers.lost[routing_id] = (slots, now)
        self._workers.on_change = self._save_soon

    def _save_soon(self) -> None:
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_PAUSE, self.save)

    def _load(self) -> dict[bytes, int]:
        try:
            told = json.loads(self._path.read_bytes())
            return {b64decode(key): int(slots) for key, slots in list(told.items())[:MAX_LOST]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, Base64Error) as error:
            log.warning("who was at the round-robin door cannot be read from %s: %s", self._path, error)
            return {}

    def save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
        self._saving = None
        slots = self._workers.list_slots()
        text = json.dumps({b64encode(key).decode(): count for key, count in slots.items()})
        other = self._path.with_suffix(".new")
        try:
            other.touch(mode=0o600)
            other.write_text(text)
            other.replace(self._path)
        except OSError as error:
            log.warning("who is at the round-robin door cannot be written to %s: %s", self._path, error)
