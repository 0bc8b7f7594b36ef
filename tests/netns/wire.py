"""A wire between two namespaces that is slow and loses packets, for kernels without netem.

    python -m tests.netns.wire NAMESPACE NAMESPACE

Lines on stdin are a weather: the delay of each packet and its jitter in milliseconds, and the loss in percent.
"""

import ctypes
import fcntl
import os
import random
import selectors
import struct
import sys
import time
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from tests.netns.namespaces import CLONE_NEWNET, LINK, TUN, Weather

TUNSETIFF: Final = 0x400454CA
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
MAX_FRAME: Final = 1 << 16


def open_tap(namespace: str) -> int:
    """The other side of a network card in the namespace."""
    descriptor = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(descriptor)
    tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", LINK.encode(), IFF_TAP | IFF_NO_PI))
    return tap


class Wire:
    """Packets on their way."""

    def __init__(self, first: int, second: int) -> None:
        self.weather = Weather(0, 0, 0)
        self._others = {first: second, second: first}
        self._flying: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._luck = random.Random(1)

    def take(self, tap: int) -> None:
        """A packet came out of this side."""
        frame = os.read(tap, MAX_FRAME)
        delay, jitter, loss = self.weather
        if self._luck.uniform(0, 100) < loss:
            return
        due = time.monotonic() + self._luck.uniform(delay - jitter, delay + jitter) / 1000
        self._count += 1
        heappush(self._flying, (due, self._count, self._others[tap], frame))

    def deliver(self) -> None:
        while self._flying and self._flying[0][0] <= time.monotonic():
            _, _, tap, frame = heappop(self._flying)
            with suppress(OSError):  # that side is not up yet
                os.write(tap, frame)

    def remaining_time(self) -> float | None:
        return max(0.0, self._flying[0][0] - time.monotonic()) if self._flying else None


def main(first: str, second: str) -> None:
    taps = (open_tap(first), open_tap(second))
    wire = Wire(*taps)
    # select counts in microseconds, epoll in milliseconds.
    with selectors.SelectSelector() as selector:
        for source in (sys.stdin.fileno(), *taps):
            selector.register(source, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select(wire.remaining_time()):
                if key.fd in taps:
                    wire.take(key.fd)
                elif line := sys.stdin.readline():
                    wire.weather = Weather(*map(float, line.split()))
                    print("weather", flush=True)
                else:
                    return
            wire.deliver()


if __name__ == "__main__":
    main(*sys.argv[1:])
