"""Both tables, read as what they promise, and the worker side on a clock of paper."""

from collections.abc import Mapping
from enum import Enum
from math import inf
from pathlib import Path

import pytest

from gandy.doors.pingpong.limits import MAX_BODY_BYTES, MAX_WAITING_JOBS
from gandy.doors.pingpong.talk import (
    BROKER_LAW,
    BROKER_TIMEOUT,
    HAS_JOB,
    N_TIMEOUTS,
    PING_PERIOD,
    WORKER_LAW,
    BrokerEvent,
    PingPongWorker,
    SideState,
    Turn,
    WorkerEvent,
    WorkerState,
)
from gandy.doors.pingpong.wire import Exit, PingPongJob
from gandy.errors import LocalProtocolError, RemoteProtocolError

READY, PING, PONG, EXIT = [b"", b"READY"], [b"", b"PING"], [b"", b"PONG"], [b"", b"EXIT"]
HEARD = (BrokerEvent.READY, BrokerEvent.PING, BrokerEvent.NOISE)

# The broker's table


@pytest.mark.parametrize("state", WorkerState)
def test_ready_makes_ready_unless_the_worker_is_to_leave(state: WorkerState) -> None:
    after = BROKER_LAW[state, BrokerEvent.READY]
    assert after is (WorkerState.GOING if state is WorkerState.LEAVING else WorkerState.READY)


def test_ping_makes_an_unknown_worker_ready_and_a_busy_one_never() -> None:
    assert BROKER_LAW[WorkerState.ABSENT, BrokerEvent.PING] is WorkerState.READY
    for state in HAS_JOB:
        assert BROKER_LAW[state, BrokerEvent.PING] in HAS_JOB
    assert BROKER_LAW[WorkerState.SILENT, BrokerEvent.PING] is WorkerState.BUSY


def test_a_job_is_given_to_a_ready_worker_only() -> None:
    assert {state for state, event in BROKER_LAW if event is BrokerEvent.JOB} == {WorkerState.READY}


def test_a_result_counts_from_a_worker_that_has_a_job_however_late() -> None:
    assert {state for state, event in BROKER_LAW if event is BrokerEvent.RESULT} == HAS_JOB
    for state in (WorkerState.BUSY, WorkerState.SILENT):
        assert BROKER_LAW[state, BrokerEvent.RESULT] is WorkerState.READY


def test_silence_removes_the_ready_and_takes_no_job_away() -> None:
    assert BROKER_LAW[WorkerState.READY, BrokerEvent.EXPIRED] is WorkerState.ABSENT
    for state in HAS_JOB - {WorkerState.SILENT}:
        assert BROKER_LAW[state, BrokerEvent.EXPIRED] in HAS_JOB


def test_exit_follows_the_result_or_comes_at_once() -> None:
    for state in HAS_JOB:
        assert BROKER_LAW[state, BrokerEvent.DISMISSED] is WorkerState.LEAVING
        assert BROKER_LAW[state, BrokerEvent.KILLED] is WorkerState.GOING
    assert BROKER_LAW[WorkerState.LEAVING, BrokerEvent.RESULT] is WorkerState.GOING
    for event in (BrokerEvent.DISMISSED, BrokerEvent.KILLED):
        assert BROKER_LAW[WorkerState.READY, event] is WorkerState.GOING


def test_a_ping_that_crossed_the_exit_brings_no_worker_back() -> None:
    assert BROKER_LAW[WorkerState.GOING, BrokerEvent.PING] is WorkerState.GOING
    assert BROKER_LAW[WorkerState.GOING, BrokerEvent.EXPIRED] is WorkerState.ABSENT


def test_a_worker_that_is_gone_is_absent() -> None:
    for state in set(WorkerState) - {WorkerState.ABSENT}:
        assert BROKER_LAW[state, BrokerEvent.GONE] is WorkerState.ABSENT


def test_a_known_worker_may_say_anything() -> None:
    for state in set(WorkerState) - {WorkerState.ABSENT}:
        assert all((state, event) in BROKER_LAW for event in HEARD)


def test_every_state_can_be_reached_and_left() -> None:
    assert set(BROKER_LAW.values()) == {state for state, _ in BROKER_LAW} == set(WorkerState)
    assert {state for state, _ in WORKER_LAW} == set(SideState) - {SideState.LEFT}
    assert set(WORKER_LAW.values()) == set(SideState) - {SideState.CLOSED}


def test_a_worker_does_not_leave_a_job_for_another_one() -> None:
    assert WORKER_LAW[SideState.BUSY, WorkerEvent.JOB] is SideState.BUSY
    assert WORKER_LAW[SideState.STALE, WorkerEvent.JOB] is SideState.STALE
    assert WORKER_LAW[SideState.BUSY, WorkerEvent.EXPIRED] is SideState.STALE


# The worker side


def begin(now: float = 0.0, counts: bool = False) -> PingPongWorker:
    worker = PingPongWorker(counts)
    assert worker.start(now) == READY
    return worker


def pass_time(worker: PingPongWorker, end: float) -> list[tuple[float, Turn]]:
    """Wake it whenever it wants to be woken."""
    turns = []
    while (now := worker.next_deadline()) <= end:
        turns.append((now, worker.on_time(now)))
    return turns


def test_constants_are_told_in_the_docs() -> None:
    assert (BROKER_TIMEOUT, N_TIMEOUTS, PING_PERIOD) == (2.5, 3, 1.0)


def test_a_worker_that_has_not_begun_does_nothing() -> None:
    worker = PingPongWorker()
    assert worker.next_deadline() == inf
    assert worker.on_time(100.0) == Turn()
    assert worker.on_frames([b"", b"work"], 100.0) is None


def test_it_begins_once() -> None:
    worker = begin()
    with pytest.raises(LocalProtocolError, match="a worker that is idle cannot have: start"):
        worker.start(1.0)


def test_ping_every_second() -> None:
    worker = begin(10.0)
    turns = []
    for now in (11.0, 12.0, 13.0, 14.0):
        turns += pass_time(worker, now)
        assert worker.on_frames(PONG, now) is None
    assert turns == [(now, Turn(messages=(PING,))) for now in (11.0, 12.0, 13.0, 14.0)]
    assert worker.pings == 4


def test_pings_carry_their_count_if_asked_to() -> None:
    worker = begin(counts=True)
    assert [turn.messages for _, turn in pass_time(worker, 2.0)] == [([b"", b"PING", b"1"],), ([b"", b"PING", b"2"],)]
    assert worker.on_frames([b"", b"PONG", b"2"], 2.0) is None


def test_too_early_is_nothing_and_late_is_one_ping() -> None:
    worker = begin()
    assert worker.on_time(0.9) == Turn()
    assert worker.on_time(2.4) == Turn(messages=(PING,))
    assert worker.on_time(2.4) == Turn()
    assert worker.next_deadline() == 2.5


def test_silence_of_the_broker_renews_the_frontend() -> None:
    worker = begin()
    turns = pass_time(worker, 7.5)
    assert [now for now, turn in turns if turn.is_renewed] == [7.5]
    assert turns[-1] == (7.5, Turn(True, (READY,)))
    assert [now for now, turn in pass_time(worker, 15.0) if turn.is_renewed] == [15.0]


@pytest.mark.parametrize("frames", [PONG, [b"", b"work"], [b"nonsense"]])
def test_any_message_is_a_sign_of_life(frames: list[bytes]) -> None:
    worker = begin()
    pass_time(worker, 7.4)
    try:
        worker.on_frames(frames, 7.4)
    except RemoteProtocolError:
        assert frames == [b"nonsense"]
    assert not any(turn.is_renewed for _, turn in pass_time(worker, 7.4 + 7.4))
    assert pass_time(worker, 7.4 + 7.5)[-1][1].is_renewed


def test_a_long_sleep_counts_as_one_period() -> None:
    """A machine that was suspended has not read yet what the broker said."""
    worker = begin()
    assert worker.on_time(1000.0) == Turn(messages=(PING,))
    assert not worker.on_time(1002.5).is_renewed
    assert worker.on_time(1005.0).is_renewed


def test_job_and_result() -> None:
    worker = begin()
    assert worker.on_frames([b"", b"work"], 1.0) == PingPongJob(b"work")
    assert worker.result(b"done", 2.0) == [b"", b"done"]
    assert worker.state is SideState.IDLE
    assert worker.next_job() is None


def test_a_busy_worker_keeps_pinging() -> None:
    worker = begin()
    worker.on_frames([b"", b"work"], 0.5)
    assert worker.on_time(1.0) == Turn(messages=(PING,))


def test_words_of_workers_are_jobs_like_any_other() -> None:
    worker = begin()
    assert worker.on_frames(READY, 0.0) == PingPongJob(b"READY")


def test_jobs_of_a_busy_worker_wait_in_order() -> None:
    """A broker may put a worker that says PING into its queue of ready workers."""
    worker = begin()
    assert worker.on_frames([b"", b"a"], 0.0) == PingPongJob(b"a")
    assert worker.on_frames([b"", b"b"], 0.0) is None
    assert worker.on_frames([b"", b"c"], 0.0) is None
    assert worker.next_job() is None
    assert worker.result(b"A", 1.0) == [b"", b"A"]
    assert worker.on_frames([b"", b"d"], 1.0) == PingPongJob(b"b")
    assert worker.result(b"B", 2.0) == [b"", b"B"]
    assert worker.next_job() == PingPongJob(b"c")
    assert worker.result(b"C", 3.0) == [b"", b"C"]
    assert worker.next_job() == PingPongJob(b"d")


def test_not_too_many_jobs_wait() -> None:
    worker = begin()
    for _ in range(1 + MAX_WAITING_JOBS + 2):
        worker.on_frames([b"", b"work"], 0.0)
    assert worker.dropped == 2


@pytest.mark.parametrize("word", [b"READY", b"PING"])
def test_a_result_that_is_a_word_becomes_an_error_text(word: bytes) -> None:
    worker = begin()
    worker.on_frames([b"", b"work"], 0.0)
    frames = worker.result(word, 1.0)
    assert frames == [
        b"",
        b"ERROR the result cannot be sent: the bytes %s are a word of the protocol, and would be taken for it" % word,
    ]


@pytest.mark.parametrize("word", [b"PONG", b"EXIT"])
def test_words_of_brokers_are_results_like_any_other(word: bytes) -> None:
    worker = begin()
    worker.on_frames([b"", b"work"], 0.0)
    assert worker.result(word, 1.0) == [b"", word]


def test_a_result_that_is_too_long_becomes_an_error_text() -> None:
    worker = begin()
    worker.on_frames([b"", b"work"], 0.0)
    frames = worker.result(bytes(MAX_BODY_BYTES + 1), 1.0)
    assert frames is not None
    assert frames[1].startswith(b"ERROR the result cannot be sent: 16,777,217 bytes are too many")
    worker.on_frames([b"", b"work"], 1.0)
    assert worker.result(bytes(MAX_BODY_BYTES), 2.0) == [b"", bytes(MAX_BODY_BYTES)]


def test_a_result_without_a_job_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        begin().result(b"done", 1.0)


def test_exit_ends_everything() -> None:
    worker = begin()
    assert worker.on_frames([b"", b"work"], 0.0) == PingPongJob(b"work")
    assert worker.on_frames([b"", b"more"], 0.0) is None
    assert worker.on_frames(EXIT, 1.0) == Exit()
    assert worker.state is SideState.LEFT
    assert worker.next_deadline() == inf
    assert worker.on_time(100.0) == Turn()
    assert worker.on_frames([b"", b"work"], 100.0) is None
    assert worker.result(b"done", 100.0) is None
    assert worker.next_job() is None


def make_stale() -> PingPongWorker:
    """Busy, one job waits, and the broker is silent."""
    worker = begin()
    worker.on_frames([b"", b"work"], 0.0)
    worker.on_frames([b"", b"waits"], 0.0)
    turns = pass_time(worker, 100.0)
    assert turns[-1] == (7.5, Turn(True))
    assert worker.state is SideState.STALE
    return worker


def test_a_busy_worker_renews_its_frontend_and_says_ready_when_it_is() -> None:
    worker = make_stale()
    assert (worker.next_deadline(), worker.on_time(50.0)) == (inf, Turn())
    assert worker.result(b"an answer to no job", 60.0) == READY
    assert worker.next_job() is None
    assert worker.dropped == 1
    assert [now for now, _ in pass_time(worker, 62.0)] == [61.0, 62.0]
    assert pass_time(worker, 67.5)[-1] == (67.5, Turn(True, (READY,)))


def test_a_result_goes_to_the_frontend_of_its_job() -> None:
    worker = make_stale()
    assert worker.on_frames([b"", b"next"], 20.0) is None
    assert worker.on_frames(PONG, 20.0) is None
    assert worker.next_deadline() == inf
    assert worker.result(b"an answer to no job", 30.0) is None
    assert worker.next_job() == PingPongJob(b"next")
    assert worker.next_deadline() == 31.0
    assert worker.result(b"done", 31.0) == [b"", b"done"]


def test_exit_reaches_a_worker_whose_job_is_stale() -> None:
    worker = make_stale()
    assert worker.on_frames(EXIT, 20.0) == Exit()
    assert worker.result(b"an answer to no job", 30.0) is None


def test_a_cut_that_is_seen_renews_the_frontend_at_once() -> None:
    worker = begin()
    assert worker.on_disconnect(3.0) == Turn(True, (READY,))
    assert worker.next_deadline() == 4.0
    worker.on_frames([b"", b"work"], 3.0)
    assert worker.on_disconnect(3.5) == Turn(True)
    assert worker.on_disconnect(3.6) == Turn()
    assert worker.result(b"an answer to no job", 4.0) == READY


def test_a_cut_means_nothing_before_the_start_and_after_the_end() -> None:
    worker = PingPongWorker()
    assert worker.on_disconnect(0.0) == Turn()
    worker.start(0.0)
    worker.on_frames(EXIT, 1.0)
    assert worker.on_disconnect(2.0) == Turn()


def test_times_can_be_set() -> None:
    worker = PingPongWorker(broker_timeout=0.2, n_timeouts=2, ping_period=0.05)
    worker.start(0.0)
    assert worker.next_deadline() == 0.05
    turns = pass_time(worker, 0.4)
    assert turns[-1][0] == pytest.approx(0.4)
    assert turns[-1][1].is_renewed


# The docs


@pytest.mark.parametrize(("law", "events"), [(BROKER_LAW, BrokerEvent), (WORKER_LAW, WorkerEvent)])
def test_the_tables_in_the_docs_are_these(law: Mapping[tuple[Enum, Enum], Enum], events: type[Enum]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "protocol" / "pingpong.md").read_text()
    states = list(dict.fromkeys(state for state, _ in law))
    assert "| | " + " | ".join(state.value for state in states) + " |\n" in page
    for event in events:
        cells = (law[state, event].value if (state, event) in law else "" for state in states)
        assert f"| {event.value} | " + " | ".join(cells) + " |\n" in page
