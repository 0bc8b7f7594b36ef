"""Which calls viewers are shown: those that run for a while, and those that took one. Each that began ends."""

from tests.crews import ClientSeat, Crew, WorkerSeat

from gandy.core.call_meter import BRIEF_SECONDS, EACH, LONG_SECONDS, CallMeter
from gandy.core.views import CallSpan
from gandy.limits import MAX_CALL_SPANS, MAX_GLANCES
from gandy.wire import calls

AHEAD = 1_000.0  # of the wall clock, so that no time is mistaken for one of the monotonic clock
DONE = b"done"


class Metered:
    """A crew whose calls viewers look at."""

    def __init__(self, slots: int = 4) -> None:
        self.crew = Crew()
        self.meter = self.crew.board.output.meter = CallMeter()
        self.client: ClientSeat = self.crew.client()
        self.worker: WorkerSeat = self.crew.worker(slots=slots)
        self.crew.board.now = 1.0

    def feed(self, *seqs: int) -> None:
        """Calls that come together."""
        target = calls.encode_target("ping")
        self.client.feed(b"".join(calls.encode(calls.CALL, 0, seq, 0, target) for seq in seqs))

    def answer(self, *numbers: int) -> None:
        flags = calls.LAST | calls.WHOLE
        self.worker.feed(b"".join(calls.encode(calls.RESULT, flags, number, 0, DONE) for number in numbers))

    def take(self, seconds: float = 0.0) -> list[CallSpan]:
        """What viewers are told after so long."""
        self.crew.board.now += seconds
        self.meter.look(self.crew.board.dispatcher.offers.workers.values(), self.crew.board.now)
        return list(self.meter.take(self.crew.board.now, AHEAD))


def test_call_is_shown_when_it_has_run_for_a_while_and_when_it_ends() -> None:
    metered = Metered()
    metered.feed(7)
    assert metered.take(LONG_SECONDS / 2) == []
    (span,) = metered.take(LONG_SECONDS)
    assert span == CallSpan(metered.worker.peer.id, 0, "ping", AHEAD + 1.0)
    assert metered.meter.list_running() == (span,)
    assert metered.take(5.0) == []
    metered.crew.board.now = 9.0
    metered.answer(0)
    assert metered.take(1.0) == [CallSpan(span.worker, 0, "ping", AHEAD + 1.0, AHEAD + 9.0)]
    assert metered.meter.list_running() == ()


def test_call_that_took_a_moment_is_shown_once_and_a_short_one_never() -> None:
    metered = Metered()
    metered.feed(1)
    metered.crew.board.now += BRIEF_SECONDS / 2
    metered.answer(0)
    metered.feed(2)
    metered.crew.board.now += BRIEF_SECONDS * 2
    metered.answer(1)
    (span,) = metered.take()
    assert (span.number, span.began, span.ended) == (1, AHEAD + 1.005, AHEAD + 1.025)


def test_call_that_was_not_timed_is_shown_from_when_it_was_seen() -> None:
    metered = Metered()
    metered.feed(1, 2, 3)  # the first is timed
    assert metered.take(0.05) == []
    assert [span.number for span in metered.take(0.06)] == [0]
    assert [(span.number, span.began) for span in metered.take(0.05)] == [(1, AHEAD + 1.05), (2, AHEAD + 1.05)]
    metered.crew.board.now = 3.0
    metered.answer(1, 2)
    assert [(span.number, span.ended) for span in metered.take()] == [(1, AHEAD + 3.0), (2, AHEAD + 3.0)]
    assert sum(metered.crew.board.dispatcher.offers.commands[b"ping"].list_buckets()) == 0  # its time is not known


def test_failed_call_is_shown_as_failed() -> None:
    metered = Metered()
    metered.client.call(1)
    metered.worker.take()
    metered.take(LONG_SECONDS)
    metered.worker.say(calls.RESULT, calls.LAST | calls.FAILED, 0, 0, b"")
    (span,) = metered.take()
    assert (span.has_failed, span.state.name) == (True, "FAILED")


def test_call_that_waited_begins_when_it_is_sent() -> None:
    metered = Metered(slots=1)
    metered.feed(1)
    metered.client.call(2)
    metered.crew.board.now = 5.0
    metered.answer(0)
    assert [(span.number, span.began, span.ended) for span in metered.take()] == [(0, AHEAD + 1.0, AHEAD + 5.0)]
    assert [(span.number, span.began, span.ended) for span in metered.take(1.0)] == [(1, AHEAD + 5.0, None)]


def test_call_that_is_lost_ends_too() -> None:
    metered = Metered()
    metered.feed(1)
    metered.take(LONG_SECONDS)
    metered.feed(EACH)
    metered.worker.cut()
    (span,) = metered.take(1.0)
    assert (span.number, span.ended, span.has_failed) == (0, AHEAD + metered.crew.board.now, True)
    assert metered.take(1.0) == []
    command = metered.crew.board.dispatcher.offers.commands[b"ping"]
    assert (command.ended, command.failed) == (2, 2)


def test_call_that_ends_before_viewers_are_told_that_it_runs_is_told_once() -> None:
    metered = Metered()
    metered.feed(1)
    metered.crew.board.now += LONG_SECONDS
    metered.meter.look([metered.worker.peer], metered.crew.board.now)
    metered.answer(0)
    assert [span.ended for span in metered.take()] == [AHEAD + 1.1]


def test_of_many_calls_some_are_shown_and_each_of_these_ends() -> None:
    metered = Metered(slots=3 * MAX_CALL_SPANS)
    metered.feed(*range(1, 3 * MAX_CALL_SPANS + 1))
    metered.take()
    begun = metered.take(LONG_SECONDS)
    assert len(begun) == MAX_CALL_SPANS
    metered.answer(*range(3 * MAX_CALL_SPANS))
    ended = metered.take()
    assert {span.number for span in begun} <= {span.number for span in ended}
    assert len(ended) == 2 * MAX_CALL_SPANS
    assert metered.take() == []


def test_calls_for_which_an_update_has_no_room_are_shown_in_the_next() -> None:
    count = MAX_CALL_SPANS + 5
    metered = Metered(slots=count)
    metered.feed(*range(1, count + 1))
    metered.take()
    assert [len(metered.take(LONG_SECONDS)) for _ in range(3)] == [MAX_CALL_SPANS, 5, 0]


def test_update_has_no_more_ends_than_fit() -> None:
    count = MAX_GLANCES + 5
    metered = Metered(slots=count)
    metered.feed(*range(1, count + 1))
    metered.take()
    while metered.take(LONG_SECONDS):
        pass
    assert len(metered.meter.list_running()) == count
    metered.answer(*range(count))
    assert [len(metered.take()) for _ in range(3)] == [MAX_GLANCES, 5, 0]
    for how in ("_ended", "_lost"):
        assert getattr(metered.meter, how) == []


def test_meter_that_begins_later_shows_what_runs() -> None:
    metered = Metered()
    metered.feed(1)
    metered.take(LONG_SECONDS)
    metered.meter = metered.crew.board.output.meter = CallMeter()
    (span,) = metered.take()
    assert (span.began, span.state.name) == (AHEAD + 1.0, "RUNNING")
