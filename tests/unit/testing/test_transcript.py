import pytest
from tests.builders import a_pair, a_result, some_tasks

from gandy.talk.law import Role
from gandy.testing import Transcript
from gandy.testing.transcript import describe
from gandy.wire import v2
from gandy.wire.messages import (
    GREETING,
    RESEND_HELLO,
    STOP_ALL,
    STOP_IMMEDIATELY,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Message,
    Ok,
    Reset,
    Stop,
    Update,
)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Hello(2), "HELLO   2 free, running: nothing"),
        (Job(some_tasks(2)), "JOB     start 1.1, 1.2"),
        (Ok(1, 1), "OK      1 free, 1 running"),
        (Ok(1, 1, Extension.ATOMIC), "OK      1 free, 1 running, speaks atomic"),
        (RESEND_HELLO, "OK      send HELLO again"),
        (GREETING, "OK      0"),
        (Update(a_result(3, success=False, status="exit 1")), "UPDATE  1.3 failed: exit 1"),
        (Update(None), "UPDATE  empty"),
        (Cancel((a_pair(1, -1), a_pair(2, 5))), "CANCEL  all of 1, 2.5"),
        (Stop(3), "STOP    3"),
        (Stop(STOP_ALL), "STOP    all"),
        (Stop(STOP_IMMEDIATELY), "STOP    now"),
        (Error(2), "ERROR   no_procs"),
        (Reset(), "RESET"),
        (Extended(0x21, b"abc"), "0x21    3 bytes"),
    ],
)
def test_every_message_has_a_line(message: Message, text: str) -> None:
    assert describe(message) == text


def test_lines_come_when_messages_arrive_whole() -> None:
    lines: list[str] = []
    transcript = Transcript(lines.append, lambda: 0.25)
    frame = v2.encode(0, Hello(2))
    transcript.on_sent(Role.WORKER, frame)
    transcript.on_delivered(Role.WORKER, frame[:20])
    assert lines == []
    transcript.on_delivered(Role.WORKER, frame[20:])
    assert lines == ["   250.00 ms  worker  ──▶     0  HELLO   2 free, running: nothing"]
