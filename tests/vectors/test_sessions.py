"""Conversations recorded between two originals, with each side in turn played by gandy.

docs/protocol/sessions.md explains the places where gandy answers differently.
"""

import json
from pathlib import Path

import pytest
from tests.builders import decode_all

from gandy.talk.events import Leave, Reported, WorkerEvent
from gandy.talk.foreman import ForemanSide
from gandy.talk.law import State
from gandy.talk.worker import WorkerSide
from gandy.wire import v2
from gandy.wire.messages import Cancel, Error, Extension, Hello, Job, Message, Ok, Request, Stop, Update

Session = list[tuple[str, bytes]]

SESSIONS: dict[str, Session] = {
    session["name"]: [(frame["from"], bytes.fromhex(frame["hex"])) for frame in session["frames"]]
    for session in json.loads((Path(__file__).parent / "jobs-v2-sessions.json").read_text())
}


def decode(frame: bytes) -> tuple[int, Message]:
    (numbered,) = decode_all(frame)
    return numbered


def play_worker(session: Session) -> tuple[bytes, list[WorkerEvent], WorkerSide]:
    """What gandy's worker writes when it hears what the original's foreman wrote."""
    worker = WorkerSide(2, offers=Extension.NONE)
    worker.connect()
    written = worker.data_to_send()
    events = []
    for sender, frame in session:
        if sender == "foreman":
            worker.receive_data(frame)
        elif isinstance(message := decode(frame)[1], Update) and message.result is not None:
            worker.end(message.result)  # the recording says that a task ended here
        while (event := worker.next_event()) is not None:
            events.append(event)
        written += worker.data_to_send()
    return written, events, worker


def by(sender: str, session: Session) -> bytes:
    return b"".join(frame for who, frame in session if who == sender)


@pytest.mark.parametrize("name", [name for name in SESSIONS if name != "C_stop0"])
def test_our_worker_writes_what_the_originals_wrote(name: str) -> None:
    written, _, _ = play_worker(SESSIONS[name])
    assert written == by("worker", SESSIONS[name])


def test_stop_0_stops_all_as_the_seed_says() -> None:
    written, events, _ = play_worker(SESSIONS["C_stop0"])
    assert decode_all(written) == [(0, Hello(2)), (3, Ok(0, 0))]
    assert events[-1] == Leave(immediate=False)
    assert decode_all(by("worker", SESSIONS["C_stop0"]))[1] == (3, Ok(1, 0))


def test_a_greeting_with_number_0_does_not_end_our_worker() -> None:
    _, events, worker = play_worker(SESSIONS["D_ok0_seq0"])
    assert worker.state is State.OPEN
    assert Leave(immediate=False) not in events


def ask(foreman: ForemanSide, message: Request) -> None:
    """Ask exactly what the recording asks, also what gandy's foreman would ask otherwise (see `give`, `stop_all`)."""
    if isinstance(message, Job):
        foreman.slots.take(message.tasks)
    foreman.exchange.request(message)


def play_foreman(session: Session) -> bytes:
    """What gandy's foreman writes when it hears what the original's worker wrote and asks what its foreman asked."""
    foreman = ForemanSide(offers=Extension.NONE)
    written = b""
    for sender, frame in session:
        if sender == "worker":
            foreman.receive_data(frame)
        else:
            _, message = decode(frame)
            match message:
                case Job() | Cancel() | Stop():
                    ask(foreman, message)
                case Ok() if foreman.state is State.GREETING:
                    foreman.greet()
                case Ok() | Error():
                    pass
                case _:
                    raise AssertionError(message)
        while (event := foreman.next_event()) is not None:
            if isinstance(event, Reported):
                foreman.acknowledge(event)
        written += foreman.data_to_send()
    return written


@pytest.mark.parametrize("name", [name for name in SESSIONS if name != "D_ok0_seq0"])
def test_our_foreman_writes_what_the_originals_wrote(name: str) -> None:
    assert play_foreman(SESSIONS[name]) == by("foreman", SESSIONS[name])


def test_our_foreman_greets_with_number_1_only() -> None:
    written = decode_all(play_foreman(SESSIONS["D_ok0_seq0"]))
    assert written == [(1, Ok(0)), (0, Ok(2))]
    assert v2.encode(0, Ok(0)) == SESSIONS["D_ok0_seq0"][0][1]
