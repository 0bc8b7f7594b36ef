"""Reads how busy this machine is, and tells foremen when that has changed. Everything that runs here counts."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gandy.core.extensions import MachineLoad

PERIOD: Final = 5.0  # seconds between two looks; the kernel computes the load as often
LOAD_STEP: Final = 0.1  # that is worth a message
MEMORY_PARTS: Final = 100  # one of so many parts of the memory is worth a message, too
KIB: Final = 1024

MEMORY_FILE: Final = Path("/proc/meminfo")

Send = Callable[[MachineLoad], None]


class MachineReporter:
    """One per worker, on the current loop. `keep` looks; conversations say where to send what it finds."""

    def __init__(self) -> None:
        self._sends: dict[Send, None] = {}  # to foremen that want to know
        self._told: MachineLoad | None = None

    def on_welcome(self, send: Send) -> None:
        """A link is up, over which `send` reaches a foreman."""
        self._sends[send] = None
        if self._told is not None:
            send(self._told)

    def on_cut(self, send: Send) -> None:
        self._sends.pop(send, None)

    def note(self, found: MachineLoad) -> None:
        """The machine is like this now."""
        if self._told is None or differs(found, self._told):
            self._told = found
            for send in tuple(self._sends):
                send(found)

    async def keep(self) -> None:
        """Look from time to time, until cancelled."""
        while (found := read_load()) is not None:
            self.note(found)
            await asyncio.sleep(PERIOD)
        await asyncio.Event().wait()  # this machine does not say, and never will


def differs(one: MachineLoad, other: MachineLoad) -> bool:
    """True if the difference is worth a message."""
    if one.cores != other.cores or one.memory_total_bytes != other.memory_total_bytes:
        return True
    is_load = round(abs(one.load - other.load), 2) >= LOAD_STEP  # both have two digits
    return is_load or abs(one.memory_bytes - other.memory_bytes) * MEMORY_PARTS > one.memory_total_bytes


def read_load() -> MachineLoad | None:
    """How busy this machine is; None if it does not say."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return None
    try:
        used, total = parse_memory(MEMORY_FILE.read_text())
    except (OSError, ValueError, KeyError):
        used = total = 0
    return MachineLoad(round(load, 2), os.cpu_count() or 0, used, total)


def parse_memory(text: str) -> tuple[int, int]:
    """Bytes in use, and all, from what Linux says. Caches that can be freed are not in use.

    Raises: ValueError, KeyError.
    """
    lines = (line.split(":", 1) for line in text.splitlines() if line.startswith("Mem"))
    sizes = {name: int(rest.split()[0]) * KIB for name, rest in lines}
    return max(0, sizes["MemTotal"] - sizes["MemAvailable"]), sizes["MemTotal"]
