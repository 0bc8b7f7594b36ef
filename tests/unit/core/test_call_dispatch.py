"""The laws of which worker gets a call, and which calls wait. Time is a number, and frames are written by hand."""

import pytest
from tests.crews import ClientSeat, Crew, Frame, WorkerSeat, a_full_crew, used_by_jobs

from gandy.core.call_dispatch import GRACE
from gandy.core.held import Held
from gandy.core.model import AttemptKey
from gandy.core.sharing import TURN
from gandy.core.workers import WorkerInfo
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PATIENCE
from gandy.wire import calls
from gandy.wire.calls import BUSY, EXPIRED, LOST, MORE, NO_CLOCK, UNKNOWN, Offer

DONE = b"done"


# Slots


def test_a_slot_is_taken_when_the_call_goes_out_and_returned_when_the_work_ends() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2)
    client.call(1)
    assert worker.peer.count_free() == 1
    assert worker.take() == [1]
    worker.give(1, b"piece")
    assert worker.peer.count_free() == 1
    worker.end(1)
    assert worker.peer.count_free() == 2


def test_a_call_takes_the_slots_of_its_command() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=3, offers=[Offer("big", 2), "ping"])
    client.call(1, "big")
    client.call(2, "big")
    client.call(3)
    assert worker.take() == [1, 3]
    worker.end(3)
    assert worker.take() == []
    worker.end(1)
    assert worker.take() == [2]
    assert worker.peer.count_free() == 1


def test_a_large_call_waits_for_the_worker_that_has_enough_slots() -> None:
    crew = Crew()
    client, small = crew.client(), crew.worker("small", slots=1)
    large = crew.worker("large", slots=2, offers=[Offer("big", 2), "ping"])
    client.call(1)
    client.call(2)
    client.call(3, "big")
    assert (small.take(), large.take()) == ([1], [2])
    small.end(1)
    assert small.take() == []
    large.end(2)
    assert large.take() == [3]


def test_workers_take_turns() -> None:
    crew = Crew()
    client, workers = crew.client(), [crew.worker(name, slots=2) for name in "abc"]
    for seq in range(6):
        client.call(seq)
    assert [worker.take() for worker in workers] == [[0, 3], [1, 4], [2, 5]]
    workers[2].end(2)
    workers[0].end(0)
    client.call(6)  # a was used before c
    client.call(7)
    assert [worker.take() for worker in workers] == [[6], [], [7]]


def test_use_counts_across_commands() -> None:
    crew = Crew()
    client = crew.client()
    a, b = crew.worker("a", slots=9, offers=["ping", "echo"]), crew.worker("b", slots=9, offers=["ping", "echo"])
    client.call(1, "ping")
    client.call(2, "echo")
    client.call(3, "echo")
    client.call(4, "ping")
    assert (a.take(), b.take()) == ([1, 3], [2, 4])


def test_a_full_worker_that_is_passed_over_has_had_its_turn() -> None:
    crew = Crew()
    client, a, b, c = crew.client(), crew.worker("a"), crew.worker("b", slots=9), crew.worker("c", slots=9)
    for seq in range(4):
        client.call(seq)  # the last one finds a at the top, and full
    a.end(*a.take())
    assert (b.take(), c.take()) == ([1, 3], [2])
    for seq in range(4, 7):
        client.call(seq)
    assert (c.take(), a.take(), b.take()) == ([4], [5], [6])


def test_a_full_worker_keeps_its_place() -> None:
    crew = Crew()
    client, a, b = crew.client(), crew.worker("a"), crew.worker("b", slots=9)
    for seq in range(4):
        client.call(seq)
    assert (a.take(), b.take()) == ([0], [1, 2, 3])
    a.end(0)
    client.call(4)
    assert a.take() == [4]


def test_a_call_from_the_queue_is_a_use() -> None:
    crew = Crew()
    client, a, b = crew.client(), crew.worker("a"), crew.worker("b")
    for seq in range(3):
        client.call(seq)
    assert (a.take(), b.take()) == ([0], [1])
    a.end(0)
    assert a.take() == [2]
    b.end(1)
    a.end(2)
    client.call(3)
    assert (a.take(), b.take()) == ([], [3])


# Calls that wait


def test_calls_wait_first_in_first_out() -> None:
    _, client, worker = a_full_crew(waiting=3)
    for seq in range(4):
        worker.end(seq)
        assert worker.take() == [seq + 1][: 3 - seq]
    assert client.results() == [(seq, DONE) for seq in range(4)]


def test_waiting_calls_go_before_newcomers() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2, offers=[Offer("big", 2), "ping"])
    client.call(1)
    client.call(2, "big")
    client.call(3, "big")
    worker.take()
    worker.end(1)
    client.call(4, "big")
    assert worker.take() == [2]
    worker.end(2)
    assert worker.take() == [3]


def test_a_returned_slot_goes_to_the_oldest_call_of_all_commands() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(offers=["ping", "echo", "add"])
    for seq, name in enumerate(["ping", "echo", "add", "echo", "ping"]):
        client.call(seq, name)
    order = worker.take()
    while worker.numbers:
        worker.end(order[-1])
        order += worker.take()
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("offers", [("echo",), ("echo", "a", "b", "c")])
def test_a_returned_slot_goes_only_to_what_its_worker_offers(offers: tuple[str, ...]) -> None:
    crew = Crew()
    client, ping, echo = crew.client(), crew.worker("p"), crew.worker("e", offers=offers)
    for seq, name in enumerate(["ping", "echo", "ping", "echo"]):
        client.call(seq, name)
    assert (ping.take(), echo.take()) == ([0], [1])
    echo.end(1)
    assert echo.take() == [3]
    echo.end(3)
    assert echo.take() == []
    ping.end(0)
    assert ping.take() == [2]


def test_a_new_worker_drains_the_queue_at_once() -> None:
    crew, _, _ = a_full_crew(waiting=3)
    assert crew.worker("new", slots=2).take() == [1, 2]
    assert crew.board.waiting.count == 1


def test_one_call_too_many_is_busy() -> None:
    crew, client, worker = a_full_crew(waiting=2, max_queued=2)
    client.call(3)
    (frame,) = client.hear()
    assert frame[:3] == (calls.RESULT, calls.LAST | calls.REFUSED, 3)
    code, text = calls.decode_refusal(frame.payload)
    assert (code, text) == (BUSY, "2 calls wait already, and no slot is free for ping")
    worker.end(0)
    client.call(4)
    assert (client.results(), crew.board.waiting.count) == ([(0, DONE)], 2)


def test_one_byte_too_many_is_busy() -> None:
    size = len(calls.encode_target("ping")) + 1
    crew, client, _ = a_full_crew(waiting=2, max_bytes=2 * size)
    client.call(3)
    assert client.results() == [(3, BUSY)]
    client.cancel(1)
    client.call(4)
    assert (client.results(), crew.board.waiting.count) == ([], 2)


def test_a_cast_that_finds_no_place_is_dropped() -> None:
    crew, client, worker = a_full_crew(waiting=1, max_queued=1)
    client.cast(2)
    assert (client.results(), list(client.peer.calls)) == ([], [0, 1])
    worker.end(0)
    assert (worker.take(), crew.board.waiting.count) == ([1], 0)


def test_a_client_that_still_sends_a_cast_gets_its_refusal() -> None:
    _, client, worker = a_full_crew(waiting=1, max_queued=1)
    client.cast(2, flags=MORE)
    client.cast(3, "nonsense", flags=MORE)
    client.cast(4, "nonsense")
    assert (client.results(), list(client.peer.calls)) == ([(2, BUSY), (3, UNKNOWN)], [0, 1])
    client.body(2, b"under way", last=True)
    assert worker.take_others() == []


# Deadlines


def test_a_deadline_travels_with_the_call() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.call(1, age_ms=2_500)
    client.call(2, age_ms=4_000)
    client.call(3, age_ms=5_000)
    (frame,) = worker.hear()
    assert frame.padding == 2_500
    crew.board.now += 3
    worker.numbers[1] = frame.seq
    worker.end(1)
    (frame,) = worker.hear()
    assert frame.padding == 1_000
    crew.board.now += 1.9999
    worker.numbers[2] = frame.seq
    worker.end(2)
    assert [frame.padding for frame in worker.hear()] == [1]  # 0 would mean that it has none


def test_an_expired_call_is_not_drained_to_a_worker() -> None:
    crew, client, worker = a_full_crew()
    client.call(1, age_ms=1_000)
    client.cast(2, age_ms=1_000)
    client.call(3)
    crew.board.now += 1
    worker.end(0)
    assert worker.take() == [3]
    assert client.results() == [(0, DONE), (1, EXPIRED)]


def test_an_expired_call_is_refused_in_time() -> None:
    crew, client, worker = a_full_crew()
    client.call(1, age_ms=1_000)
    client.call(2, age_ms=3_000)
    client.call(3, worker="w", age_ms=1_000)
    client.call(4)
    crew.pass_time(0.9)
    assert client.results() == []
    crew.pass_time(0.1)
    assert client.results() == [(1, EXPIRED), (3, EXPIRED)]
    assert crew.board.waiting.count == 2
    worker.end(0)
    assert worker.take() == [2]


def test_a_running_call_does_not_expire_here() -> None:
    crew, client, worker = a_full_crew()
    worker.end(0)
    client.results()
    client.call(1, age_ms=1)
    worker.take()
    crew.pass_time(10)
    assert client.results() == []


# Lost workers


def test_calls_of_a_lost_worker_are_lost() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4)
    client.call(1)
    client.call(2)
    client.cast(3)
    client.cast(4, flags=MORE)  # its client still sends, and must know
    worker.cut()
    assert client.results() == [(1, LOST), (2, LOST), (4, LOST)]
    assert not any((client.peer.calls, worker.peer.serves, worker.peer.offers, worker.peer.slots.by_calls))
    assert worker.peer not in crew.board.touched


def test_what_waits_is_not_lost_with_a_worker() -> None:
    crew, client, worker = a_full_crew(waiting=1)
    worker.cut()
    assert client.results() == [(0, LOST)]
    assert crew.worker("other").take() == [1]


def test_a_worker_that_came_back_is_not_forgotten_with_its_old_link() -> None:
    crew = Crew()
    client, old = crew.client(), crew.worker()
    client.call(1)
    client.call(2, worker="w")
    new = crew.worker(offers=["echo"])
    assert client.results() == [(2, LOST), (1, LOST)]  # the old link broke, and the foreman has not noticed
    assert crew.board.dispatcher.offers.list_names("w") == ["echo"]
    old.cut()
    assert crew.board.dispatcher.offers.list_names("w") == ["echo"]
    new.cut()
    assert crew.board.dispatcher.offers.list_names("w") == []


def test_a_link_that_called_itself_can_be_cut() -> None:
    crew = Crew()
    worker = crew.worker()
    for seq in range(3):
        worker.say(calls.CALL, 0, seq, 0, calls.encode_target("ping"))
    worker.say(calls.CALL, calls.DIRECT, 3, 0, calls.encode_target("ping", "w"))
    worker.cut()
    assert (crew.board.waiting.count, crew.board.touched) == (0, set())
    assert worker.peer.calls == worker.peer.serves == {}


# Calls for one worker


def test_a_direct_call_goes_to_its_worker_and_no_other() -> None:
    crew = Crew()
    client, a, b = crew.client(), crew.worker("a", slots=9), crew.worker("b", slots=9)
    client.call(1, worker="b")
    client.call(2, worker="b")
    assert (a.take(), b.take()) == ([], [1, 2])
    b.end(2)
    assert client.results() == [(2, DONE)]


def test_a_direct_call_is_no_turn() -> None:
    crew = Crew()
    client, a, b = crew.client(), crew.worker("a", slots=9), crew.worker("b", slots=9)
    client.call(1, worker="a")
    client.call(2)
    client.call(3)
    assert (a.take(), b.take()) == ([1, 2], [3])


def test_a_direct_call_waits_for_its_worker_in_order() -> None:
    crew = Crew()
    client, a, b = crew.client(), crew.worker("a"), crew.worker("b")
    client.call(1, worker="a")
    client.call(2, worker="a")
    client.call(3, worker="a")
    assert (a.take(), b.take(), crew.board.waiting.count) == ([1], [], 2)
    client.call(4)
    client.call(5)
    assert b.take() == [4]
    a.end(1)
    assert a.take() == [2]
    a.end(2)
    assert a.take() == [3]
    a.end(3)
    assert a.take() == [5]


def test_direct_calls_and_others_go_in_the_order_in_which_they_came() -> None:
    _, client, worker = a_full_crew()
    client.call(1)
    client.call(2, worker="w")
    client.call(3)
    order = []
    for seq in (0, 1, 2):
        worker.end(seq)
        order += worker.take()
    assert order == [1, 2, 3]


@pytest.mark.parametrize("worker", ["nobody", "w"])
def test_a_direct_call_that_its_worker_does_not_offer_is_lost(worker: str) -> None:
    crew = Crew()
    client = crew.client()
    crew.worker()
    crew.worker("other", offers=["echo"])
    client.call(1, "echo", worker=worker)
    client.cast(2, "echo", worker=worker)
    assert client.results() == [(1, LOST)]


def test_a_waiting_direct_call_is_lost_when_its_worker_withdraws_the_command() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(offers=["ping", "echo"])
    client.call(1, "echo", worker="w")
    client.call(2, "ping", worker="w")
    client.call(3, "echo", worker="w")
    worker.announce("echo")
    assert client.results() == [(2, LOST)]
    worker.take()
    worker.end(1)
    assert worker.take() == [3]


def test_a_waiting_direct_call_is_lost_with_its_worker() -> None:
    crew, client, worker = a_full_crew()
    client.call(1, worker="w")
    client.cast(2, worker="w")
    worker.cut()
    assert client.results() == [(1, LOST), (0, LOST)]
    assert crew.board.waiting.count == 0


def test_a_cancelled_direct_call_waits_no_more() -> None:
    crew, client, worker = a_full_crew()
    client.call(1, worker="w")
    client.call(2, worker="w")
    client.cancel(1)
    assert crew.board.waiting.count == 1
    worker.end(0)
    assert worker.take() == [2]


def a_blocked_crew() -> tuple[Crew, ClientSeat, WorkerSeat]:
    """One of two slots is free. Direct call 1 needs both, and direct call 2, which needs one, waits behind it."""
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2, offers=["ping", Offer("big", 2)])
    client.call(0)
    client.call(1, "big", MORE, age_ms=1_000, worker="w")
    client.call(2, worker="w")
    assert worker.take() == [0]
    return crew, client, worker


def test_a_large_direct_call_is_not_overtaken_by_small_ones() -> None:
    _, _, worker = a_blocked_crew()
    worker.end(0)
    assert worker.take() == [1]
    worker.end(1)
    assert worker.take() == [2]


def test_when_a_large_direct_call_is_cancelled_those_behind_it_go_at_once() -> None:
    _, client, worker = a_blocked_crew()
    client.cancel(1)
    assert worker.take() == [2]


def test_when_a_large_direct_call_expires_those_behind_it_go_at_once() -> None:
    crew, client, worker = a_blocked_crew()
    crew.pass_time(1)
    assert (worker.take(), client.results()) == ([2], [(1, EXPIRED)])


def test_when_the_client_of_a_large_direct_call_is_gone_those_behind_it_go_at_once() -> None:
    crew, client, worker = a_blocked_crew()
    crew.client().call(3, worker="w")
    client.cut()
    assert worker.take() == [3]


# Unknown commands


def test_an_unknown_command_is_answered_at_once() -> None:
    crew = Crew()
    client = crew.client()
    client.call(1, "nonsense")
    client.cast(2, "nonsense")
    (frame,) = client.hear()
    assert calls.decode_refusal(frame.payload) == (UNKNOWN, "no worker offers the command nonsense")


def test_after_a_foremans_start_workers_are_expected_for_a_while() -> None:
    crew = Crew(now=GRACE - 0.1)
    client = crew.client()
    client.call(1)
    client.call(2, "nonsense")
    client.call(3, worker="w")
    assert client.results() == [(3, LOST)]
    assert crew.worker().take() == [1]
    crew.pass_time(GRACE)
    assert client.results() == [(2, UNKNOWN)]
    client.call(4, "nonsense")
    assert client.results() == [(4, UNKNOWN)]


def test_commands_that_no_worker_offers_have_a_limit() -> None:
    crew = Crew(now=0.0, max_queued=2)
    client = crew.client()
    for seq, name in enumerate("abc"):
        client.call(seq, name)
    assert client.results() == [(2, UNKNOWN)]


def test_a_command_whose_last_worker_left_is_expected_back() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    worker.cut()
    client.call(1)
    crew.pass_time(GRACE - 0.1)
    assert client.results() == []
    worker = crew.worker()
    assert worker.take() == [1]
    worker.cut()
    client.call(2)
    crew.pass_time(GRACE)
    assert client.results() == [(1, LOST), (2, UNKNOWN)]


def test_a_patient_call_waits_for_the_first_worker() -> None:
    crew = Crew()
    client = crew.client()
    client.call(1, flags=calls.PATIENT)
    client.call(2)
    crew.pass_time(GRACE)
    assert client.results() == [(2, UNKNOWN)]
    crew.pass_time(100 * GRACE)
    worker = crew.worker()
    assert worker.take() == [1]
    worker.cut()
    client.call(3, flags=calls.PATIENT)
    crew.pass_time(MAX_PATIENCE)
    assert client.results() == [(1, LOST), (3, UNKNOWN)]


def test_a_name_that_is_no_text_is_a_name_too() -> None:
    crew = Crew(now=0.0, max_queued=1)
    client = crew.client()
    for seq in range(2):
        client.say(calls.CALL, 0, seq, 0, b"\x01\xff")
    assert client.results() == [(1, BUSY)]
    crew.pass_time(GRACE)
    assert client.results() == [(0, UNKNOWN)]


# Announcements


def test_a_withdrawn_command_gets_no_new_calls_and_running_ones_go_on() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2, offers=["ping", "echo"])
    client.call(1)
    worker.announce("echo")
    client.call(2)
    client.call(3, "echo")
    assert worker.take() == [1, 3]
    worker.end(1)
    assert client.results() == [(1, DONE)]
    worker.announce("ping")
    assert worker.take() == [2]


def test_a_full_worker_can_withdraw_and_offer_again() -> None:
    _, client, worker = a_full_crew(waiting=1)
    worker.announce()
    worker.announce("ping")
    assert worker.take() == []
    worker.end(0)
    assert worker.take() == [1]
    worker.end(1)
    client.call(2)
    assert worker.take() == [2]


def test_a_free_worker_that_offers_again_has_one_place() -> None:
    crew = Crew()
    client, workers = crew.client(), [crew.worker(name) for name in "abc"]
    workers[0].announce()
    workers[0].announce("ping")
    for seq in range(4):
        client.call(seq)
    assert sorted(worker.take() for worker in workers) == [[0], [1], [2]]


def test_a_call_may_need_more_slots_from_now_on() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2)
    client.call(1)
    worker.announce(Offer("ping", 2))
    client.call(2)
    assert worker.take() == [1]
    worker.end(1)
    assert (worker.take(), worker.peer.count_free()) == ([2], 0)
    worker.end(2)
    assert worker.peer.count_free() == 2


def test_a_worker_may_have_more_slots_or_fewer() -> None:
    crew, _, worker = a_full_crew(waiting=3)
    worker.account.introduce(WorkerInfo("w", "w", 3))
    worker.announce("ping")
    assert worker.take() == [1, 2]
    worker.account.introduce(WorkerInfo("w", "w", 1))
    worker.announce("ping")
    assert worker.peer.count_free() == -2
    worker.end(0, 1)
    assert (worker.take(), crew.board.waiting.count) == ([], 1)
    worker.end(2)
    assert worker.take() == [3]


def test_fewer_slots_mean_that_fewer_are_left_by_jobs() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 4)
    client.call(1)
    crew.share()
    worker.yield_slots(2, 1)
    assert worker.peer.slots.yielded == 2
    worker.account.introduce(WorkerInfo("w", "w", 1))
    assert worker.peer.slots.yielded == 1


def test_offers_and_running_calls_can_be_listed() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2, offers=["ping", "echo"])
    client.call(1)
    client.cast(2)
    assert crew.board.dispatcher.offers.list_names("w") == ["echo", "ping"]
    assert len(worker.peer.serves) == 2
    worker.take()
    worker.end(1)
    assert len(worker.peer.serves) == 1
    assert (worker.account.slots.total, worker.account.slots.busy) == (2, 1)
    assert crew.board.dispatcher.offers.list_names("nobody") == []


# Slots shared with jobs


def test_slots_that_jobs_have_are_not_free() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=3)
    worker.use(2)
    client.call(1)
    client.call(2)
    assert worker.take() == [1]
    worker.use(1)
    assert worker.take() == [2]


def test_room_that_no_call_waits_for_is_found_by_the_next_one() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew)
    client.call(1)
    client.cancel(1)
    worker.use(0)
    client.call(2)
    assert worker.take() == [2]


def test_a_link_that_is_not_a_workers_has_no_room() -> None:
    crew, _, _ = a_full_crew(waiting=1)
    crew.board.dispatcher.drain(crew.board.add_peer(), 1.0)
    assert crew.board.waiting.count == 1


def test_nothing_happens_when_jobs_leave_slots_that_no_call_needs() -> None:
    crew = Crew()
    worker = crew.worker(slots=2)
    worker.use(2)
    worker.use(0)
    assert worker.take_others() == []


def test_reserved_slots_are_free_however_many_jobs_there_are() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4, reserved=1)
    worker.use(9)  # with those that wait on it
    client.call(1)
    client.call(2)
    assert (worker.take(), crew.board.waiting.count) == ([1], 1)


def test_calls_that_wait_have_jobs_leave_half_of_their_slots() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 5, reserved=1)
    for seq in range(4):
        client.call(seq)
    assert worker.take() == [0]
    assert crew.board.dispatcher.needs_ticks
    crew.share()
    assert worker.take_others() == [Frame(calls.YIELD, 0, 1, 2)]
    crew.share(TURN)
    assert worker.take_others() == []  # once is enough
    worker.yield_slots(1, 1)
    assert worker.take() == [1]
    worker.yield_slots(2, 1)
    assert worker.take() == [2]


def test_slots_go_back_to_jobs_when_no_call_needs_them() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 2)
    client.call(1)
    crew.share()
    worker.yield_slots(1, 1)
    assert worker.take() == [1]
    assert crew.board.dispatcher.needs_ticks
    crew.share()
    assert [frame[2:4] for frame in worker.take_others()] == [(1, 1), (2, 0)]
    assert (worker.peer.slots.yielded, crew.board.dispatcher.needs_ticks) == (0, False)


def test_jobs_know_what_calls_have_of_their_slots() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=3, reserved=1)
    lent = []
    for seq in range(3):
        client.call(seq)
        lent.append(worker.account.slots.lent)
    worker.take()
    worker.end(0)
    lent.append(worker.account.slots.lent)
    worker.reserved = 0
    worker.announce("ping")
    lent.append(worker.account.slots.lent)
    worker.cut()
    lent.append(worker.account.slots.lent)
    assert lent == [0, 1, 2, 1, 2, 0]


def test_an_old_link_that_ends_late_changes_nothing() -> None:
    crew = Crew()
    client, old = crew.client(), crew.worker()
    new = WorkerSeat(crew.board, "w", 1, account=old.account)
    new.announce("ping")
    client.call(1)
    assert crew.board.dispatcher.offers.workers == {"w": new.peer}
    old.cut()
    assert (new.take(), old.account.slots.lent, client.results()) == ([1], 1, [])


def test_an_answer_to_what_was_asked_before_is_stale() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 2)
    client.call(1)
    crew.share()
    client.cancel(1)
    crew.share()
    client.call(2)
    worker.yield_slots(1, 1)
    assert (worker.take(), worker.peer.slots.yielded) == ([], 0)
    crew.share()
    assert [frame[2:4] for frame in worker.take_others()] == [(1, 1), (2, 0), (3, 1)]
    worker.yield_slots(1, 3)
    assert worker.take() == [2]


def test_calls_and_jobs_take_turns_on_the_only_slot() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew)
    for seq in range(3):
        client.call(seq)
    crew.share()
    assert worker.take_others() == [Frame(calls.YIELD, 0, 1, 1)]
    worker.yield_slots(1, 1)
    assert worker.take() == [0]
    crew.share(TURN - 0.1)
    assert worker.take_others() == []
    crew.share(0.1)
    assert worker.take_others() == [Frame(calls.YIELD, 0, 2, 0)]
    worker.end(0)
    assert worker.take() == []
    crew.share(TURN - 0.1)
    assert worker.take_others() == []
    crew.share(0.1)
    assert worker.take_others() == [Frame(calls.YIELD, 0, 3, 1)]
    worker.yield_slots(1, 3)
    assert worker.take() == [1]


def test_the_turn_of_calls_begins_when_the_task_has_left_the_only_slot() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew)
    client.call(1)
    client.call(2)
    crew.share()
    for _ in range(5):
        crew.share(TURN)
    assert worker.take_others() == [Frame(calls.YIELD, 0, 1, 1)]
    worker.yield_slots(1, 1)
    assert worker.take() == [1]
    crew.share(TURN - 0.1)
    assert worker.take_others() == []
    crew.share(0.1)
    assert worker.take_others() == [Frame(calls.YIELD, 0, 2, 0)]


def test_a_large_call_has_jobs_leave_as_many_slots_as_it_needs() -> None:
    crew = Crew()
    client = crew.client()
    worker = crew.worker(slots=6, offers=["ping", Offer("big", 4), Offer("whole", 6)], reserved=1)
    worker.use(5)
    client.call(1)
    client.call(2)
    crew.share()
    client.call(3, "big")
    crew.share()
    client.call(4, "whole", worker="w")
    crew.share()
    crew.share(TURN)
    assert worker.take() == [1]
    assert [frame[2:4] for frame in worker.take_others()] == [(1, 2), (2, 3), (3, 5)]
    worker.yield_slots(5, 3)
    assert worker.take() == [2, 3]
    worker.end(1, 2, 3)
    assert worker.take() == [4]


def test_a_call_that_needs_all_slots_takes_turns_with_jobs() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=4, offers=[Offer("whole", 4)])
    worker.use(4)
    for seq in (1, 2):
        client.call(seq, "whole")
    crew.share()
    worker.yield_slots(4, 1)
    assert worker.take() == [1]
    crew.share(TURN)
    crew.share(TURN)
    assert [frame[2:4] for frame in worker.take_others()] == [(1, 4), (2, 0), (3, 4)]
    worker.end(1)
    assert worker.take() == []
    worker.yield_slots(4, 3)
    assert worker.take() == [2]


def test_calls_take_turns_with_a_task_that_needs_more_than_they_leave() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 4)
    first = AttemptKey(JobId(1), TaskNumber(1), 1)
    worker.account.held[first] = Held(3)
    for seq in range(4):
        client.call(seq)
    crew.share()
    worker.yield_slots(2, 1)
    assert worker.take() == [0, 1]
    crew.share(TURN)
    assert [frame[2:4] for frame in worker.take_others()] == [(1, 2), (2, 0)]
    worker.account.held[first] = Held(2)
    crew.share()
    crew.share(TURN)
    assert [frame[2:4] for frame in worker.take_others()] == [(3, 2)]


def test_direct_calls_have_jobs_leave_slots_too() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 2)
    crew.worker("idle")
    client.call(1, worker="w")
    crew.share()
    assert worker.take_others() == [Frame(calls.YIELD, 0, 1, 1)]


@pytest.mark.parametrize("reserved", [0, 2])
def test_workers_that_calls_fill_are_not_asked(reserved: int) -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=2, reserved=reserved)
    for seq in range(3):
        client.call(seq)
    worker.take()
    worker.use(reserved)
    crew.share()
    assert worker.take_others() == []


def test_a_worker_that_was_asked_may_be_lost() -> None:
    crew = Crew()
    client, worker = crew.client(), used_by_jobs(crew, 2)
    client.call(1)
    crew.share()
    worker.cut()
    client.cancel(1)
    assert (crew.board.dispatcher.needs_ticks, crew.board.touched) == (False, set())


def test_a_draining_worker_gets_nothing_new() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker(slots=3)
    client.call(1)
    worker.account.draining = True
    client.call(2)
    worker.use(1)
    client.call(3)
    assert worker.take() == [1]
    worker.end(1)
    worker.use(0)
    assert (worker.take(), crew.board.waiting.count) == ([], 2)
    assert crew.worker("other", slots=2).take() == [2, 3]


# Times

AT = 1_794_000_000.5  # a shared time; the switchboard never looks at a clock


def a_timed_crew(*names: str, slots: int = 1) -> tuple[Crew, ClientSeat, list[WorkerSeat]]:
    """Workers that know the shared time."""
    crew = Crew()
    workers = [crew.worker(name, slots=slots) for name in names]
    for worker in workers:
        worker.announce("ping", knows_time=True)
    return crew, crew.client(), workers


def test_a_call_with_a_time_goes_out_at_once_with_its_time() -> None:
    _, client, (worker,) = a_timed_crew("w1")
    client.call(1, at=AT)
    (frame,) = worker.hear()
    assert frame.subtype == calls.AT
    assert calls.read_time(frame.payload, calls.read_name(frame.payload)[1])[0] == AT


def test_a_call_with_a_time_goes_only_to_a_worker_that_knows_the_time() -> None:
    crew, client, (worker,) = a_timed_crew("w1", slots=3)
    plain = crew.worker("plain", slots=3)
    for seq in range(3):
        client.call(seq, at=AT)
    assert (worker.take(), plain.take()) == ([0, 1, 2], [])
    client.call(3, at=AT, worker="plain")
    assert client.results() == [(3, NO_CLOCK)]
    client.call(4, at=AT)  # it waits for the one that knows, though another has free slots
    assert plain.take() == []
    worker.end(1)
    assert worker.take() == [4]


def test_calls_with_a_time_take_turns_and_prefer_free_slots() -> None:
    _, client, (one, other) = a_timed_crew("w1", "w2", slots=2)
    for seq in range(2):
        client.call(seq, at=AT)
    assert (one.take(), other.take()) == ([0], [1])
    client.call(2, worker="w1")
    client.call(3, at=AT)
    assert (one.take(), other.take()) == ([2], [3])


def test_if_no_worker_knows_the_time_a_timed_call_is_refused_at_once() -> None:
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.call(1, at=AT)
    client.call(2, flags=calls.CAST | calls.MORE, at=AT)  # a client that still sends a cast must know of its end
    assert client.results() == [(1, NO_CLOCK), (2, NO_CLOCK)]
    client.call(3, "unknown", at=AT)
    assert client.results() == [(3, UNKNOWN)]
    worker.announce("ping", knows_time=True)
    client.call(4, at=AT)
    worker.end(*worker.take())
    worker.announce("ping")
    client.call(5, at=AT)
    assert client.results() == [(4, DONE), (5, NO_CLOCK)]
    worker.cut()
    client.call(6, at=AT)  # a call without a time would wait for the worker to come back
    assert client.results() == [(6, UNKNOWN)]


def test_a_new_link_of_a_worker_knows_no_time_until_it_says_so() -> None:
    crew, client, (worker,) = a_timed_crew("w1")
    assert worker.account.knows_time
    crew.board.dispatcher.on_worker(crew.board.add_peer(), worker.account, 1.0)
    assert not worker.account.knows_time
    client.call(1, at=AT, worker="w1")
    assert client.results() == [(1, LOST)]


def test_a_call_whose_time_is_missing_is_the_peers_error() -> None:
    _, client, _ = a_timed_crew("w1")
    with pytest.raises(RemoteProtocolError):
        client.say(calls.CALL, calls.AT, 1, 0, calls.encode_target("ping"))
    assert not client.peer.calls


def test_a_call_with_a_time_that_is_cancelled_frees_its_slot_when_the_worker_says_so() -> None:
    _, client, (worker,) = a_timed_crew("w1")
    client.call(1, at=AT)
    client.call(2, at=AT)
    assert worker.take() == [1]
    client.cancel(1)
    assert worker.take_others() == [Frame(calls.CANCEL, 0, worker.numbers[1])]
    worker.end(1)
    assert worker.take() == [2]
