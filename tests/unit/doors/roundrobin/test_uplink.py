"""The connecting side of the round-robin queue, with the server played by hand."""

from math import inf

import pytest

from gandy.doors.roundrobin.heartbeat import GREETING_TIMEOUT, HEARTBEAT_EXPIRY, HEARTBEAT_PERIOD, PAUSE
from gandy.doors.roundrobin.limits import MAX_EXTRA_DISPATCHES
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.registration import REGISTER_DELAY, REGISTER_TIMEOUT
from gandy.doors.roundrobin.uplink import Uplink
from gandy.doors.roundrobin.uplink_events import (
    Connected,
    Deregistered,
    Dispatched,
    Event,
    Expired,
    RegisterConfirmed,
    RegisterRefused,
    Renew,
    Response,
    StreamRequested,
    Unreachable,
)
from gandy.doors.roundrobin.wire import (
    DEREGISTER,
    EXEC,
    FAILED,
    INCREMENT,
    MQS_MORE,
    ONGOING,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    TRACKADDRESS,
    TRACKEXEC,
    QueueMessage,
    encode,
    make_reply,
    make_response,
)

CLIENT = b"tcp://127.0.0.1:6714:62939"
WORKER = b"tcp://127.0.0.1:6714:234595"


class UplinkHarness:
    """An uplink, and a hand that plays its server and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.uplink = Uplink(self.now)
        self.uplink.on_socket(self.now)

    def sent(self) -> list[QueueMessage]:
        messages = list(self.uplink.outbox.messages)
        self.uplink.outbox.messages.clear()
        return messages

    def events(self) -> list[Event]:
        events = list(self.uplink.events)
        self.uplink.events.clear()
        return events

    def say(self, message: QueueMessage) -> list[Event]:
        self.uplink.on_frames(encode(message), self.now)
        return self.events()

    def pass_time(self, seconds: float) -> list[Event]:
        """As a shell does it: it wakes whenever something is due, and at the end."""
        end = self.now + seconds
        events = []
        while (due := self.uplink.next_deadline()) <= end:
            assert due > self.now - 1e-9, "what is due was not done"
            self.now = max(due, self.now)
            self.uplink.on_time(self.now)
            events += self.events()
        self.now = end
        self.uplink.on_time(end)
        return events + self.events()

    def connect(self) -> "UplinkHarness":
        (ping,) = self.sent()
        assert self.say(make_reply(ping, PONG)) == [Connected()]
        return self

    def register(self, slots: int = 10) -> "UplinkHarness":
        self.uplink.registration.register(slots, self.now)
        return self.answer_register(slots)

    def answer_register(self, free: int) -> "UplinkHarness":
        *others, message = self.sent()
        assert not others
        assert (message.command, message.args) == (TRACKEXEC, (REGISTER, b"%d" % free))
        assert self.say(make_reply(message)) == [RegisterConfirmed()]
        return self.take_ping()

    def take_ping(self) -> "UplinkHarness":
        """What a worker says behind the response to REGISTER: it is ready."""
        (ping,) = self.sent()
        assert (ping.command, ping.args, ping.to) == (PING, (), ())
        return self

    def dispatch(self, *numbers: int) -> list[int]:
        """The tickets."""
        events = [self.say(a_dispatch(number)) for number in numbers]
        tickets = []
        for number, (event,) in zip(numbers, events, strict=True):
            assert isinstance(event, Dispatched)
            assert event.message == a_dispatch(number)
            tickets.append(event.ticket)
        return tickets

    def keep_alive(self, seconds: float) -> list[Event]:
        """Time goes by, and the server answers each PING."""
        events = []
        for _ in range(int(seconds * 2)):
            events += self.pass_time(0.5)
            for message in self.sent():
                if message.command == PING:
                    events += self.say(make_reply(message, PONG))
                else:
                    self.uplink.outbox.messages.append(message)
            if self.uplink.outbox.messages:
                break
        return events


def a_dispatch(number: int, *args: bytes, command: bytes = TRACKEXEC) -> QueueMessage:
    return QueueMessage(command, number.to_bytes(4, "little"), args or (PING,), (), (CLIENT,))


def short(number: int) -> bytes:
    return number.to_bytes(4, "little")


def long(number: int) -> bytes:
    return number.to_bytes(8, "little")


# Greeting


def test_first_ping_is_answered_with_its_id() -> None:
    harness = UplinkHarness()
    assert harness.sent() == [QueueMessage(PING, long(0))]
    assert not harness.uplink.heartbeat.is_connected
    assert harness.uplink.heartbeat.since == harness.now
    assert harness.say(QueueMessage(PONG, long(7))) == []
    assert harness.say(QueueMessage(PONG, long(0))) == [Connected()]
    assert harness.uplink.heartbeat.is_connected
    assert harness.uplink.heartbeat.since is None
    assert harness.say(QueueMessage(PONG, long(0))) == []


def test_greeting_goes_on_for_ever_with_pauses() -> None:
    harness = UplinkHarness()
    start = harness.now
    for attempt in range(5):
        assert harness.sent() == [QueueMessage(PING, long(attempt))]
        assert harness.pass_time(GREETING_TIMEOUT - 0.1) == []
        assert harness.pass_time(0.1) == [Unreachable(start)]
        assert harness.pass_time(PAUSE - 0.1) == []
        assert harness.pass_time(0.1) == [Renew()]
        assert harness.uplink.next_deadline() == inf
        harness.uplink.on_socket(harness.now)
    harness.connect()


def test_late_pong_of_an_earlier_try_is_no_answer() -> None:
    harness = UplinkHarness()
    (first,) = harness.sent()
    harness.pass_time(GREETING_TIMEOUT + PAUSE)
    harness.uplink.on_socket(harness.now)
    assert harness.say(make_reply(first, PONG)) == []
    assert not harness.uplink.heartbeat.is_connected


def test_ping_is_repeated_when_the_connection_was_cut_during_the_greeting() -> None:
    harness = UplinkHarness()
    harness.uplink.on_reconnected(harness.now)
    assert harness.sent() == [QueueMessage(PING, long(0))] * 2


def test_a_connection_between_two_tries_is_not_greeted() -> None:
    harness = UplinkHarness()
    harness.pass_time(GREETING_TIMEOUT)
    harness.sent()
    harness.uplink.on_reconnected(harness.now)
    assert harness.sent() == []


def test_new_socket_is_not_told_what_was_for_the_old_one() -> None:
    harness = UplinkHarness()
    harness.pass_time(GREETING_TIMEOUT)
    harness.say(QueueMessage(PING, b"1234"))
    harness.pass_time(PAUSE)
    harness.uplink.on_socket(harness.now)
    assert harness.sent() == [QueueMessage(PING, long(1))]


# Heartbeat


def test_ping_of_the_server_is_answered() -> None:
    harness = UplinkHarness().connect()
    assert harness.say(QueueMessage(PING, b"1234")) == []
    assert harness.sent() == [QueueMessage(PONG, b"1234")]


def test_ping_from_afar_is_answered_the_way_that_it_came() -> None:
    harness = UplinkHarness().connect()
    harness.say(QueueMessage(PING, b"1234", (), (), (CLIENT, WORKER)))
    assert harness.sent() == [QueueMessage(PONG, b"1234", (), (WORKER, CLIENT))]


def test_silence_is_broken_by_a_ping() -> None:
    harness = UplinkHarness().connect()
    assert harness.pass_time(HEARTBEAT_PERIOD - 0.1) == []
    assert harness.sent() == []
    harness.pass_time(0.1)
    assert harness.sent() == [QueueMessage(PING, long(1))]
    harness.pass_time(HEARTBEAT_PERIOD)
    assert harness.sent() == [QueueMessage(PING, long(2))]


def test_any_word_of_the_server_puts_off_the_ping() -> None:
    harness = UplinkHarness().connect()
    for _ in range(5):
        harness.pass_time(HEARTBEAT_PERIOD - 0.1)
        harness.uplink.on_frames([b"nonsense"], harness.now)
    assert harness.sent() == []
    assert harness.uplink.dropped == 5


def test_server_that_answers_is_never_lost() -> None:
    harness = UplinkHarness().connect()
    assert harness.keep_alive(100.0) == []
    assert harness.uplink.heartbeat.is_connected


def test_silent_server_is_lost() -> None:
    harness = UplinkHarness().connect()
    start = harness.now
    assert harness.pass_time(HEARTBEAT_EXPIRY - 0.1) == []
    assert harness.pass_time(0.1) == [Unreachable(start), Renew()]
    assert harness.uplink.heartbeat.since == start
    assert harness.sent() == []
    harness.uplink.on_socket(harness.now)
    harness.connect()


def test_process_that_was_stopped_asks_before_it_takes_the_server_for_lost() -> None:
    harness = UplinkHarness().connect()
    harness.now += 1000.0
    harness.uplink.on_time(harness.now)
    assert harness.events() == []
    (ping,) = harness.sent()
    harness.pass_time(1.0)
    assert harness.say(make_reply(ping, PONG)) == []
    assert harness.uplink.heartbeat.is_connected


# Workers


def test_register_increment_and_deregister_are_those_of_the_capture() -> None:
    harness = UplinkHarness().connect()
    harness.uplink.registration.register(10, harness.now)
    assert [encode(message) for message in harness.sent()] == [
        [b"", b"LMQv100", b"\x04", bytes.fromhex("00000000"), b"\x08", b"10", b""]
    ]
    assert harness.say(QueueMessage(RESPONSE, bytes(4))) == [RegisterConfirmed()]
    harness.take_ping()
    (ticket,) = harness.dispatch(4)
    harness.uplink.registration.finish(ticket, harness.now, make_response(a_dispatch(4)))
    assert [encode(message) for message in harness.sent()] == [
        [b"", b"LMQv100", b"\x03", bytes.fromhex("01000000"), b"\x07", b""],
        [CLIENT, b"", b"LMQv100", b"\x06", bytes.fromhex("04000000"), b""],
    ]
    harness.uplink.registration.deregister()
    goodbye, ping = harness.sent()
    assert encode(goodbye) == [b"", b"LMQv100", b"\x03", b"WORKER", b"\x09", b""]
    assert ping.command == PING
    assert harness.say(make_reply(ping, PONG)) == [Deregistered()]
    assert harness.say(make_reply(ping, PONG)) == []


def test_worker_registers_when_it_is_connected() -> None:
    harness = UplinkHarness()
    harness.uplink.registration.register(3, harness.now)
    harness.connect().answer_register(3)


def test_register_is_repeated_until_it_is_answered() -> None:
    harness = UplinkHarness().connect()
    harness.uplink.registration.register(3, harness.now)
    (first,) = harness.sent()
    assert harness.keep_alive(REGISTER_TIMEOUT) == []
    assert harness.sent() == [first]
    assert harness.say(make_reply(first)) == [RegisterConfirmed()]
    assert harness.keep_alive(10 * REGISTER_TIMEOUT) == []


def test_worker_that_is_refused_asks_again() -> None:
    harness = UplinkHarness().connect()
    harness.uplink.registration.register(3, harness.now)
    (first,) = harness.sent()
    assert harness.say(make_reply(first, RESPONSE, FAILED, b"no place")) == [RegisterRefused("no place")]
    harness.keep_alive(REGISTER_TIMEOUT)
    assert harness.sent() == [first]
    assert harness.say(make_reply(first)) == [RegisterConfirmed()]


def test_worker_may_change_its_slots() -> None:
    UplinkHarness().connect().register(3).register(5)


def test_reconnected_worker_registers_the_slots_that_are_free() -> None:
    harness = UplinkHarness().connect().register(10)
    old = harness.dispatch(1, 2)
    harness.uplink.on_reconnected(harness.now)
    harness.answer_register(8)
    (new,) = harness.dispatch(3)
    harness.uplink.registration.finish(old[0], harness.now)
    harness.uplink.registration.finish(new, harness.now)
    assert [message.args for message in harness.sent()] == [(INCREMENT,)] * 2
    assert harness.keep_alive(REGISTER_DELAY) == []
    assert harness.sent() == []
    (newer,) = harness.dispatch(4)
    harness.uplink.registration.finish(old[1], harness.now)  # now the new server must learn that all is free but one
    assert [message.args for message in harness.sent()] == [(INCREMENT,)]
    assert harness.pass_time(REGISTER_DELAY) == []
    harness.answer_register(9)
    harness.uplink.registration.finish(newer, harness.now)
    assert [message.args for message in harness.sent()] == [(INCREMENT,)]
    assert harness.keep_alive(100.0) == []
    assert harness.sent() == []


def test_reconnected_worker_with_nothing_to_do_registers_once() -> None:
    harness = UplinkHarness().connect().register(10)
    harness.uplink.on_reconnected(harness.now)
    harness.answer_register(10)
    assert harness.keep_alive(100.0) == []
    assert harness.sent() == []


def test_reconnected_client_says_nothing() -> None:
    harness = UplinkHarness().connect()
    harness.uplink.on_reconnected(harness.now)
    assert harness.sent() == []


def test_next_server_hears_of_calls_of_the_last_one() -> None:
    harness = UplinkHarness().connect().register(10)
    ended, lasting = harness.dispatch(1, 2)
    assert harness.pass_time(HEARTBEAT_EXPIRY)[-1] == Renew()
    harness.uplink.registration.finish(ended, harness.now, make_response(a_dispatch(1)))
    assert harness.sent() == []  # no server is there
    harness.uplink.on_socket(harness.now)
    harness.connect()
    register, response = harness.sent()
    assert register.args == (REGISTER, b"9")
    assert response == make_reply(a_dispatch(1))
    harness.say(make_reply(register))
    harness.take_ping()
    harness.uplink.registration.finish(lasting, harness.now)
    assert [message.args for message in harness.sent()] == [(INCREMENT,)]
    harness.pass_time(REGISTER_DELAY)
    harness.answer_register(10)


def test_what_the_lost_server_did_not_take_goes_to_the_next_one() -> None:
    harness = UplinkHarness().connect().register(10)
    (ticket,) = harness.dispatch(1)
    response = make_reply(a_dispatch(1))
    cast = QueueMessage(EXEC, b"1234", (b"resize", b"a"))
    harness.uplink.registration.finish(ticket, harness.now, response)
    harness.uplink.outbox.send(cast)
    harness.say(QueueMessage(PING, b"ping"))
    assert harness.pass_time(HEARTBEAT_EXPIRY)[-1] == Renew()
    harness.uplink.on_socket(harness.now)
    harness.connect()
    register, *others = harness.sent()
    assert register.args == (REGISTER, b"10")
    assert others == [response, cast]


def test_deregistered_worker_does_not_register_again() -> None:
    harness = UplinkHarness().connect().register(10)
    (old,) = harness.dispatch(1)
    harness.uplink.on_reconnected(harness.now)
    harness.answer_register(9)
    harness.uplink.registration.deregister()
    harness.uplink.registration.finish(old, harness.now)
    assert [message.args for message in harness.sent()] == [(DEREGISTER,), (), (INCREMENT,)]
    assert harness.keep_alive(10.0) == []
    harness.uplink.on_reconnected(harness.now)
    assert harness.sent() == []


def test_deregistered_worker_still_takes_what_was_under_way() -> None:
    harness = UplinkHarness().connect().register(10)
    harness.uplink.registration.deregister()
    assert len(harness.dispatch(1)) == 1


def test_goodbye_needs_no_answer_where_there_is_no_server() -> None:
    harness = UplinkHarness()
    harness.uplink.registration.register(10, harness.now)
    harness.uplink.registration.deregister()
    assert harness.events() == [Deregistered()]
    harness.connect()
    assert harness.sent() == []


def test_goodbye_ends_when_the_server_is_lost() -> None:
    harness = UplinkHarness().connect().register(10)
    harness.uplink.registration.deregister()
    events = harness.pass_time(HEARTBEAT_EXPIRY)
    assert events[1:] == [Deregistered(), Renew()]


def test_words_about_streams_take_no_slot() -> None:
    harness = UplinkHarness().connect().register(1)
    for command in (MQS_MORE, ONGOING):
        message = a_dispatch(1, command, b"STREAM_ID")
        assert harness.say(message) == [StreamRequested(message)]
    assert harness.uplink.registration.free == 1


@pytest.mark.parametrize("command", [EXEC, TRACKEXEC])
def test_dispatch_without_a_command_is_told_too(command: bytes) -> None:
    harness = UplinkHarness().connect().register(1)
    message = QueueMessage(command, b"1234", (), (), (CLIENT,))
    assert harness.say(message) == [Dispatched(1, message)]
    assert harness.uplink.registration.free == 0


def test_flood_of_dispatches_is_sent_back() -> None:
    harness = UplinkHarness().connect().register(2)
    harness.dispatch(*range(MAX_EXTRA_DISPATCHES + 2))
    assert harness.uplink.registration.free == 0
    assert harness.say(a_dispatch(7)) == []
    assert harness.say(a_dispatch(8, command=EXEC)) == []
    first, reply, second = harness.sent()
    assert reply == make_reply(a_dispatch(7), RESPONSE, FAILED, b"the worker has too much to do")
    assert (first.args, second.args) == ((INCREMENT,), (INCREMENT,))


def test_who_is_no_worker_gets_nothing_to_do() -> None:
    harness = UplinkHarness().connect()
    assert harness.say(a_dispatch(1)) == []
    assert harness.say(QueueMessage(TRACKADDRESS, b"1234", (b"tcp://host:1",))) == []
    assert harness.sent() == []
    assert harness.uplink.dropped == 2


# Clients


def test_requests_have_the_ids_of_the_original() -> None:
    harness = UplinkHarness().connect()
    uplink = harness.uplink
    assert uplink.requests.send(PING, now=harness.now, timeout=15.0) == long(1)
    assert uplink.requests.send(b"\x0a", b"STREAM_ID", b"1024", now=harness.now, timeout=10.0) == short(0)
    assert uplink.requests.send(b"\x20", now=harness.now, timeout=1.0, track=False) == short(1)
    assert harness.sent() == [
        QueueMessage(TRACKEXEC, long(1), (PING,)),
        QueueMessage(TRACKEXEC, short(0), (b"\x0a", b"STREAM_ID", b"1024")),
        QueueMessage(EXEC, short(1), (b"\x20",)),
    ]


def test_connections_may_share_their_numbers() -> None:
    numbers = MessageIds()
    ids = [Uplink(0.0, numbers).requests.send(b"\x20", now=0.0, timeout=1.0) for _ in range(3)]
    assert ids == [short(0), short(1), short(2)]


def test_response_comes_with_its_way_back() -> None:
    harness = UplinkHarness().connect()
    number = harness.uplink.requests.send(b"\x0a", now=harness.now, timeout=10.0)
    answer = QueueMessage(RESPONSE, number, (b"packet",), (), (WORKER,))
    assert harness.say(answer) == [Response(number, (b"packet",), (WORKER,))]
    assert harness.say(answer) == []  # a second one
    assert harness.uplink.dropped == 1
    more = harness.uplink.requests.send(MQS_MORE, b"STREAM_ID", now=harness.now, timeout=10.0, to=(WORKER,))
    assert harness.sent()[-1] == QueueMessage(TRACKEXEC, more, (MQS_MORE, b"STREAM_ID"), (WORKER,))
    assert harness.keep_alive(30.0) == [Expired(more, "no answer came in time")]


def test_request_expires() -> None:
    harness = UplinkHarness().connect()
    late = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=5.0)
    early = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=3.0)
    harness.sent()
    assert harness.pass_time(4.9) == [Expired(early, "no answer came in time")]
    assert harness.pass_time(0.1) == [Expired(late, "no answer came in time")]
    assert harness.say(QueueMessage(RESPONSE, late)) == []


def test_forgotten_request_does_not_expire() -> None:
    harness = UplinkHarness().connect()
    number = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=1.0)
    harness.uplink.requests.forget(number)
    assert harness.pass_time(1.5) == []


def test_requests_wait_for_the_server() -> None:
    harness = UplinkHarness()
    early = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=1.0)
    late = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=5.0)
    cast = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=1.0, track=False)
    assert harness.pass_time(2.0) == [Expired(early, "no answer came in time")]
    harness.connect()
    assert [message.id for message in harness.sent()] == [late, cast]


def test_requests_fail_when_the_server_is_lost() -> None:
    harness = UplinkHarness().connect()
    number = harness.uplink.requests.send(b"\x20", now=harness.now, timeout=100.0)
    events = harness.pass_time(HEARTBEAT_EXPIRY)
    assert events[1:] == [Expired(number, "the server was lost"), Renew()]
    harness.uplink.on_socket(harness.now)
    harness.connect()
    assert harness.sent() == []
