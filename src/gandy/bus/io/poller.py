"""Waits for the files of an engine, with microsecond precision, and calls the reaction of each that is ready."""

import os
import select
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from gandy.bus.io.spinning import SpinPolicy
from gandy.clocks import read_monotonic
from gandy.moments import Monotonic

EVENTS_PER_POLL: Final = 64  # Python allocates memory for as many at each poll
LONGEST_WAIT: Final = 60.0  # seconds
FINE: Final = 0.002  # seconds; epoll counts milliseconds, so select does shorter waits

Reaction: TypeAlias = Callable[[int], bool]  # takes epoll's events; True: there may be more to do than deliveries
Events: TypeAlias = list[tuple[int, int]]  # file number, epoll's events


class File(Protocol):
    """A socket, or anything else that epoll takes."""

    def fileno(self) -> int: ...


class Poller:
    """Files and their reactions. `spin` decides whether `wait` sleeps."""

    def __init__(self) -> None:
        self.spin = SpinPolicy(len(os.sched_getaffinity(0)) > 1)
        self._epoll = select.epoll()
        self._reactions: dict[int, Reaction] = {}  # by file number

    def add(self, file: File, events: int, react: Reaction) -> None:
        self._reactions[file.fileno()] = react
        self._epoll.register(file, events)

    def modify(self, file: File, events: int) -> None:
        self._epoll.modify(file, events)

    def remove(self, file: File) -> None:
        del self._reactions[file.fileno()]
        self._epoll.unregister(file)

    def close(self) -> None:
        self._epoll.close()

    def wait(self, until: Monotonic) -> Events:
        """The files that are ready; perhaps none, even before `until`."""
        seconds = until - read_monotonic()
        if self.spin.until is not None and seconds > 0:
            if events := self._spin(min(self.spin.until, until)):
                return events
            seconds = until - read_monotonic()
        if seconds >= FINE:
            return self._epoll.poll(min(seconds - FINE / 2, LONGEST_WAIT), EVENTS_PER_POLL)
        if seconds > 0:
            select.select((self._epoll,), (), (), seconds)
        return self._epoll.poll(0, EVENTS_PER_POLL)

    def _spin(self, until: Monotonic) -> Events:
        spin, poll = self.spin, self._epoll.poll
        while not (events := poll(0, EVENTS_PER_POLL)):
            os.sched_yield()  # the process that we wait for may need this processor
            if (now := read_monotonic()) >= until:
                spin.on_missed(now)
                return events
        spin.on_caught()
        return events

    def react(self, events: Events) -> bool:
        """Call the reactions. True if any of them returned True."""
        result = False
        for number, event in events:
            react = self._reactions.get(number)
            if react is not None and react(event):  # None: an earlier reaction removed it
                result = True
        return result
