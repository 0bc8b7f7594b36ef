"""What viewers of a shard get: everything once, then what has changed in jobs, workers, commands and attempts."""

import pytest
from msgspec.structs import replace
from tests.served import ServedForeman

from gandy.core import live_view as subject
from gandy.core import requests as ask
from gandy.core.extensions import FOREMAN_OFFERS, LOAD, MachineLoad, encode
from gandy.core.links import Link
from gandy.core.live_view import LOOK_PERIOD, QUIET_SECONDS, LiveView
from gandy.core.model import Counts, JobSpec, TaskState
from gandy.core.roles import CrewRole
from gandy.core.views import CallSpan, CommandGlance, CrewUpdate, Totals, WorkerGlance
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId
from gandy.limits import MAX_TEXT
from gandy.wire import calls, v2
from gandy.wire.calls import Offer
from gandy.wire.messages import About, Extended, Extension, Hello

ONE = JobId(1)
PING = calls.encode_target("ping")


class Viewed(ServedForeman):
    def __init__(self) -> None:
        super().__init__()
        self.open()

    def open(self) -> None:
        self.view = LiveView(self.foreman, self.standing)
        self.on_commit = self.view.on_records

    def look(self) -> CrewUpdate:
        """All that there is to see now."""
        return self.view.make_whole(self.now, None)

    def take(self) -> CrewUpdate:
        update = self.view.take(self.now, None)
        assert update is not None
        return update

    def check_quiet(self) -> None:
        """There is nothing that viewers do not know."""
        assert self.view.take(self.now, None) is None

    def submit(self, tasks: int = 1) -> JobId:
        return JobId(self.ask(ask.Submit(JobSpec(command="true", tasks=tasks))).job)

    def offer(self, link: Link, *names: str, slots: int = 2) -> None:
        payload = calls.encode_announcement(slots, 0, [Offer(name) for name in names])
        self.foreman.on_data(link, calls.encode(calls.ANNOUNCE, 0, 0, 0, payload), self.now)

    def caller(self) -> Link:
        link = self.connect()
        offers = Extension.ATOMIC | Extension.CLIENT | Extension.CALLS
        self.foreman.on_data(link, v2.encode(0, Hello(0, (), offers)), self.now)
        return link

    def call(self, client: Link, seq: int) -> None:
        self.foreman.on_data(client, calls.encode(calls.CALL, 0, seq, 0, PING), self.now)

    def answer(self, worker: Link, number: int, flags: int = calls.WHOLE) -> None:
        self.foreman.on_data(worker, calls.encode(calls.RESULT, calls.LAST | flags, number, 0, b""), self.now)


@pytest.fixture
def viewed() -> Viewed:
    return Viewed()


def test_a_viewer_gets_everything_that_there_is() -> None:
    viewed = Viewed()
    viewed.offer(viewed.worker(), "ping")
    viewed.submit(3)
    viewed.standing.trouble, viewed.standing.shards = "disk full", (1, 4)
    update = viewed.view.make_whole(viewed.now, 7.5)
    assert (update.is_whole, update.shard, update.at, update.shared_ahead) == (True, 0, 100.0, 7.5)
    assert update.version == "1"
    assert ([job.counts for job in update.jobs], update.unfinished) == ([Counts(waiting=1, assigned=2)], 1)
    assert [(worker.id, worker.used, worker.waiting) for worker in update.workers] == [("w-1", 2, 2)]
    assert update.commands == (CommandGlance("ping", 1, 0),)
    assert (update.trouble, update.shards) == ("disk full", (1, 4))
    assert ask.decode_answer(ask.encode(update)) == update


def test_what_has_not_changed_is_not_sent_again(viewed: Viewed) -> None:
    viewed.offer(viewed.worker(), "ping")
    viewed.submit()
    update = viewed.take()
    assert (len(update.jobs), len(update.workers), len(update.commands), update.is_whole) == (1, 1, 1, False)
    viewed.check_quiet()
    viewed.ask(ask.HoldJob(ONE))
    update = viewed.take()
    assert (len(update.jobs), update.workers, update.commands, update.spans) == (1, (), (), ())


def test_counts_are_in_every_update(viewed: Viewed) -> None:
    viewed.submit(5)
    update = viewed.take()
    assert (update.waiting, update.assigned, update.running, update.unfinished) == (5, 0, 0, 1)
    viewed.worker()
    update = viewed.take()
    assert (update.waiting, update.assigned) == (3, 2)


def test_attempts_are_spans_and_totals(viewed: Viewed) -> None:
    viewed.worker()
    viewed.submit(2)
    viewed.foreman.batch.add(viewed.foreman.reactor.on_begun("w-1", list(viewed.foreman.reactor.owners), viewed.now))
    viewed.pump()
    assert [(span.worker, span.task, span.state) for span in viewed.take().spans] == [
        ("w-1", 1, TaskState.RUNNING),
        ("w-1", 2, TaskState.RUNNING),
    ]
    viewed.end(1, 1)
    update = viewed.take()
    assert ([span.state for span in update.spans], update.totals) == ([TaskState.FINISHED], Totals(finished=1))
    assert [span.task for span in viewed.look().spans] == [2]


@pytest.mark.parametrize(
    "change",
    [
        lambda viewed: setattr(viewed.standing, "trouble", "x" * 2 * MAX_TEXT),
        lambda viewed: setattr(viewed.standing, "shards", (1, 2)),
        lambda viewed: viewed.foreman.reactor.control.submit(JobSpec(command="true"), 1.0),
    ],
    ids=["trouble", "shards", "jobs that the store does not have yet"],
)
def test_what_belongs_to_nothing_else_is_a_change_too(viewed: Viewed, change: object) -> None:
    viewed.take()
    viewed.check_quiet()
    change(viewed)  # type: ignore[operator]
    update = viewed.take()
    assert ask.decode_answer(ask.encode(update)) == update
    viewed.check_quiet()


def test_attempts_that_are_skipped_are_a_change(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.spans.MAX_SPANS", 0)
    viewed.worker()
    viewed.submit()
    viewed.take()
    viewed.view._spans._skipped = 3
    assert viewed.take().skipped == 3
    viewed.check_quiet()


def test_what_is_taken_back_is_not_shown_any_more(viewed: Viewed) -> None:
    number, _ = viewed.foreman.reactor.control.submit(JobSpec(command="true"), 1.0)
    viewed.open()
    assert [job.job for job in viewed.look().jobs] == [number]
    viewed.foreman.reactor.control.withdraw(new := Withdrawal(jobs={number}), 1.0)
    viewed.view.on_withdrawal(new)
    assert viewed.take().forgotten == (number,)


# Workers


def test_a_worker_is_shown_with_all_that_there_is_to_know(viewed: Viewed) -> None:
    link = viewed.connect("link", CrewRole.OWNER)
    about = About("hut-7", "hut", 3, ("gpu", "big"), "1.2")
    viewed.foreman.on_data(link, v2.encode(0, Hello(3, (), FOREMAN_OFFERS & ~Extension.CLIENT, about)), viewed.now)
    viewed.foreman.reactor.on_capacity("hut-7", 2, 0, "memory")
    busy = MachineLoad(3.5, 8, 5, 9)
    viewed.foreman.on_data(link, v2.encode(0, Extended(LOAD, encode(busy))), viewed.now)
    viewed.pump()
    assert viewed.take().workers == (
        WorkerGlance("hut-7", "hut", 2, 0, 0, 0, 0, True, False, 0.0, "memory", ("big", "gpu"), "1.2", False, busy),
    )


def test_silence_is_shown_when_it_is_longer_than_usual(viewed: Viewed) -> None:
    viewed.worker()
    viewed.take()
    viewed.now += QUIET_SECONDS
    viewed.check_quiet()
    viewed.now += 1.7
    assert [worker.silent_seconds for worker in viewed.take().workers] == [6.0]
    viewed.now += 0.1
    viewed.check_quiet()


def test_a_worker_that_is_away_is_shown_until_it_is_gone(viewed: Viewed) -> None:
    link = viewed.worker()
    viewed.submit()
    viewed.take()
    viewed.foreman.on_cut(link, viewed.now)
    assert [worker.connected for worker in viewed.take().workers] == [False]
    viewed.now += 11.0
    viewed.foreman.on_time(viewed.now)
    viewed.pump()
    assert viewed.take().left == ("w-1",)
    viewed.check_quiet()


def test_many_workers_are_looked_at_less_often(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MANY_WORKERS", 1)
    viewed.worker("a")
    viewed.worker("b")
    assert len(viewed.take().workers) == 2
    viewed.worker("c")
    viewed.check_quiet()
    viewed.now += LOOK_PERIOD
    assert [worker.name for worker in viewed.take().workers] == ["c"]


def test_workers_that_do_not_fit_come_with_the_next_update(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "ROW_BYTES", 2_500_000)
    for name in "abc":
        viewed.worker(name)
    assert len(viewed.look().workers) == 1
    assert [worker.name for _ in range(3) for worker in viewed.take().workers] == ["a", "b", "c"]
    viewed.check_quiet()


# Commands


def test_calls_are_counted_while_a_viewer_looks(viewed: Viewed) -> None:
    worker, client = viewed.worker(), viewed.caller()
    viewed.offer(worker, "ping")
    assert viewed.take().commands == (CommandGlance("ping", 1, 0),)
    viewed.call(client, 1)
    viewed.now += 0.000_100
    viewed.answer(worker, 0)
    update = viewed.take()
    (glance,) = update.commands
    assert (glance.ended, glance.failed, sum(glance.buckets), len(glance.buckets)) == (1, 0, 1, 23)
    assert update.totals.calls == 1
    viewed.view.close()
    viewed.call(client, 2)
    viewed.answer(worker, 1)
    viewed.open()
    assert viewed.look().commands == (glance,)
    assert viewed.take().totals.calls == 0  # that this view has seen


def test_calls_that_run_are_shown_by_the_wall_clock(viewed: Viewed) -> None:
    worker, client = viewed.worker(), viewed.caller()
    viewed.offer(worker, "ping")
    viewed.foreman.reactor.clocks.wall_ahead = 500.0
    viewed.call(client, 1)
    began = 500.0 + viewed.now
    viewed.now += 2.0
    (span,) = viewed.take().calls
    assert span == CallSpan("w-1", 0, "ping", began)
    assert viewed.look().calls == (span,)
    viewed.now += 1.0
    viewed.answer(worker, 0)
    assert viewed.take().calls == (replace(span, ended=began + 3.0),)
    assert viewed.look().calls == ()


def test_calls_that_wait_are_shown(viewed: Viewed) -> None:
    worker, client = viewed.worker(slots=1), viewed.caller()
    viewed.offer(worker, "ping", slots=1)
    viewed.take()
    for seq in (1, 2, 3):
        viewed.call(client, seq)
    update = viewed.take()
    assert (update.calls_waiting, update.commands[0].waiting, update.workers[0].calls) == (2, 2, 1)


def test_a_command_that_no_worker_offers_any_more_is_gone(viewed: Viewed) -> None:
    worker, client = viewed.worker(), viewed.caller()
    viewed.offer(worker, "ping", "echo")
    viewed.call(client, 1)
    viewed.answer(worker, 0)
    viewed.take()
    viewed.offer(worker)
    update = viewed.take()
    assert update.gone == ("echo",)
    assert [(each.name, each.workers, each.ended) for each in update.commands] == [("ping", 0, 1)]
    viewed.now += 60.0
    viewed.foreman.on_call_time(viewed.now)
    assert viewed.take().gone == ("ping",)
    viewed.offer(worker, "ping")
    viewed.call(client, 2)
    viewed.answer(worker, 1)
    assert viewed.take().totals.calls == 2  # a new count, from zero


def test_a_command_that_came_back_is_counted_anew(viewed: Viewed) -> None:
    """It was gone and is here again between two updates."""
    worker, client = viewed.worker(), viewed.caller()
    viewed.offer(worker, "ping")
    for seq in range(3):
        viewed.call(client, seq)
        viewed.answer(worker, seq)
    viewed.take()
    viewed.offer(worker)
    viewed.now += 60.0
    viewed.foreman.on_call_time(viewed.now)
    viewed.offer(worker, "ping")
    viewed.call(client, 9)
    viewed.answer(worker, 3)
    assert viewed.take().totals.calls == 4


def test_names_that_are_no_commands_are_not_shown(viewed: Viewed) -> None:
    """A place is kept for them, because their workers may come back."""
    viewed.foreman.switchboard.dispatcher.expect_command(viewed.caller().peer, 0, 1, b"\4what", viewed.now)
    assert viewed.look().commands == ()
