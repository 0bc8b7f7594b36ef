"""Messages to a server that may come and go."""

from gandy.doors.roundrobin.heartbeat import Heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.doors.roundrobin.wire import EXEC, INCREMENT, PING, REGISTER, RESPONSE, TRACKEXEC, QueueMessage

REQUEST = QueueMessage(TRACKEXEC, b"1", (b"\x20",))
CAST = QueueMessage(EXEC, b"2", (b"\x20",))
ANSWER = QueueMessage(RESPONSE, b"3")


def make_outbox(has_server: bool) -> ServerOutbox:
    heartbeat = Heartbeat(0.0, MessageIds())
    greeting = heartbeat.greet(0.0)
    assert not has_server or heartbeat.on_pong(greeting.id)
    return ServerOutbox(heartbeat)


def test_without_a_server_messages_are_held() -> None:
    outbox = make_outbox(has_server=False)
    for message in (REQUEST, CAST, ANSWER):
        outbox.send(message)
    assert not outbox.messages
    outbox.on_server({REQUEST.id})
    assert list(outbox.messages) == [REQUEST, CAST, ANSWER]


def test_requests_that_have_expired_are_not_sent() -> None:
    outbox = make_outbox(has_server=False)
    outbox.send(REQUEST)
    outbox.on_server(())
    assert not outbox.messages


def test_what_is_about_one_server_does_not_go_to_the_next() -> None:
    outbox = make_outbox(has_server=True)
    own = [
        QueueMessage(EXEC, b"4", (INCREMENT,)),
        QueueMessage(TRACKEXEC, b"5", (REGISTER, b"2")),
        QueueMessage(PING, b"6"),
    ]
    for message in (*own, CAST, ANSWER):
        outbox.send(message)
    outbox.on_lost()
    assert not outbox.messages
    outbox.on_server(())
    assert list(outbox.messages) == [CAST, ANSWER]
