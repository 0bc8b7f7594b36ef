"""Foremen that are broken on purpose: each breaks a law, and the simulator catches it within the seeds of a run."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.sim.crew import Crew
from tests.sim.foreman import ForemanProgram
from tests.sim.laws import BrokenLaw, Law

from gandy.core.call_dispatch import CallDispatcher
from gandy.core.calls import OnOut, Peer
from gandy.core.effects import Give, Send
from gandy.core.foreman import Batch, Foreman
from gandy.core.link_tasks import Inputs
from gandy.core.links import Link
from gandy.core.liveness import Liveness
from gandy.core.peer_log import PeerLog
from gandy.core.reactor import Reactor
from gandy.core.sharing import Sharing
from gandy.core.switchboard import Switchboard
from gandy.core.withdrawal import Withdrawal
from gandy.limits import MAX_SILENT_LINKS
from gandy.wire.calls import LOST

MAX_SEEDS = 1_000  # of a run of the tests


class SendsBeforeItRecords(ForemanProgram):
    def handle(self, batch: Batch) -> None:
        self.perform(batch.sends, frozenset())
        batch.sends = []
        super().handle(batch)


class GenerousPeer(Peer):
    """Its slots are free for calls, whatever tasks hold."""

    __slots__ = ()

    def count_free(self) -> int:
        return 0 if self.worker is None else max(0, self.slots.total - self.slots.by_calls)


class GenerousSwitchboard(Switchboard):
    def add_peer(self, on_out: OnOut | None = None) -> Peer:
        self._peers += 1
        return GenerousPeer(self._peers, on_out)


class RepeatingDispatcher(CallDispatcher):
    """Says it again when a worker was lost with a call."""

    def on_cut(self, peer: Peer, now: float) -> None:
        callers = [(call.client, call.client_id) for call in peer.serves.values() if call.client is not None]
        super().on_cut(peer, now)
        for client, number in callers:
            self._output.refuse(client, number, LOST, "lost")


class RepeatingSwitchboard(Switchboard):
    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.dispatcher = RepeatingDispatcher(now, self.output, self.waiting)


class ForgetfulSharing(Sharing):
    """Never says to a worker that calls no longer need its slots."""

    def decide(self, workers: Iterable[Peer], now: float) -> list[Peer]:
        return [peer for peer in super().decide(workers, now) if peer.slots.request.slots]


class ForgetfulSwitchboard(Switchboard):
    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.dispatcher.sharing = ForgetfulSharing(self.waiting)


class SwitchedForeman(Foreman):
    """A foreman with another switchboard."""

    switchboard_class: Callable[[float], Switchboard] = Switchboard

    def __init__(
        self, reactor: Reactor, now: float, watcher: PeerLog | None = None, max_silent: int = MAX_SILENT_LINKS
    ) -> None:
        super().__init__(reactor, now, watcher, max_silent)
        self.switchboard = type(self).switchboard_class(now)


class GenerousForeman(SwitchedForeman):
    switchboard_class = GenerousSwitchboard


class RepeatingForeman(SwitchedForeman):
    switchboard_class = RepeatingSwitchboard


class ForgetfulForeman(SwitchedForeman):
    switchboard_class = ForgetfulSwitchboard


class WallClockLiveness(Liveness):
    reactor: Reactor

    def _cut_silent(self, now: float) -> None:
        super()._cut_silent(now + self.reactor.clocks.wall_ahead)


class WallClockForeman(Foreman):
    """Measures silence by the wall clock."""

    def __init__(
        self, reactor: Reactor, now: float, watcher: PeerLog | None = None, max_silent: int = MAX_SILENT_LINKS
    ) -> None:
        super().__init__(reactor, now, watcher, max_silent)
        self.liveness = WallClockLiveness(self.links, reactor.workers, self._peer_log, max_silent)
        self.liveness.reactor = reactor

    def on_data(self, link: Link, data: bytes, now: float) -> None:
        super().on_data(link, data, now)
        if link.peer.worker is not None:
            link.peer.worker.last_heard = now + self.reactor.clocks.wall_ahead


class StubbornForeman(Foreman):
    """Tells clients that nothing was accepted, and keeps it all the same."""

    def on_commit_failed(self, batch: Batch, now: float) -> Withdrawal:
        records = [*batch.records, *self.batch.records]
        new = super().on_commit_failed(batch, now)
        batch.records = records
        return new


class DeafForeman(Foreman):
    """Ignores what a returning worker reports, and runs everything again."""

    def on_cut(self, link: Link, now: float) -> None:
        super().on_cut(link, now)
        self.batch.add(self.reactor.on_gone(link.worker, now))


class OptimisticForeman(Foreman):
    """Takes for running what a worker was only given."""

    def perform(self, send: Send, inputs: Inputs, now: float) -> None:
        super().perform(send, inputs, now)
        if isinstance(send, Give):
            attempts = [assignment.attempt for assignment in send.assignments]
            self.batch.add(self.reactor.on_begun(send.worker, attempts, now))


class UnlinkedForeman(Foreman):
    """Starts tasks whatever they need."""

    def __init__(self, reactor: Reactor, *args: Any, **options: Any) -> None:
        super().__init__(reactor, *args, **options)
        reactor.linking.link = lambda *_: []  # type: ignore[method-assign]


class CarelessClock(ForemanProgram):
    """Waits for everything by the wall clock."""

    @property
    def now(self) -> float:
        super().now  # noqa: B018 - the reactor hears of the wall clock
        return self.simulation.now + self.wall_ahead


def make_program(foreman: type[Foreman]) -> type[ForemanProgram]:
    return type(foreman.__name__, (ForemanProgram,), {"foreman_class": foreman})


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        pytest.param(SendsBeforeItRecords, Law.STORE_FIRST, id="send before record"),
        pytest.param(make_program(GenerousForeman), Law.SLOTS, id="a slot given twice"),
        pytest.param(make_program(RepeatingForeman), Law.ANSWERED, id="a call answered twice"),
        pytest.param(make_program(ForgetfulForeman), Law.ENDS, id="a lent slot forgotten"),
        pytest.param(make_program(WallClockForeman), Law.SILENCE, id="silence by the wall clock"),
        pytest.param(make_program(StubbornForeman), Law.KEPT, id="a refused job kept"),
        pytest.param(make_program(DeafForeman), Law.ONCE, id="what finished runs again"),
        pytest.param(make_program(OptimisticForeman), Law.RUNNING, id="running before it began"),
        pytest.param(make_program(UnlinkedForeman), Law.LINKED, id="tasks before what they need"),
        pytest.param(CarelessClock, Law.PATIENCE, id="patience by the wall clock"),
    ],
)
def test_a_broken_foreman_is_caught(broken: type[ForemanProgram], law: Law) -> None:
    found: list[Law] = []
    for seed in range(MAX_SEEDS):
        try:
            Crew(seed, program_class=broken).run()
        except BrokenLaw as error:
            found.append(error.law)
            if error.law is law:
                break
    assert law in found, f"only {sorted(set(found))}"
