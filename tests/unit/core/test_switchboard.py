"""The laws of calls, one by one. Time is a number, and frames go in and come out as they would on links."""

import pytest
from tests.crews import ClientSeat, Crew, Frame, WorkerSeat, a_full_crew

from gandy.core.call_dispatch import LAST_ID
from gandy.core.call_meter import EACH, CallMeter
from gandy.core.calls import OfferedCommand
from gandy.core.switchboard import Switchboard
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_CREDIT, MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import BUSY, FRAME_COST, MORE, WINDOW_BYTES

DONE = b"done"


# A call and its result


def test_a_call_goes_to_a_worker_and_its_result_comes_back() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    payload = calls.encode_target("ping") + b"body"
    client.say(calls.CALL, calls.PICKLED, 77, 0, payload)
    assert worker.hear() == [Frame(calls.CALL, calls.PICKLED, 0, 0, payload)]
    worker.say(calls.RESULT, calls.LAST | calls.FAILED, 0, 0, b"failure")
    assert client.hear() == [Frame(calls.RESULT, calls.LAST | calls.FAILED, 77, 0, b"failure")]
    assert client.peer.calls == worker.peer.serves == {}


def test_frames_of_one_step_leave_together() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=3)
    for seq in range(3):
        client.call(seq)
    assert crew.board.touched == {worker.peer}
    assert worker.take() == [0, 1, 2]
    worker.end(2, 0, 1)
    assert crew.board.touched == {client.peer}
    assert client.results() == [(2, DONE), (0, DONE), (1, DONE)]


def plain_calls(*seqs: int, name: str = "ping") -> bytes:
    target = calls.encode_target(name)
    return b"".join(calls.encode(calls.CALL, 0, seq, 0, target + b"%d" % seq) for seq in seqs)


def plain_results(*numbers: int) -> bytes:
    return b"".join(calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, number, 0, DONE) for number in numbers)


def test_calls_that_come_together_go_to_workers_in_turn() -> None:
    crew = Crew()
    client, first, second = crew.client(), crew.worker("w1", slots=4), crew.worker("w2", slots=4)
    client.feed(plain_calls(1, 2, 3, 4, 5))
    assert (first.take(), second.take()) == ([1, 3, 5], [2, 4])
    assert (first.account.slots.lent, second.account.slots.lent) == (3, 2)


def test_results_that_come_together_go_each_to_its_client() -> None:
    crew = Crew()
    first, second, worker = crew.client(), crew.client(), crew.worker(slots=4)
    for client, seqs in ((first, (1, 2)), (second, (1,)), (first, (3,))):
        client.feed(plain_calls(*seqs))
    assert [frame.seq for frame in worker.hear()] == [0, 1, 2, 3]
    worker.feed(plain_results(0, 2, 1, 3))
    assert (first.results(), second.results()) == ([(1, DONE), (2, DONE), (3, DONE)], [(1, DONE)])
    assert (worker.peer.slots.by_calls, worker.account.slots.lent) == (0, 0)


def test_each_call_that_ended_is_counted_once_however_it_ended() -> None:
    crew = Crew()
    client, worker, output = crew.client(), crew.worker(slots=4), crew.board.output
    client.feed(plain_calls(1, 2, 3, 4))
    client.call(5, age_ms=10)  # waits, and has little time
    worker.take()
    worker.feed(plain_results(0))
    worker.say(calls.RESULT, calls.LAST | calls.FAILED, 1, 0, b"failure")
    worker.take()
    assert output.ended == 2
    client.cancel(3)
    worker.take()
    assert output.ended == 2
    worker.end(3)
    assert output.ended == 3
    client.feed(plain_calls(6, 7, 8, 9))
    client.call(10, age_ms=10)
    crew.board.dispatcher.on_time(crew.board.now + 1.0)
    assert output.ended == 4
    worker.cut()  # with the calls that it has
    assert output.ended == 4 + 4


def test_calls_that_come_together_wait_where_no_slot_is_free() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2)
    client.feed(plain_calls(1, 2, 3, 4, 5))
    assert (worker.take(), crew.board.waiting.count) == ([1, 2], 3)
    worker.feed(plain_results(0, 1))
    assert (worker.take(), crew.board.waiting.count) == ([3, 4], 1)
    assert client.results() == [(1, DONE), (2, DONE)]


def test_whatever_stands_between_plain_frames_keeps_its_place() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    client.feed(plain_calls(1, 2) + calls.encode(calls.CANCEL, 0, 1) + plain_calls(3))
    assert [(frame.kind, frame.seq) for frame in worker.hear()] == [(0x40, 0), (0x40, 1), (0x44, 0), (0x40, 2)]
    worker.feed(plain_results(1) + plain_results(0) + plain_results(2))  # the client cancelled the one in the middle
    assert client.results() == [(2, DONE), (3, DONE)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (plain_calls(1, 1), ErrorCode.BAD_SEQ),
        (calls.encode(calls.CALL, 0, 1) + plain_calls(2), ErrorCode.BAD_PAYLOAD),
        (calls.encode(calls.CALL, 0, 1, 0, b"\4pin") + b"g" * 100, ErrorCode.BAD_PAYLOAD),
        (calls.encode(calls.CALL, 0, 1, 0, b"\0body"), ErrorCode.BAD_PAYLOAD),
    ],
    ids=["number twice", "no name", "name longer than the frame", "empty name"],
)
def test_plain_calls_that_make_no_sense_are_refused_as_any_other(data: bytes, code: ErrorCode) -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    with pytest.raises(RemoteProtocolError) as caught:
        client.feed(data)
    assert caught.value.code is code
    crew.board.dispatcher.check()
    assert len(worker.take()) == (1 if code is ErrorCode.BAD_SEQ else 0)


def test_a_plain_result_of_no_call_is_refused_as_any_other() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    client.feed(plain_calls(1))
    with pytest.raises(RemoteProtocolError, match="not in progress"):
        worker.feed(plain_results(0, 0))
    crew.board.dispatcher.check()
    assert client.results() == [(1, DONE)]


def test_two_clients_may_use_the_same_number() -> None:
    crew = Crew()
    one, other, worker = crew.client(), crew.client(), crew.worker(slots=2)
    one.call(5)
    assert worker.take() == [5]
    number = worker.numbers[5]
    other.call(5)
    assert worker.take() == [5]
    worker.end(5)
    assert (one.results(), other.results()) == ([], [(5, DONE)])
    worker.numbers[5] = number
    worker.end(5)
    assert (one.results(), other.results()) == ([(5, DONE)], [])


def test_pieces_come_in_order_and_the_slot_is_returned_with_the_last() -> None:
    _, client, worker = a_full_crew(waiting=1)
    worker.give(0, b"a")
    worker.give(0, b"b")
    assert worker.take() == []
    worker.end(0)
    assert client.results() == [(0, b"a"), (0, b"b"), (0, DONE)]
    assert worker.take() == [1]


def test_numbers_wrap_and_those_in_use_are_passed_over() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    client.call(1)
    worker.peer.next_id = LAST_ID
    client.call(2)
    client.call(3)
    assert worker.take() == [1, 2, 3]
    assert worker.numbers == {1: 0, 2: LAST_ID, 3: 1}


# Cancelling


def test_a_cancelled_call_that_waits_is_gone() -> None:
    crew, client, worker = a_full_crew(waiting=2)
    client.cancel(1)
    assert crew.board.waiting.count == 1
    worker.end(0)
    assert worker.take() == [2]
    assert client.results() == [(0, DONE)]


def test_a_cancelled_call_that_runs_keeps_its_slot_until_the_worker_says_so() -> None:
    _, client, worker = a_full_crew(waiting=1)
    client.cancel(0)
    assert worker.take_others() == [Frame(calls.CANCEL, 0, worker.numbers[0])]
    worker.give(0, b"a piece that was under way")
    worker.end(0)
    assert worker.take() == [1]
    assert client.results() == []


def test_what_is_not_under_way_cannot_be_cancelled() -> None:
    _, client, worker = a_full_crew()
    client.cancel(9)
    worker.end(0)
    client.cancel(0)
    assert worker.take_others() == []


def test_a_client_that_is_gone_frees_what_waits_and_cancels_what_runs() -> None:
    crew, client, worker = a_full_crew(waiting=2)
    other = crew.client()
    other.call(7)
    client.cut()
    assert crew.board.waiting.count == 1
    assert worker.take_others() == [Frame(calls.CANCEL, 0, worker.numbers[0])]
    worker.end(0)
    assert worker.take() == [7]
    assert client.peer.out == []
    assert client.peer not in crew.board.touched


def test_casts_outlive_their_client() -> None:
    _, client, worker = a_full_crew()
    client.cast(1)
    client.cut()
    worker.end(0)
    assert worker.take() == [1]


# Answers before the end


def test_a_worker_may_answer_and_keep_the_slot() -> None:
    crew, client, worker = a_full_crew(waiting=1)
    crew.board.on_answer(worker.peer, worker.numbers[0], calls.WHOLE, DONE)
    crew.board.dispatcher.check()
    assert client.results() == [(0, DONE)]
    assert worker.take() == []
    client.call(0)  # the number is free
    worker.end(0)
    assert worker.take() == [1]
    assert client.results() == []


def test_a_worker_may_return_the_slot_before_it_answers() -> None:
    crew, client, worker = a_full_crew(waiting=2)
    crew.board.release(worker.peer, worker.numbers[0])
    crew.board.dispatcher.check()
    assert worker.take() == [1]
    worker.end(0)
    assert client.results() == [(0, DONE)]
    assert worker.take() == []
    worker.end(1)
    assert worker.take() == [2]


def test_an_answer_to_no_call_is_dropped() -> None:
    crew, client, worker = a_full_crew()
    client.cancel(0)
    crew.board.on_answer(worker.peer, worker.numbers[0], calls.WHOLE, DONE)
    assert client.results() == []


# Casts


def test_a_cast_costs_a_slot_and_has_no_result() -> None:
    _, client, worker = a_full_crew()
    client.cast(0)
    client.cast(0)  # it needs no number of its own
    worker.end(0)
    assert worker.take() == [0]
    worker.give(0, b"a value for no client")
    worker.end(0)
    assert worker.take() == [0]
    worker.end(0)
    assert client.results() == [(0, DONE)]
    assert len(worker.peer.serves) == 0


def test_a_large_cast_is_known_until_all_of_it_has_come() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.cast(1, flags=MORE)
    assert worker.take() == [1]
    client.body(1, b"a")
    worker.credit(1, 1000)
    assert client.hear() == [Frame(calls.CREDIT, 0, 1, 1000)]
    client.body(1, b"b", last=True)
    number = worker.numbers[1]
    assert worker.take_others() == [
        Frame(calls.BODY, 0, number, 0, b"a"),
        Frame(calls.BODY, calls.LAST, number, 0, b"b"),
    ]
    assert client.peer.calls == {}
    worker.credit(1, 1000)
    worker.end(1)
    assert client.hear() == []


def test_a_large_cast_may_end_before_all_of_it_has_come() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.cast(1, flags=MORE)
    assert worker.take() == [1]
    worker.give(1, b"a value for no client")
    worker.end(1)
    assert client.results() == [(1, DONE)]  # it still sends, and must know
    client.body(1, b"late", last=True)
    assert (client.peer.calls, worker.take_others()) == ({}, [])


def test_a_large_cast_that_waits_outlives_its_client_only_if_all_of_it_has_come() -> None:
    _, client, worker = a_full_crew()
    for seq in (1, 2):
        client.cast(seq, flags=MORE)
    client.body(1, b"all", last=True)
    client.cut()
    worker.end(0)
    assert worker.take() == [1]


# Large arguments


def test_arguments_that_come_while_the_call_waits_follow_it() -> None:
    crew, client, worker = a_full_crew()
    client.call(1, flags=MORE)
    client.body(1, b"a")
    client.body(1, b"b", last=True)
    client.call(2)
    worker.end(0)
    assert worker.take() == [1]
    number = worker.numbers[1]
    assert worker.others[-2:] == [Frame(calls.BODY, 0, number, 0, b"a"), Frame(calls.BODY, calls.LAST, number, 0, b"b")]
    assert client.results() == [(0, DONE)]
    client.cancel(1)
    client.cancel(2)
    assert crew.board.waiting.count == 0


def test_arguments_of_a_call_that_is_over_are_dropped() -> None:
    _, client, worker = a_full_crew()
    client.body(9, b"of nothing")
    assert worker.take_others() == []


def test_arguments_that_are_complete_do_not_go_on() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.call(1)
    with pytest.raises(RemoteProtocolError, match="has all its arguments") as caught:
        client.body(1, last=True)
    assert caught.value.code is ErrorCode.BAD_STATE
    client.call(2, flags=MORE)
    client.body(2, last=True)
    with pytest.raises(RemoteProtocolError, match="has all its arguments"):
        client.body(2, last=True)
    client.cut()
    assert [frame.kind for frame in worker.hear()] == [calls.CALL, calls.CANCEL]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_arguments_are_sent_as_there_is_credit_and_one_frame_more(is_waiting: bool) -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2 - is_waiting)
    client.call(0)
    client.call(1, flags=MORE)
    pieces = WINDOW_BYTES // MAX_PIECE_BYTES
    for _ in range(pieces):
        client.body(1, bytes(MAX_PIECE_BYTES))
    with pytest.raises(RemoteProtocolError, match="more than it may") as caught:
        client.body(1)
    assert caught.value.code is ErrorCode.TOO_LONG
    client.cut()
    assert crew.board.waiting.count == 0
    bodies = [frame for frame in worker.hear() if frame.kind == calls.BODY]
    assert len(bodies) == (0 if is_waiting else pieces)


def test_credit_lets_arguments_go_on() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.call(1, flags=MORE)
    worker.take()
    for _ in range(8):
        client.body(1, bytes(MAX_PIECE_BYTES))
        worker.credit(1, MAX_PIECE_BYTES + FRAME_COST)
    assert client.hear() == 8 * [Frame(calls.CREDIT, 0, 1, MAX_PIECE_BYTES + FRAME_COST)]
    assert client.peer.calls[1].client_credit == WINDOW_BYTES
    worker.credit(1, LAST_ID)
    assert client.peer.calls[1].client_credit == MAX_CREDIT


def test_arguments_of_calls_that_wait_have_a_limit_together() -> None:
    crew, client, worker = a_full_crew(max_bytes=100)
    client.call(1, flags=MORE)
    client.cast(2, flags=MORE)
    client.cast(3, flags=MORE)
    client.body(1, bytes(50))
    client.body(2, bytes(50))
    assert (client.results(), crew.board.waiting.count) == ([(2, BUSY)], 2)
    client.body(3, bytes(50), last=True)
    assert (client.results(), crew.board.waiting.count) == ([], 1)  # no client waits for the end of a whole cast
    client.body(1, bytes(50))
    assert (client.results(), crew.board.waiting.count) == ([(1, BUSY)], 0)
    client.body(1, b"under way", last=True)
    worker.end(0)
    assert worker.take() == []


# Credit for results


def test_a_worker_may_send_as_there_is_credit_and_one_frame_more() -> None:
    _, client, worker = a_full_crew()
    for _ in range(WINDOW_BYTES // MAX_PIECE_BYTES):
        worker.give(0, bytes(MAX_PIECE_BYTES))
    assert client.peer.calls[0].credit <= 0
    with pytest.raises(RemoteProtocolError, match="more than it may") as caught:
        worker.give(0, b"")
    assert caught.value.code is ErrorCode.TOO_LONG


def test_small_values_cost_credit_too() -> None:
    _, _, worker = a_full_crew()
    for _ in range(WINDOW_BYTES // FRAME_COST):
        worker.give(0, b"")
    with pytest.raises(RemoteProtocolError, match="more than it may"):
        worker.give(0, b"")


def test_the_last_frame_needs_no_credit() -> None:
    _, client, worker = a_full_crew()
    client.peer.calls[0].credit = 0
    worker.end(0)
    assert client.results() == [(0, DONE)]


def test_credit_goes_from_the_client_to_its_worker() -> None:
    _, client, worker = a_full_crew()
    worker.give(0, bytes(1000))
    client.say(calls.CREDIT, 0, 0, 1000 + FRAME_COST)
    assert worker.take_others() == [Frame(calls.CREDIT, 0, worker.numbers[0], 1000 + FRAME_COST)]
    assert client.peer.calls[0].credit == WINDOW_BYTES
    client.say(calls.CREDIT, 0, 0, LAST_ID)
    assert client.peer.calls[0].credit == MAX_CREDIT


def test_credit_for_what_is_not_under_way_is_dropped() -> None:
    _, client, worker = a_full_crew(waiting=1)
    client.say(calls.CREDIT, 0, 1, 1000)
    client.say(calls.CREDIT, 0, 9, 1000)
    worker.say(calls.CREDIT, 0, 9, 1000)
    client.cancel(0)
    worker.credit(0, 1000)
    assert [frame.kind for frame in worker.take_others()] == [calls.CANCEL]
    assert client.hear() == []


# What the protocol forbids


def test_a_number_is_used_once_at_a_time() -> None:
    _, client, worker = a_full_crew(waiting=1)
    for seq in (0, 1):
        for flags in (0, calls.CAST | MORE):
            with pytest.raises(RemoteProtocolError, match="in progress already") as caught:
                client.call(seq, flags=flags)
            assert caught.value.code is ErrorCode.BAD_SEQ
    worker.end(0)
    client.call(0)
    client.cut()
    assert worker.take() == [1]


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x05ping", b"\xff"])
@pytest.mark.parametrize("now", [0.0, 100.0])
def test_a_call_without_a_name_is_refused(payload: bytes, now: float) -> None:
    crew = Crew(now)
    client, worker = crew.client(), crew.worker()
    with pytest.raises(RemoteProtocolError, match="without the name") as caught:
        client.say(calls.CALL, 0, 1, 0, payload)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    client.cut()
    assert worker.take() == []


@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x05w"])
def test_a_direct_call_without_a_worker_is_refused(rest: bytes) -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    with pytest.raises(RemoteProtocolError, match="without the name"):
        client.say(calls.CALL, calls.DIRECT, 1, 0, calls.encode_target("ping") + rest)
    client.cut()
    assert worker.take() == []


def test_a_result_of_nothing_is_refused() -> None:
    _, client, worker = a_full_crew()
    number = worker.numbers[0]
    worker.end(0)
    for seat in (worker, client):
        with pytest.raises(RemoteProtocolError, match="not in progress") as caught:
            seat.say(calls.RESULT, calls.LAST, number)
        assert caught.value.code is ErrorCode.BAD_SEQ


@pytest.mark.parametrize("flag", [calls.FAILED, calls.REFUSED])
def test_what_failed_does_not_go_on(flag: int) -> None:
    _, _, worker = a_full_crew()
    with pytest.raises(RemoteProtocolError, match="sends more"):
        worker.say(calls.RESULT, flag, worker.numbers[0])


def test_only_workers_announce() -> None:
    with pytest.raises(RemoteProtocolError, match="that is not a worker") as caught:
        Crew().client().say(calls.ANNOUNCE, payload=calls.encode_announcement(1, 0, []))
    assert caught.value.code is ErrorCode.BAD_STATE


def test_an_announcement_that_is_none_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="an announcement"):
        Crew().worker().say(calls.ANNOUNCE, payload=b"\xc1")


def test_no_more_slots_can_be_left_than_jobs_have() -> None:
    worker = Crew().worker(slots=3, reserved=1)
    worker.yield_slots(2, 0)
    with pytest.raises(RemoteProtocolError, match="than there are") as caught:
        worker.yield_slots(3, 0)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


@pytest.mark.parametrize("kind", [calls.YIELD, calls.YIELDED + 1, calls.END_KIND - 1])
def test_other_kinds_are_unknown(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"0x{kind:02x}") as caught:
        Crew().worker().say(kind)
    assert caught.value.code is ErrorCode.UNKNOWN_TYPE


def test_a_switchboard_where_nothing_happens_needs_no_ticks() -> None:
    board = Switchboard(0.0)
    board.dispatcher.on_time(1.0)
    board.dispatcher.share(1.0)
    board.dispatcher.check()
    assert (board.dispatcher.needs_ticks, board.waiting.count) == (False, 0)


# Metered calls


def a_metered_crew(slots: int = 4) -> tuple[Crew, ClientSeat, WorkerSeat, OfferedCommand]:
    crew = Crew()
    crew.board.output.meter = CallMeter()
    client, worker = crew.client(), crew.worker(slots=slots)
    return crew, client, worker, crew.board.dispatcher.offers.commands[b"ping"]


def test_calls_are_not_counted_unless_they_are_metered() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    client.feed(plain_calls(1, 2))
    client.call(3, flags=calls.PICKLED)
    worker.feed(plain_results(0, 1))
    worker.take()
    worker.end(3)
    command = crew.board.dispatcher.offers.commands[b"ping"]
    assert (command.ended, command.failed, command.buckets, command.list_buckets()) == (0, 0, None, ())


def test_each_call_alone_is_timed() -> None:
    crew, client, worker, command = a_metered_crew()
    crew.board.now = 5.0
    client.feed(plain_calls(1))
    client.call(2, flags=calls.PICKLED)
    crew.board.now += 0.000_006_5
    worker.feed(plain_results(0))
    worker.take()
    worker.say(calls.RESULT, calls.LAST | calls.WHOLE, 1, 0, DONE)
    assert (command.ended, command.failed, command.list_buckets()) == (2, 0, (0, 0, 0, 0, 0, 0, 2))


def test_of_many_calls_that_come_together_a_sample_is_timed() -> None:
    _, client, worker, command = a_metered_crew(slots=100)
    client.feed(plain_calls(*range(1, 2 * EACH + 1)))
    worker.feed(plain_results(*range(2 * EACH)))
    assert (command.ended, sum(command.list_buckets())) == (2 * EACH, 3)  # the first, and two by their numbers


def test_calls_that_fail_are_counted() -> None:
    _, client, worker, command = a_metered_crew(slots=1)
    for seq in (1, 2):
        client.call(seq)
    worker.take()
    worker.say(calls.RESULT, calls.LAST | calls.FAILED, 0, 0, b"")
    worker.cut()
    assert (command.ended, command.failed) == (2, 2)
    assert [seq for seq, _ in client.results()] == [1, 2]


def test_calls_that_began_before_they_were_metered_are_counted_and_not_timed() -> None:
    crew, client, worker, command = a_metered_crew()
    crew.board.output.meter = None
    client.feed(plain_calls(1))
    client.call(2, flags=calls.PICKLED)
    crew.board.output.meter = CallMeter()
    worker.feed(plain_results(0))
    worker.take()
    worker.say(calls.RESULT, calls.LAST | calls.FAILED, 1, 0, DONE)
    assert (command.ended, command.list_buckets()) == (2, ())
