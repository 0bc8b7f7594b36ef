"""Every state, every sender, everything that can be said: the conversation allows exactly what the law allows."""

from itertools import product
from typing import get_args

import pytest
from tests.builders import a_pair, a_result, a_task

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.law import V1_LAW, V1State
from gandy.doors.v1.link import V1Link
from gandy.doors.v1.wire import V1Message
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import Requested
from gandy.talk.exchange import Exchange, _Outstanding
from gandy.talk.law import LAW, Role, State, Step
from gandy.wire import v2
from gandy.wire.messages import Answer, Cancel, Error, Hello, Job, Message, Ok, Request, Reset, Stop, Update

# None of them is special: no greeting, no overflow, no immediate STOP.
SAMPLES: dict[type[Message], Message] = {
    Hello: Hello(1),
    Job: Job((a_task(),)),
    Update: Update(a_result()),
    Cancel: Cancel((a_pair(),)),
    Stop: Stop(1),
    Reset: Reset(0),
    Ok: Ok(1, 1),
    Error: Error(ErrorCode.NO_PROCS),
}
KINDS = get_args(Request)
STEPS = [Step(request) for request in KINDS]
STEPS += [Step(answer, to) for answer, to in product(get_args(Answer), KINDS)]
STATES = [state for state in State if state is not State.CLOSED]


def request_of(kind: type[Request]) -> Request:
    message = SAMPLES[kind]
    assert isinstance(message, Hello | Job | Update | Cancel | Stop | Reset)
    return message


def answer_of(kind: type[Message]) -> Answer:
    message = SAMPLES[kind]
    assert isinstance(message, Ok | Error | Reset)
    return message


def an_exchange(role: Role, state: State) -> Exchange:
    exchange = Exchange(role)
    exchange._state = state
    return exchange


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sender", Role)
def test_hearing(state: State, sender: Role, step: Step) -> None:
    exchange = an_exchange(sender.other, state)
    if step.answers is None:
        seq = 100 + sender.parity
    else:
        seq = 100 + sender.other.parity
        exchange._outstanding = _Outstanding(seq, request_of(step.answers))
    exchange.framing.receive_data(v2.encode(seq, SAMPLES[step.message]))
    if (state, sender, step) in LAW:
        exchange.next_event()
        expected = LAW[state, sender, step]
        answered_reset = step == Step(Reset) and exchange.state is State.GREETING
        assert exchange.state is expected or answered_reset
    else:
        with pytest.raises(RemoteProtocolError) as caught:
            exchange.next_event()
        assert caught.value.code == ErrorCode.BAD_STATE
        assert exchange.state is State.CLOSED


@pytest.mark.parametrize("step", [step for step in STEPS if step.answers is not None], ids=str)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sender", Role)
def test_answering(state: State, sender: Role, step: Step) -> None:
    assert step.answers is not None
    exchange = an_exchange(sender, state)
    ticket = Requested(100 + sender.other.parity, request_of(step.answers))
    exchange._handling[ticket.seq] = ticket
    if (state, sender, step) in LAW:
        exchange.answer(ticket, answer_of(step.message))
        assert exchange.state is LAW[state, sender, step]
    else:
        with pytest.raises(LocalProtocolError):
            exchange.answer(ticket, answer_of(step.message))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sender", Role)
def test_asking(state: State, sender: Role, kind: type[Request]) -> None:
    """Stricter than the law: gandy asks only from an open conversation, and HELLO also to open it."""
    exchange = an_exchange(sender, state)
    is_our_turn = state is State.OPEN or (kind is Hello and state is State.GREETING)
    if is_our_turn and (state, sender, Step(kind)) in LAW:
        exchange.request(request_of(kind))
        assert exchange.state is LAW[state, sender, Step(kind)]
    else:
        with pytest.raises(LocalProtocolError):
            exchange.request(request_of(kind))


V1_MESSAGES: list[V1Message] = [Ok(1), Job((a_task(),)), Update(a_result()), Stop(1), Error(2)]


@pytest.mark.parametrize("message", V1_MESSAGES, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("state", [state for state in V1State if state is not V1State.CLOSED])
@pytest.mark.parametrize("sender", Role)
def test_v1(state: V1State, sender: Role, message: V1Message) -> None:
    after = V1_LAW.get((state, sender, Step(type(message))))
    hearing, saying = V1Link(sender.other), V1Link(sender)
    hearing.state = saying.state = state
    hearing.receive_data(v1.encode(message))
    if after is None:
        with pytest.raises(RemoteProtocolError):
            hearing.next_message()
        with pytest.raises(LocalProtocolError):
            saying.send(message)
    else:
        assert hearing.next_message() == message
        saying.send(message)
        assert hearing.state is saying.state is after
