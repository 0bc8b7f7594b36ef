"""Keeps a file of the workers at the round-robin door, for the next foreman.

Workers do not notice that their server was started again. So the next foreman sends a PING to the workers of the last
one when they connect, and registers those that answer.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from pathlib import Path
from typing import Final

from gandy.doors.roundrobin.limits import MAX_LOST_WORKERS
from gandy.doors.roundrobin.workers import Workers
from gandy.moments import Monotonic

FILE_NAME: Final = "roundrobin.json"
SAVE_PAUSE: Final = 0.5  # seconds from a change until the file is written, so that several changes are written once

log = logging.getLogger("gandy.foreman")


class WorkerFile:
    """Routing ids and slots of workers. Without the file, users must make original workers register again."""

    def __init__(self, path: Path, workers: Workers) -> None:
        self._path = path
        self._workers = workers
        self._saving: asyncio.TimerHandle | None = None

    def open(self, now: Monotonic) -> None:
        for routing_id, slots in self._load().items():
            self._workers.lost.add(routing_id, slots, now)
        self._workers.on_change = self._save_soon

    def _save_soon(self) -> None:
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_PAUSE, self.save)

    def _load(self) -> dict[bytes, int]:
        try:
            content = json.loads(self._path.read_bytes())
            return {b64decode(key): int(slots) for key, slots in list(content.items())[:MAX_LOST_WORKERS]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, Base64Error) as error:
            log.warning("cannot read the workers of the round-robin door from %s: %s", self._path, error)
            return {}

    def save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
        self._saving = None
        slots = self._workers.list_slots()
        text = json.dumps({b64encode(key).decode(): count for key, count in slots.items()})
        new = self._path.with_suffix(".new")
        try:
            new.touch(mode=0o600)
            new.write_text(text)
            new.replace(self._path)
        except OSError as error:
            log.warning("cannot write the workers of the round-robin door to %s: %s", self._path, error)
