"""A member's knowledge of the shared time, and whether it leads the clock or which process it follows."""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from gandy.bus.core.clock import ClockFollower, Correction, LeadAct, LeaderChoice, SharedClock
from gandy.moments import LONG_AGO, Monotonic, Shared


class ReplyEffect(NamedTuple):
    """How a reply changed the clock."""

    is_new_leader: bool = False  # we use its time from now on
    jump: float = 0.0  # seconds by which the clock was set; slewing does not count


class Timekeeper:
    """The clock of one member. It returns acts for the caller, which sends the messages about them."""

    def __init__(
        self,
        name: str,
        may_lead: bool,
        beginning: Shared,
        now: Monotonic,
        patience: float = 0.0,
        first_patience: float = 0.0,
    ) -> None:
        """`beginning`: the shared time now, if we are the first to lead. `on_time` explains both kinds of patience."""
        self.clock = SharedClock()
        self.follower = ClockFollower(self.clock)
        self.leads = False
        self._choice = LeaderChoice(name, may_lead, now)
        self._beginning = beginning
        self._started = now
        self._patience = patience
        self._first_patience = first_patience
        self._not_before = LONG_AGO
        self._uses_leader = False  # the clock shows this leader's time, not that of an earlier one

    @property
    def leader(self) -> str | None:
        """The process that leads the clock; perhaps ourselves."""
        return self._choice.leader

    def is_synced(self, now: Monotonic) -> bool:
        return self.leads or self.follower.is_synchronised(now)

    def max_error(self, now: Monotonic) -> float:
        """The largest possible error of the shared time. `inf`: it is not known."""
        return 0.0 if self.leads else self.follower.max_error(now)

    def estimate_error(self, now: Monotonic) -> float:
        """The probable error of the shared time. `inf`: it is not known."""
        return 0.0 if self.leads else self.follower.estimate_error(now)

    def on_offers(self, others: Iterable[str], greater_names: int, now: Monotonic) -> tuple[LeadAct, ...]:
        """To be called when another process began or ceased to offer the clock."""
        return self._act(self._choice.on_offers(others, now, greater_names), now)

    def on_time(self, now: Monotonic, others_know: bool = False) -> tuple[LeadAct, ...]:
        """`others_know`: processes that we have found know the shared time from a leader that we have not found.

        A clock of ours would compete with theirs. So we wait longer, and start one only if we find no leader by then.
        We always wait a little if discovery messages may be lost.
        """
        patience = self._patience if others_know else self._first_patience
        self._not_before = LONG_AGO if self.clock.is_set else self._started + patience
        return self._act(self._choice.on_time(now), now) if now >= self._not_before else ()

    def next_deadline(self) -> Monotonic:
        return min(max(self._choice.next_deadline(), self._not_before), self.follower.next_deadline())

    def on_request(self, now: Monotonic) -> Shared | None:
        """The time to reply, if we lead. Read `now` after the request arrived: the followers' bounds rely on that."""
        return self.clock.read(now) if self.leads else None

    def on_reply(self, serial: int, time: Shared, now: Monotonic) -> ReplyEffect:
        before = self.clock.read(now) if self.clock.is_set else time
        correction = None if self.leads else self.follower.on_reply(serial, time, now)
        if correction is None:
            return ReplyEffect()
        used_leader, self._uses_leader = self._uses_leader, True
        has_jumped = correction in (Correction.JUMP, Correction.RESTART)
        return ReplyEffect(not used_leader, self.clock.read(now) - before if has_jumped else 0.0)

    def _act(self, acts: tuple[LeadAct, ...], now: Monotonic) -> tuple[LeadAct, ...]:
        for act in acts:
            match act:
                case LeadAct.OFFER:
                    self.follower.on_leader_lost(now)
                    self.clock.lead(now, self._beginning + (now - self._started))
                    self.leads = True
                case LeadAct.WITHDRAW:
                    self.leads = False
                    self.follower = ClockFollower(self.clock)  # the old one has only replies of leaders before us
                case LeadAct.FOLLOW:
                    self.follower.on_leader_found(now)
                    self._uses_leader = False
                case LeadAct.WAIT:
                    self.follower.on_leader_lost(now)
                case LeadAct.ANNOUNCE:
                    pass
                case _:
                    assert_never(act)
        return acts
