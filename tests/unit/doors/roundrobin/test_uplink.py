"""The connecting side of the round-robin queue, with the server played by hand."""

from math import inf

import pytest

from gandy.doors.roundrobin.heartbeat import GREETING_TIMEOUT, HEARTBEAT_EXPIRY, HEARTBEAT_PERIOD, PAUSE
from gandy.doors.roundrobin.message_ids import LAST_NUMBER, MessageIds
from gandy.doors.roundrobin.registration import MAX_EXTRA, REGISTER_DELAY, REGISTER_TIMEOUT
from gandy.doors.roundrobin.uplink import (
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
    Uplink,
    make_response,
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
)

CLIENT = b"tcp://127.0.0.1:6714:62939"
WORKER = b"tcp://127.0.0.1:6714:234595"


class Seat:
    """An uplink, and a hand that plays its server and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.uplink = Uplink(self.now)
        self.uplink.on_socket(self.now)

    def sent(self) -> list[QueueMessage]:
        messages = list(self.uplink.outbox)
        self.uplink.outbox.clear()
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

    def connect(self) -> "Seat":
        (ping,) = self.sent()
        assert self.say(make_reply(ping, PONG)) == [Connected()]
        return self

    def register(self, slots: int = 10) -> "Seat":
        self.uplink.register(slots, self.now)
        return self.answer_register(slots)

    def answer_register(self, free: int) -> "Seat":
        *others, message = self.sent()
        assert not others
        assert (message.command, message.args) == (TRACKEXEC, (REGISTER, b"%d" % free))
        assert self.say(make_reply(message)) == [RegisterConfirmed()]
        return self.take_ping()

    def take_ping(self) -> "Seat":
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
                    self.uplink.outbox.append(message)
            if self.uplink.outbox:
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
    seat = Seat()
    assert seat.sent() == [QueueMessage(PING, long(0))]
    assert not seat.uplink.is_connected
    assert seat.uplink.since == seat.now
    assert seat.say(QueueMessage(PONG, long(7))) == []
    assert seat.say(QueueMessage(PONG, long(0))) == [Connected()]
    assert seat.uplink.is_connected
    assert seat.uplink.since is None
    assert seat.say(QueueMessage(PONG, long(0))) == []


def test_greeting_goes_on_for_ever_with_pauses() -> None:
    seat = Seat()
    start = seat.now
    for attempt in range(5):
        assert seat.sent() == [QueueMessage(PING, long(attempt))]
        assert seat.pass_time(GREETING_TIMEOUT - 0.1) == []
        assert seat.pass_time(0.1) == [Unreachable(start)]
        assert seat.pass_time(PAUSE - 0.1) == []
        assert seat.pass_time(0.1) == [Renew()]
        assert seat.uplink.next_deadline() == inf
        seat.uplink.on_socket(seat.now)
    seat.connect()


def test_late_pong_of_an_earlier_try_is_no_answer() -> None:
    seat = Seat()
    (first,) = seat.sent()
    seat.pass_time(GREETING_TIMEOUT + PAUSE)
    seat.uplink.on_socket(seat.now)
    assert seat.say(make_reply(first, PONG)) == []
    assert not seat.uplink.is_connected


def test_ping_is_repeated_when_the_connection_was_cut_during_the_greeting() -> None:
    seat = Seat()
    seat.uplink.on_reconnected(seat.now)
    assert seat.sent() == [QueueMessage(PING, long(0))] * 2


def test_new_socket_is_not_told_what_was_for_the_old_one() -> None:
    seat = Seat()
    seat.pass_time(GREETING_TIMEOUT)
    seat.say(QueueMessage(PING, b"1234"))
    seat.pass_time(PAUSE)
    seat.uplink.on_socket(seat.now)
    assert seat.sent() == [QueueMessage(PING, long(1))]


# Heartbeat


def test_ping_of_the_server_is_answered() -> None:
    seat = Seat().connect()
    assert seat.say(QueueMessage(PING, b"1234")) == []
    assert seat.sent() == [QueueMessage(PONG, b"1234")]


def test_ping_from_afar_is_answered_the_way_that_it_came() -> None:
    seat = Seat().connect()
    seat.say(QueueMessage(PING, b"1234", (), (), (CLIENT, WORKER)))
    assert seat.sent() == [QueueMessage(PONG, b"1234", (), (WORKER, CLIENT))]


def test_silence_is_broken_by_a_ping() -> None:
    seat = Seat().connect()
    assert seat.pass_time(HEARTBEAT_PERIOD - 0.1) == []
    assert seat.sent() == []
    seat.pass_time(0.1)
    assert seat.sent() == [QueueMessage(PING, long(1))]
    seat.pass_time(HEARTBEAT_PERIOD)
    assert seat.sent() == [QueueMessage(PING, long(2))]


def test_any_word_of_the_server_puts_off_the_ping() -> None:
    seat = Seat().connect()
    for _ in range(5):
        seat.pass_time(HEARTBEAT_PERIOD - 0.1)
        seat.uplink.on_frames([b"nonsense"], seat.now)
    assert seat.sent() == []
    assert seat.uplink.dropped == 5


def test_server_that_answers_is_never_lost() -> None:
    seat = Seat().connect()
    assert seat.keep_alive(100.0) == []
    assert seat.uplink.is_connected


def test_silent_server_is_lost() -> None:
    seat = Seat().connect()
    start = seat.now
    assert seat.pass_time(HEARTBEAT_EXPIRY - 0.1) == []
    assert seat.pass_time(0.1) == [Unreachable(start), Renew()]
    assert seat.uplink.since == start
    assert seat.sent() == []
    seat.uplink.on_socket(seat.now)
    seat.connect()


def test_process_that_was_stopped_asks_before_it_takes_the_server_for_lost() -> None:
    seat = Seat().connect()
    seat.now += 1000.0
    seat.uplink.on_time(seat.now)
    assert seat.events() == []
    (ping,) = seat.sent()
    seat.pass_time(1.0)
    assert seat.say(make_reply(ping, PONG)) == []
    assert seat.uplink.is_connected


# Workers


def test_register_increment_and_deregister_are_those_of_the_capture() -> None:
    seat = Seat().connect()
    seat.uplink.register(10, seat.now)
    assert [encode(message) for message in seat.sent()] == [
        [b"", b"LMQv100", b"\x04", bytes.fromhex("00000000"), b"\x08", b"10", b""]
    ]
    assert seat.say(QueueMessage(RESPONSE, bytes(4))) == [RegisterConfirmed()]
    seat.take_ping()
    (ticket,) = seat.dispatch(4)
    seat.uplink.finish(ticket, seat.now, make_response(a_dispatch(4)))
    assert [encode(message) for message in seat.sent()] == [
        [b"", b"LMQv100", b"\x03", bytes.fromhex("01000000"), b"\x07", b""],
        [CLIENT, b"", b"LMQv100", b"\x06", bytes.fromhex("04000000"), b""],
    ]
    seat.uplink.deregister()
    goodbye, ping = seat.sent()
    assert encode(goodbye) == [b"", b"LMQv100", b"\x03", b"WORKER", b"\x09", b""]
    assert ping.command == PING
    assert seat.say(make_reply(ping, PONG)) == [Deregistered()]
    assert seat.say(make_reply(ping, PONG)) == []


def test_worker_registers_when_it_is_connected() -> None:
    seat = Seat()
    seat.uplink.register(3, seat.now)
    seat.connect().answer_register(3)


def test_register_is_repeated_until_it_is_answered() -> None:
    seat = Seat().connect()
    seat.uplink.register(3, seat.now)
    (first,) = seat.sent()
    assert seat.keep_alive(REGISTER_TIMEOUT) == []
    assert seat.sent() == [first]
    assert seat.say(make_reply(first)) == [RegisterConfirmed()]
    assert seat.keep_alive(10 * REGISTER_TIMEOUT) == []


def test_worker_that_is_refused_asks_again() -> None:
    seat = Seat().connect()
    seat.uplink.register(3, seat.now)
    (first,) = seat.sent()
    assert seat.say(make_reply(first, RESPONSE, FAILED, b"no place")) == [RegisterRefused("no place")]
    seat.keep_alive(REGISTER_TIMEOUT)
    assert seat.sent() == [first]
    assert seat.say(make_reply(first)) == [RegisterConfirmed()]


def test_worker_may_change_its_slots() -> None:
    Seat().connect().register(3).register(5)


def test_reconnected_worker_registers_the_slots_that_are_free() -> None:
    seat = Seat().connect().register(10)
    old = seat.dispatch(1, 2)
    seat.uplink.on_reconnected(seat.now)
    seat.answer_register(8)
    (new,) = seat.dispatch(3)
    seat.uplink.finish(old[0], seat.now)
    seat.uplink.finish(new, seat.now)
    assert [message.args for message in seat.sent()] == [(INCREMENT,)] * 2
    assert seat.keep_alive(REGISTER_DELAY) == []
    assert seat.sent() == []
    (newer,) = seat.dispatch(4)
    seat.uplink.finish(old[1], seat.now)  # now the new server must learn that all is free but one
    assert [message.args for message in seat.sent()] == [(INCREMENT,)]
    assert seat.pass_time(REGISTER_DELAY) == []
    seat.answer_register(9)
    seat.uplink.finish(newer, seat.now)
    assert [message.args for message in seat.sent()] == [(INCREMENT,)]
    assert seat.keep_alive(100.0) == []
    assert seat.sent() == []


def test_reconnected_worker_with_nothing_to_do_registers_once() -> None:
    seat = Seat().connect().register(10)
    seat.uplink.on_reconnected(seat.now)
    seat.answer_register(10)
    assert seat.keep_alive(100.0) == []
    assert seat.sent() == []


def test_reconnected_client_says_nothing() -> None:
    seat = Seat().connect()
    seat.uplink.on_reconnected(seat.now)
    assert seat.sent() == []


def test_next_server_hears_of_calls_of_the_last_one() -> None:
    seat = Seat().connect().register(10)
    ended, lasting = seat.dispatch(1, 2)
    assert seat.pass_time(HEARTBEAT_EXPIRY)[-1] == Renew()
    seat.uplink.finish(ended, seat.now, make_response(a_dispatch(1)))
    assert seat.sent() == []  # nobody is there
    seat.uplink.on_socket(seat.now)
    seat.connect()
    register, response = seat.sent()
    assert register.args == (REGISTER, b"9")
    assert response == make_reply(a_dispatch(1))
    seat.say(make_reply(register))
    seat.take_ping()
    seat.uplink.finish(lasting, seat.now)
    assert [message.args for message in seat.sent()] == [(INCREMENT,)]
    seat.pass_time(REGISTER_DELAY)
    seat.answer_register(10)


def test_what_the_lost_server_did_not_take_goes_to_the_next_one() -> None:
    seat = Seat().connect().register(10)
    (ticket,) = seat.dispatch(1)
    response = make_reply(a_dispatch(1))
    cast = QueueMessage(EXEC, b"1234", (b"resize", b"a"))
    seat.uplink.finish(ticket, seat.now, response)
    seat.uplink.send(cast)
    seat.say(QueueMessage(PING, b"ping"))
    assert seat.pass_time(HEARTBEAT_EXPIRY)[-1] == Renew()
    seat.uplink.on_socket(seat.now)
    seat.connect()
    register, *others = seat.sent()
    assert register.args == (REGISTER, b"10")
    assert others == [response, cast]


def test_deregistered_worker_does_not_register_again() -> None:
    seat = Seat().connect().register(10)
    (old,) = seat.dispatch(1)
    seat.uplink.on_reconnected(seat.now)
    seat.answer_register(9)
    seat.uplink.deregister()
    seat.uplink.finish(old, seat.now)
    assert [message.args for message in seat.sent()] == [(DEREGISTER,), (), (INCREMENT,)]
    assert seat.keep_alive(10.0) == []
    seat.uplink.on_reconnected(seat.now)
    assert seat.sent() == []


def test_deregistered_worker_still_takes_what_was_under_way() -> None:
    seat = Seat().connect().register(10)
    seat.uplink.deregister()
    assert len(seat.dispatch(1)) == 1


def test_goodbye_needs_no_answer_where_there_is_no_server() -> None:
    seat = Seat()
    seat.uplink.register(10, seat.now)
    seat.uplink.deregister()
    assert seat.events() == [Deregistered()]
    seat.connect()
    assert seat.sent() == []


def test_goodbye_ends_when_the_server_is_lost() -> None:
    seat = Seat().connect().register(10)
    seat.uplink.deregister()
    events = seat.pass_time(HEARTBEAT_EXPIRY)
    assert events[1:] == [Deregistered(), Renew()]


def test_words_about_streams_take_no_slot() -> None:
    seat = Seat().connect().register(1)
    for command in (MQS_MORE, ONGOING):
        message = a_dispatch(1, command, b"STREAM_ID")
        assert seat.say(message) == [StreamRequested(message)]
    assert seat.uplink.free == 1


@pytest.mark.parametrize("command", [EXEC, TRACKEXEC])
def test_dispatch_without_a_command_is_told_too(command: bytes) -> None:
    seat = Seat().connect().register(1)
    message = QueueMessage(command, b"1234", (), (), (CLIENT,))
    assert seat.say(message) == [Dispatched(1, message)]
    assert seat.uplink.free == 0


def test_flood_of_dispatches_is_sent_back() -> None:
    seat = Seat().connect().register(2)
    seat.dispatch(*range(MAX_EXTRA + 2))
    assert seat.uplink.free == 0
    assert seat.say(a_dispatch(7)) == []
    assert seat.say(a_dispatch(8, command=EXEC)) == []
    first, reply, second = seat.sent()
    assert reply == make_reply(a_dispatch(7), RESPONSE, FAILED, b"the worker has too much to do")
    assert (first.args, second.args) == ((INCREMENT,), (INCREMENT,))


def test_who_is_no_worker_gets_nothing_to_do() -> None:
    seat = Seat().connect()
    assert seat.say(a_dispatch(1)) == []
    assert seat.say(QueueMessage(TRACKADDRESS, b"1234", (b"tcp://host:1",))) == []
    assert seat.sent() == []
    assert seat.uplink.dropped == 2


# Clients


def test_requests_have_the_ids_of_the_original() -> None:
    seat = Seat().connect()
    uplink = seat.uplink
    assert uplink.request(PING, now=seat.now, timeout=15.0) == long(1)
    assert uplink.request(b"\x0a", b"STREAM_ID", b"1024", now=seat.now, timeout=10.0) == short(0)
    assert uplink.request(b"\x20", now=seat.now, timeout=1.0, track=False) == short(1)
    assert seat.sent() == [
        QueueMessage(TRACKEXEC, long(1), (PING,)),
        QueueMessage(TRACKEXEC, short(0), (b"\x0a", b"STREAM_ID", b"1024")),
        QueueMessage(EXEC, short(1), (b"\x20",)),
    ]


def test_numbers_begin_again_after_a_thousand_million() -> None:
    numbers = MessageIds()
    numbers._short = iter((LAST_NUMBER - 1, LAST_NUMBER))  # type: ignore[assignment]
    assert [numbers.take_short(), numbers.take_short()] == [short(LAST_NUMBER - 1), short(0)]


def test_connections_may_share_their_numbers() -> None:
    numbers = MessageIds()
    ids = [Uplink(0.0, numbers).request(b"\x20", now=0.0, timeout=1.0) for _ in range(3)]
    assert ids == [short(0), short(1), short(2)]


def test_response_comes_with_its_way_back() -> None:
    seat = Seat().connect()
    number = seat.uplink.request(b"\x0a", now=seat.now, timeout=10.0)
    answer = QueueMessage(RESPONSE, number, (b"packet",), (), (WORKER,))
    assert seat.say(answer) == [Response(number, (b"packet",), (WORKER,))]
    assert seat.say(answer) == []  # a second one
    assert seat.uplink.dropped == 1
    more = seat.uplink.request(MQS_MORE, b"STREAM_ID", now=seat.now, timeout=10.0, to=(WORKER,))
    assert seat.sent()[-1] == QueueMessage(TRACKEXEC, more, (MQS_MORE, b"STREAM_ID"), (WORKER,))
    assert seat.keep_alive(30.0) == [Expired(more, "no answer came in time")]


def test_request_expires() -> None:
    seat = Seat().connect()
    late = seat.uplink.request(b"\x20", now=seat.now, timeout=5.0)
    early = seat.uplink.request(b"\x20", now=seat.now, timeout=3.0)
    seat.sent()
    assert seat.pass_time(4.9) == [Expired(early, "no answer came in time")]
    assert seat.pass_time(0.1) == [Expired(late, "no answer came in time")]
    assert seat.say(QueueMessage(RESPONSE, late)) == []


def test_forgotten_request_does_not_expire() -> None:
    seat = Seat().connect()
    number = seat.uplink.request(b"\x20", now=seat.now, timeout=1.0)
    seat.uplink.forget(number)
    assert seat.pass_time(1.5) == []


def test_requests_wait_for_the_server() -> None:
    seat = Seat()
    early = seat.uplink.request(b"\x20", now=seat.now, timeout=1.0)
    late = seat.uplink.request(b"\x20", now=seat.now, timeout=5.0)
    cast = seat.uplink.request(b"\x20", now=seat.now, timeout=1.0, track=False)
    assert seat.pass_time(2.0) == [Expired(early, "no answer came in time")]
    seat.connect()
    assert [message.id for message in seat.sent()] == [late, cast]


def test_requests_fail_when_the_server_is_lost() -> None:
    seat = Seat().connect()
    number = seat.uplink.request(b"\x20", now=seat.now, timeout=100.0)
    events = seat.pass_time(HEARTBEAT_EXPIRY)
    assert events[1:] == [Expired(number, "the server was lost"), Renew()]
    seat.uplink.on_socket(seat.now)
    seat.connect()
    assert seat.sent() == []
