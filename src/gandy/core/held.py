"""What one worker holds: the attempts that it was given, or is about to get, and what is known of each."""

from typing import NamedTuple

from gandy.core.model import AttemptKey, TaskKey
from gandy.core.slots import SlotAccount
from gandy.moments import Monotonic


class Held(NamedTuple):
    """What one attempt takes of its worker."""

    slots: int
    since: Monotonic = Monotonic(0.0)  # when it was given out
    work_us: int = 0  # microseconds of slots that it is expected to use, as far as they count for the look-ahead


class HeldAttempts(dict[AttemptKey, Held]):
    """Attempts in the order in which they were given. Only `take` and `release` change it: they keep the accounts."""

    def __init__(self, slots: SlotAccount) -> None:
        super().__init__()
        self._slots = slots
        self.work_us = 0  # microseconds of slots that all of them are expected to use
        self.unsent: set[AttemptKey] = set()  # these are not on record yet, and so not sent either
        self.begun: set[AttemptKey] = set()  # these are known to run
        self.recalled: set[AttemptKey] = set()  # these are wanted back

    def take(self, attempt: AttemptKey, held: Held) -> None:
        """Add an attempt. One that is here already is not counted twice."""
        before = self.get(attempt)
        if before is not None:
            self._count(before, -1)
        self[attempt] = held
        self._count(held, 1)

    def release(self, attempt: AttemptKey) -> None:
        self.unsent.discard(attempt)
        self.recalled.discard(attempt)
        self.begun.discard(attempt)
        held = self.pop(attempt, None)
        if held is not None:
            self._count(held, -1)

    def has_task(self, task: TaskKey) -> bool:
        """True if an attempt at this task is here, perhaps one that is about to be killed."""
        return any(attempt.task_key == task for attempt in self)

    def list_suspects(self) -> list[AttemptKey]:
        """What may have ended the worker: all that is known to have begun, and what may have begun since.

        Tasks begin in the order in which they are given, if there are slots for them. If it is not known how many slots
        there are, as of a worker that has been away since the foreman started, the oldest is suspected.
        """
        sent = [attempt for attempt in self if attempt not in self.unsent]
        suspects = [attempt for attempt in sent if attempt in self.begun]
        if not self._slots.shared:
            return suspects or sent[:1]
        left = self._slots.busy_with_tasks - sum(self[attempt].slots for attempt in suspects)
        for attempt in sent:
            if attempt not in self.begun:
                left -= self[attempt].slots
                if left < 0:
                    break
                suspects.append(attempt)
        return suspects

    def check(self) -> None:
        """What must hold after every step; for tests."""
        assert self.work_us == sum([held.work_us for held in self.values()])
        for attempts in (self.unsent, self.recalled, self.begun):
            assert self.keys() >= attempts

    def _count(self, held: Held, sign: int) -> None:
        self._slots.by_tasks += sign * held.slots
        self.work_us += sign * held.work_us
