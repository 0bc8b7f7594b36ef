"""Rules 4 and 5 of docs/protocol/v2.md, one by one."""

import pytest
from tests.unit.talk.one_exchange import JOB, STOP_NOW, UPDATE, Side, an_open_foreman, an_open_worker, answer_all, asked

from gandy.errors import REFUSALS, ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import Answered, ExtensionReceived, Overflowed, Requested, Restarted
from gandy.talk.law import Role, State
from gandy.wire.messages import (
    GREETING,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Ok,
    Reset,
)

# Rule 4: numbers


def test_an_answer_has_the_number_of_its_request() -> None:
    worker = an_open_worker()
    answer_all(worker, worker.hear((3, JOB)), Ok(1, 1))
    assert worker.said() == [(3, Ok(1, 1))]


def test_a_request_of_the_wrong_parity_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="wrong parity") as caught:
        an_open_worker().hear((4, JOB))
    assert caught.value.code == ErrorCode.BAD_SEQ


def test_a_repeated_number_is_refused() -> None:
    worker = an_open_worker()
    answer_all(worker, worker.hear((3, JOB)))
    with pytest.raises(RemoteProtocolError, match="not greater"):
        worker.hear((3, JOB))


def test_an_answer_to_nothing_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="answers nothing"):
        an_open_worker().hear((2, Ok(1, 1)))


def test_only_one_request_is_outstanding() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)
    assert not worker.exchange.can_request(UPDATE)
    with pytest.raises(LocalProtocolError):
        worker.exchange.request(UPDATE)
    assert worker.hear((2, Ok(1))) == [Answered(UPDATE, Ok(1))]
    assert worker.exchange.can_request(UPDATE)


def test_a_number_below_one_that_they_answered_is_refused() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)  # number 2
    worker.hear((2, Ok(1)))
    with pytest.raises(RemoteProtocolError, match="not greater"):
        worker.hear((1, JOB))


def test_an_error_to_nothing_is_no_last_word() -> None:
    with pytest.raises(RemoteProtocolError, match="ERROR with number 2 answers nothing"):
        an_open_worker().hear((2, Error(ErrorCode.NO_PROCS)))


# Rule 6: the order of answers


def test_what_was_asked_is_answered_before_anything_new_is_asked() -> None:
    worker = an_open_worker()
    events = worker.hear((3, JOB))
    assert not worker.exchange.can_request(UPDATE)
    answer_all(worker, events)
    assert worker.exchange.can_request(UPDATE)


def test_requests_are_handled_one_after_another() -> None:
    worker = an_open_worker()
    first = worker.hear((3, JOB), (5, JOB))
    assert asked(first) == [(3, JOB)]
    answer_all(worker, first)
    assert asked(worker.pull()) == [(5, JOB)]


def test_while_waiting_a_lower_request_is_handled() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(JOB)  # number 3
    assert asked(foreman.hear((2, UPDATE))) == [(2, UPDATE)]


def test_while_waiting_a_higher_request_is_held_until_the_answer() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(JOB)  # number 3
    assert foreman.hear((4, UPDATE)) == []
    events = foreman.hear((3, Ok(1, 1)))
    assert events[0] == Answered(JOB, Ok(1, 1))
    assert asked(events) == [(4, UPDATE)]


def test_an_immediate_stop_does_not_wait() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)  # number 2
    assert worker.hear((3, JOB)) == []
    assert asked(worker.hear((5, STOP_NOW))) == [(5, STOP_NOW)]


def test_an_immediate_stop_may_be_asked_before_what_was_heard_is_answered() -> None:
    foreman = an_open_foreman()
    foreman.hear((2, UPDATE))
    assert not foreman.exchange.can_request(JOB)
    assert foreman.exchange.can_request(STOP_NOW)


def test_hello_does_not_wait_because_it_tells_the_state_at_its_place() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(JOB)  # number 3
    assert asked(foreman.hear((4, Hello(1)))) == [(4, Hello(1))]


def test_a_full_queue_is_answered_with_overflow() -> None:
    foreman = an_open_foreman(held_limit=2)
    foreman.exchange.request(JOB)  # number 3
    foreman.said()
    assert foreman.hear((4, UPDATE), (6, UPDATE), (8, UPDATE)) == []
    assert foreman.said() == [(8, Error(ErrorCode.OVERFLOW))]


def test_without_a_queue_the_first_request_still_has_its_turn() -> None:
    foreman = an_open_foreman(held_limit=0)
    events = foreman.hear((2, UPDATE), (4, UPDATE))
    assert asked(events) == [(2, UPDATE)]
    assert foreman.said() == [(4, Error(ErrorCode.OVERFLOW))]


def test_an_overflow_is_reissued_with_a_new_number_once_all_is_answered() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)  # number 2; the peer waits for the answer to its own 1
    events = worker.hear((1, JOB), (2, Error(ErrorCode.OVERFLOW)))
    assert Overflowed(UPDATE) in events
    assert not worker.exchange.can_request(UPDATE)
    answer_all(worker, events)
    worker.exchange.request(UPDATE)
    assert worker.said()[-1] == (4, UPDATE)


def test_an_overflow_after_the_answer_can_be_reissued_at_once() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)
    answer_all(worker, worker.hear((1, JOB)))
    assert worker.hear((2, Error(ErrorCode.OVERFLOW))) == [Overflowed(UPDATE)]
    assert worker.exchange.can_request(UPDATE)


def test_an_overflow_from_a_peer_that_waits_for_nothing_is_an_error() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)
    with pytest.raises(RemoteProtocolError, match="overflow"):
        worker.hear((2, Error(ErrorCode.OVERFLOW)))


def test_an_answer_of_long_ago_is_no_reason_for_an_overflow() -> None:
    worker = an_open_worker()
    answer_all(worker, worker.hear((3, JOB)))
    worker.exchange.request(UPDATE)  # number 4
    with pytest.raises(RemoteProtocolError, match="overflow"):
        worker.hear((4, Error(ErrorCode.OVERFLOW)))


def test_not_even_an_immediate_stop_goes_out_before_hello() -> None:
    assert not Side(Role.FOREMAN).exchange.can_request(STOP_NOW)


def test_an_immediate_stop_with_worn_out_numbers_waits_for_its_turn() -> None:
    foreman = an_open_foreman(last_number=5)
    events = foreman.hear((2, UPDATE))  # only a RESET has a number now, and that cannot go before the answer
    assert not foreman.exchange.can_request(STOP_NOW)
    answer_all(foreman, events)
    assert foreman.exchange.can_request(STOP_NOW)


def test_other_errors_are_answers() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)
    assert worker.hear((2, Error(ErrorCode.NO_SUCH_JOB))) == [Answered(UPDATE, Error(3))]


# Rule 5: RESET


def test_worn_out_numbers_make_a_reset_and_give_the_request_back() -> None:
    worker = an_open_worker(last_number=5)
    worker.exchange.request(UPDATE)
    worker.hear((2, Ok(1)))
    worker.exchange.request(UPDATE)
    assert worker.exchange.outstanding == UPDATE
    assert worker.said()[1:] == [(4, Reset())]
    assert worker.hear((4, Reset())) == [Restarted(UPDATE)]
    assert worker.exchange.state is State.GREETING


def test_after_reset_numbers_begin_at_zero_with_hello() -> None:
    worker = an_open_worker()
    worker.exchange.request(Reset())
    worker.hear((2, Reset()))
    worker.said()
    assert not worker.exchange.can_request(UPDATE)
    worker.exchange.request(Hello(2))
    assert worker.said() == [(0, Hello(2))]


def test_reset_tells_the_last_reply() -> None:
    worker = an_open_worker()
    answer_all(worker, worker.hear((3, JOB)))
    worker.exchange.request(Reset())
    assert worker.said()[-1] == (4, Reset(3))


def test_worn_out_numbers_tell_the_last_reply_too() -> None:
    worker = an_open_worker(last_number=7)
    answer_all(worker, worker.hear((5, JOB)))
    worker.exchange.request(UPDATE)
    assert worker.said()[-1] == (6, Reset(5))


def test_what_their_reset_drops_is_outstanding_until_it_is_given_back() -> None:
    foreman = an_open_foreman()
    foreman.hear((2, UPDATE))
    foreman.exchange.request(STOP_NOW)  # number 5: an immediate STOP does not wait for the answer to 2
    assert foreman.hear((4, Reset())) == []
    assert foreman.exchange.outstanding == foreman.exchange.unsent == STOP_NOW


def test_no_request_after_a_reset_was_sent_or_received() -> None:
    worker = an_open_worker()
    worker.exchange.request(Reset())
    assert not worker.exchange.can_request(UPDATE)
    other = an_open_worker()
    other.exchange.request(UPDATE)
    other.hear((3, Reset()))
    other.hear((2, Ok(0)))
    assert other.exchange.state is State.GREETING
    assert not other.exchange.can_request(UPDATE)


def test_earlier_requests_of_ours_are_answered_before_we_answer_reset() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)  # number 2
    worker.said()
    assert worker.hear((3, Reset())) == []
    assert worker.said() == []
    assert worker.exchange.state is State.RESETTING
    assert worker.hear((2, Ok(2))) == [Answered(UPDATE, Ok(2)), Restarted(None)]
    assert worker.said() == [(3, Reset())]


def test_earlier_requests_of_theirs_are_answered_before_we_answer_reset() -> None:
    worker = an_open_worker()
    events = worker.hear((3, JOB), (5, Reset()))
    assert asked(events) == [(3, JOB)]
    assert worker.said() == []
    answer_all(worker, events, Ok(1, 1))
    assert worker.pull() == [Restarted(None)]
    assert worker.said() == [(3, Ok(1, 1)), (5, Reset(3))]


def test_our_later_request_is_dropped_by_their_reset_and_given_back() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(JOB)  # number 3
    foreman.said()
    assert foreman.hear((2, Reset())) == [Restarted(JOB)]
    assert foreman.said() == [(2, Reset(0))]


def test_their_later_requests_are_dropped_by_our_reset() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(Reset())  # number 3
    foreman.said()
    assert foreman.hear((4, UPDATE), (3, Reset())) == [Restarted(None)]
    assert foreman.said() == []


def test_their_earlier_request_is_answered_while_our_reset_waits() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(Reset())  # number 3
    foreman.said()
    answer_all(foreman, foreman.hear((2, UPDATE)), Ok(2))
    assert foreman.said() == [(2, Ok(2))]


def test_when_both_reset_the_lower_number_wins() -> None:
    worker, foreman = an_open_worker(), an_open_foreman()
    worker.exchange.request(Reset())  # 2
    foreman.exchange.request(Reset())  # 3
    to_foreman, to_worker = worker.said(), foreman.said()
    assert worker.hear(*to_worker) == []
    assert foreman.hear(*to_foreman) == [Restarted(None)]
    assert worker.hear(*foreman.said()) == [Restarted(None)]
    assert worker.exchange.state is foreman.exchange.state is State.GREETING
    assert worker.said() == []


def test_a_reset_that_loses_gives_back_what_it_postponed() -> None:
    foreman = an_open_foreman(last_number=5)
    foreman.exchange.request(JOB)  # number 3
    foreman.hear((3, Ok(1, 1)))
    foreman.exchange.request(JOB)
    assert foreman.said()[-1] == (5, Reset())
    assert foreman.hear((4, Reset())) == [Restarted(JOB)]


def test_an_immediate_stop_above_our_reset_is_obeyed_without_a_reply() -> None:
    worker = an_open_worker()
    worker.exchange.request(Reset())  # number 2
    worker.said()
    events = worker.hear((3, STOP_NOW))
    assert asked(events) == [(3, STOP_NOW)]
    answer_all(worker, events)
    assert worker.said() == []


def test_a_peer_that_asks_after_its_reset_is_refused() -> None:
    worker = an_open_worker()
    worker.exchange.request(UPDATE)
    with pytest.raises(RemoteProtocolError, match="after RESET"):
        worker.hear((3, Reset()), (5, JOB))


def test_an_answer_on_a_closed_link_goes_nowhere() -> None:
    foreman = an_open_foreman()
    stale = foreman.hear((2, UPDATE))
    foreman.exchange.framing.close()
    answer_all(foreman, stale)
    assert foreman.said() == []


def test_a_stale_ticket_does_not_answer_a_new_request_of_the_same_number() -> None:
    foreman = an_open_foreman()
    foreman.exchange.request(Reset())  # number 3
    stale = foreman.hear((2, UPDATE))
    foreman.hear((3, Reset()))  # too early: it should have waited for the answer to 2
    answer_all(foreman, foreman.hear((0, Hello(2))))
    fresh = foreman.hear((2, UPDATE))
    foreman.said()
    answer_all(foreman, stale)
    assert foreman.said() == []
    answer_all(foreman, fresh)
    assert foreman.said() == [(2, GREETING)]


# The greeting


@pytest.mark.parametrize("seq", [0, 1])
def test_an_unsolicited_greeting_is_ignored_before_and_after_hello(seq: int) -> None:
    worker = Side(Role.WORKER)
    assert worker.hear((seq, GREETING)) == []
    worker.exchange.request(Hello(2))
    assert worker.hear((seq, GREETING)) == []
    assert worker.hear((0, Ok(2))) == [Answered(Hello(2), Ok(2))]
    assert worker.exchange.state is State.OPEN


def test_a_worker_without_processors_takes_ok_0_for_its_answer() -> None:
    worker = Side(Role.WORKER)
    worker.exchange.request(Hello(0))
    assert worker.hear((1, GREETING)) == []
    assert worker.hear((0, GREETING)) == [Answered(Hello(0), GREETING)]


def test_a_foreman_may_be_greeted_too() -> None:
    assert Side(Role.FOREMAN).hear((0, GREETING)) == []


def test_no_peer_is_greeted_in_the_middle() -> None:
    with pytest.raises(RemoteProtocolError, match="answers nothing"):
        an_open_worker().hear((0, GREETING))


def test_a_result_may_come_before_hello() -> None:
    foreman = Side(Role.FOREMAN)
    assert asked(foreman.hear((0, UPDATE))) == [(0, UPDATE)]


def test_anything_else_before_hello_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="cannot send RESET in state greeting") as caught:
        Side(Role.FOREMAN).hear((0, Reset()))
    assert caught.value.code == ErrorCode.BAD_STATE


def test_a_message_of_the_other_side_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="a worker cannot send CANCEL"):
        an_open_foreman().hear((2, Cancel(())))


# Extensions and ends


def test_agreed_extensions_outlive_a_reset() -> None:
    worker = an_open_worker()
    worker.exchange.framing.agree(Extension.HEARTBEAT)
    worker.exchange.request(Reset())
    worker.hear((2, Reset()))
    assert worker.hear((0, Extended(0x20, b""))) == [ExtensionReceived(0, 0x20, b"")]


def test_a_last_error_of_the_peer_ends_the_link() -> None:
    with pytest.raises(RemoteProtocolError, match="the foreman gave up: bad_payload"):
        an_open_worker().hear((1, Error(ErrorCode.BAD_PAYLOAD)))


def test_answers_that_the_law_does_not_know_are_our_own_mistake() -> None:
    worker = an_open_worker()
    (event,) = worker.hear((3, JOB))
    assert isinstance(event, Requested)
    with pytest.raises(LocalProtocolError, match="cannot send RESET to JOB"):
        worker.exchange.answer(event, Reset())


@pytest.mark.parametrize("code", REFUSALS)
def test_a_foreman_that_takes_no_peer_in_says_why(code: ErrorCode) -> None:
    side = Side(Role.WORKER)
    side.exchange.request(Hello(2))
    with pytest.raises(RemoteProtocolError) as caught:
        side.hear((1, Error(code)))
    assert (caught.value.code, str(caught.value)) == (code, REFUSALS[code])
