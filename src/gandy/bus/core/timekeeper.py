"""What a member knows of the shared time, and whether it leads the clock or which process it follows."""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from gandy.bus.core.clock import ClockFollower, Correction, LeadAct, LeaderChoice, SharedClock
from gandy.moments import LONG_AGO, Monotonic, Shared


class Heard(NamedTuple):
    """What a reply did."""

    is_new_leader: bool = False  # its time is ours from now on
    jump: float = 0.0  # seconds by which the clock was set; slewing is no jump


class Timekeeper:
    """The clock of one member. It returns as acts what other processes must hear."""

    def __init__(
        self,
        name: str,
        may_lead: bool,
        beginning: Shared,
        now: Monotonic,
        patience: float = 0.0,
        first_patience: float = 0.0,
    ) -> None:
        """`beginning`: the shared time now, if we are the first to lead. For both kinds of patience see `on_time`."""
        self.clock = SharedClock()
        self.follower = ClockFollower(self.clock)
        self.leads = False
        self._choice = LeaderChoice(name, may_lead, now)
        self._beginning = beginning
        self._started = now
        self._patience = patience
        self._first_patience = first_patience
        self._not_before = LONG_AGO
        self._is_settled = False  # the clock shows this leader's time, not an earlier one's

    @property
    def leader(self) -> str | None:
        """The process whose time it is; perhaps ourselves."""
        return self._choice.leader

    def is_synced(self, now: Monotonic) -> bool:
        return self.leads or self.follower.is_synchronised(now)

    def max_error(self, now: Monotonic) -> float:
        """The shared time is wrong by no more than this. `inf`: it may be anything."""
        return 0.0 if self.leads else self.follower.max_error(now)

    def on_offers(self, others: Iterable[str], greater_names: int, now: Monotonic) -> tuple[LeadAct, ...]:
        """After another process began or ceased to offer the clock."""
        return self._act(self._choice.on_offers(others, now, greater_names), now)

    def on_time(self, now: Monotonic, others_know: bool = False) -> tuple[LeadAct, ...]:
        """`others_know`: processes that we met know the shared time from a leader that we have not met.

        A new time of ours would compete with theirs. So we wait longer, and begin one only if no leader was found by
        then. Where discovery messages may be lost, we wait a little in any case.
        """
        patience = self._patience if others_know else self._first_patience
        self._not_before = LONG_AGO if self.clock.is_set else self._started + patience
        return self._act(self._choice.on_time(now), now) if now >= self._not_before else ()

    def next_deadline(self) -> Monotonic:
        return min(max(self._choice.next_deadline(), self._not_before), self.follower.next_deadline())

    def on_request(self, now: Monotonic) -> Shared | None:
        """The time to reply, if we lead. `now` is read after the request came: the followers' bounds rest on that."""
        return self.clock.read(now) if self.leads else None

    def on_reply(self, serial: int, time: Shared, now: Monotonic) -> Heard:
        before = self.clock.read(now) if self.clock.is_set else time
        correction = None if self.leads else self.follower.on_reply(serial, time, now)
        if correction is None:
            return Heard()
        was_settled, self._is_settled = self._is_settled, True
        has_jumped = correction in (Correction.JUMP, Correction.RESTART)
        return Heard(not was_settled, self.clock.read(now) - before if has_jumped else 0.0)

    def _act(self, acts: tuple[LeadAct, ...], now: Monotonic) -> tuple[LeadAct, ...]:
        for act in acts:
            match act:
                case LeadAct.OFFER:
                    self.follower.on_leader_lost(now)
                    self.clock.lead(now, self._beginning + (now - self._started))
                    self.leads = True
                case LeadAct.WITHDRAW:
                    self.leads = False
                    self.follower = ClockFollower(self.clock)  # the old one knows only what leaders before us said
                case LeadAct.FOLLOW:
                    self.follower.on_leader_found(now)
                    self._is_settled = False
                case LeadAct.WAIT:
                    self.follower.on_leader_lost(now)
                case LeadAct.ANNOUNCE:
                    pass
                case _:
                    assert_never(act)
        return acts
