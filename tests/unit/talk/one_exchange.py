"""An exchange under test, whose peer the tests write by hand, so that it can do what no gandy peer would."""

from tests.builders import a_result, a_task, decode_all

from gandy.talk.events import ExchangeEvent, Requested
from gandy.talk.exchange import Exchange
from gandy.talk.law import Role
from gandy.wire import v2
from gandy.wire.messages import (
    GREETING,
    STOP_IMMEDIATELY,
    Hello,
    Job,
    Message,
    Ok,
    Stop,
    Update,
)

JOB = Job((a_task(),))
UPDATE = Update(a_result())
STOP_NOW = Stop(STOP_IMMEDIATELY)


class Side:
    """An exchange under test, and a hand that plays its peer."""

    def __init__(self, role: Role, held_limit: int = 16, last_number: int = 0xFFFF_FFFF) -> None:
        self.exchange = Exchange(role, held_limit=held_limit, last_number=last_number)
        self.written: list[tuple[int, Message]] = []

    def hear(self, *numbered: tuple[int, Message]) -> list[ExchangeEvent]:
        for seq, message in numbered:
            self.exchange.framing.receive_data(v2.encode(seq, message))
        return self.pull()

    def pull(self) -> list[ExchangeEvent]:
        events = []
        while (event := self.exchange.next_event()) is not None:
            events.append(event)
        return events

    def said(self) -> list[tuple[int, Message]]:
        """What it wrote since the last look."""
        return decode_all(self.exchange.framing.data_to_send())


def an_open_worker(held_limit: int = 16, last_number: int = 0xFFFF_FFFF) -> Side:
    side = Side(Role.WORKER, held_limit, last_number)
    side.exchange.request(Hello(2))
    side.hear((0, Ok(2)))
    side.said()
    return side


def an_open_foreman(held_limit: int = 16, last_number: int = 0xFFFF_FFFF) -> Side:
    side = Side(Role.FOREMAN, held_limit, last_number)
    answer_all(side, side.hear((0, Hello(2))))
    side.said()
    return side


def answer_all(side: Side, events: list[ExchangeEvent], answer: Ok = GREETING) -> None:
    for event in events:
        if isinstance(event, Requested):
            side.exchange.answer(event, answer)


def asked(events: list[ExchangeEvent]) -> list[tuple[int, Message]]:
    return [(event.seq, event.message) for event in events if isinstance(event, Requested)]
