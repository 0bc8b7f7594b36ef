"""A private ensemble among strangers: they are not heard, nothing grows, and the others go on."""

import os
import resource
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from select import select
from threading import Event
from typing import Final, NamedTuple

import pytest
from tests.netns.capture import listening
from tests.netns.members import APP, Member, join
from tests.netns.namespaces import LINK, Hosts, Namespace
from tests.netns.programs import SOON
from tests.processes import many_files

from gandy.bus.core import links
from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.effects import ServiceFound, ServiceLost
from gandy.bus.io import tcp
from gandy.bus.io.privacy import Privacy
from gandy.bus.limits import MAX_STRANGERS
from gandy.bus.wire.control import Discovery, encode_discovery
from gandy.bus.wire.dialects import DIALECTS
from gandy.errors import UnknownService
from gandy.keys.crew import make_client_context
from gandy.limits import MAX_STRANGE_BYTES

KEY: Final = "6b" * 32
OTHER_KEY: Final = "6f" * 32
MEGABYTE: Final = 1_000_000
FEW: Final = 20
CARD_BYTES: Final = 22

Act = Callable[[socket.socket], None]


class Pair(NamedTuple):
    """Two who have met, in a namespace where strangers are, too."""

    first: Member
    second: Member

    def talk(self, *, also_by_datagrams: bool = True) -> None:
        """They are undisturbed."""
        for is_reliable in (True, False)[: 1 + also_by_datagrams]:
            self.first.send("!second/hello", 1, reliable=is_reliable)
            assert self.second.expect_message().message.values == (1,)
            self.second.send("!first/hello", 2, reliable=is_reliable)
            assert self.first.expect_message().message.values == (2,)

    def dial(self) -> socket.socket:
        """A stranger, at the first one's port."""
        return dial(self.first)


def dial(member: Member) -> socket.socket:
    return socket.create_connection((LOCALHOST, member.engine.member.place.tcp_port), SOON)


@contextmanager
def a_pair(host: Namespace) -> Iterator[Pair]:
    options = {"ip": LOCALHOST, "insecure": False, "key": KEY}
    with host.inside(), join(host, **options) as first, join(host, **options) as second:
        first.offer("first")
        second.offer("second")
        first.expect_news(ServiceFound("second", second.process))
        second.expect_news(ServiceFound("first", first.process))
        yield Pair(first, second)


@pytest.fixture
def pair(host: Namespace) -> Iterator[Pair]:
    with a_pair(host) as made:
        yield made


def until_cut(sock: socket.socket) -> bytes:
    """What it said before."""
    heard = bytearray()
    with suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            heard += data
    return bytes(heard)


def make_context(key: str, name: str = APP) -> ssl.SSLContext:
    """As one of an ensemble has it."""
    return Privacy(bytes.fromhex(key), name)._client_context


def say(*pieces: bytes) -> Act:
    def act(sock: socket.socket) -> None:
        with suppress(ConnectionError):
            for piece in pieces:
                sock.sendall(piece)

    return act


def come_without_certificate(sock: socket.socket) -> None:
    with make_client_context().wrap_socket(sock) as tls, pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        tls.recv(100)  # TLS 1.3: the client learns of it when it reads


def come_with_another_key(sock: socket.socket) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        make_context(OTHER_KEY).wrap_socket(sock)


STRANGERS: Final[dict[str, Act]] = {
    "no TLS": say(b"GET / HTTP/1.1\r\n\r\n"),
    "chance": say(os.urandom(10_000)),
    "plain": say(struct.pack(">i", 20) + bytes(20)),
    "a long record": say(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff", *[bytes(1000)] * (MAX_STRANGE_BYTES // 1000 + 1)),
    "many short records": say(*[b"\x16\x03\x01\x00\x01\x01"] * MAX_STRANGE_BYTES),
    "no certificate": come_without_certificate,
    "another key": come_with_another_key,
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_is_cut(pair: Pair, kind: str) -> None:
    with pair.dial() as sock:
        STRANGERS[kind](sock)
        if sock.fileno() >= 0:  # TLS has not taken it
            until_cut(sock)
    pair.talk()
    assert len(pair.first.neighbours()) == 1


class Insider:
    """A peer that has the key, and misuses it."""

    def __init__(self, member: Member, name: str = APP) -> None:
        self.tls = make_context(KEY, name).wrap_socket(dial(member))

    def __enter__(self) -> "Insider":
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()

    def say(self, data: bytes) -> None:
        self.tls.sendall(data)

    def hear_card(self) -> bytes:
        data = self.tls.recv(CARD_BYTES)
        assert len(data) == CARD_BYTES
        return data


def test_a_peer_that_speaks_before_its_card_is_cut(pair: Pair) -> None:
    with Insider(pair.first) as insider:
        insider.hear_card()
        insider.say(b"\0" * 100)  # 22 of these are a card, and the rest is no message
        assert until_cut(insider.tls) == b""
    pair.talk()


def test_the_mark_of_another_link_is_refused(pair: Pair) -> None:
    with Insider(pair.first) as one, Insider(pair.first) as two:
        card = b"m" * 16 + socket.inet_aton(LOCALHOST) + b"\0\1"
        one.say(card)
        assert one.hear_card() != two.hear_card()
        two.say(card)
        assert until_cut(two.tls) == b""
    pair.talk()


def test_a_peer_that_sends_only_its_card_is_cut(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE", 0.2)
    with Insider(pair.first) as insider:
        place = pair.second.engine.member.place
        lie = b"m" * 16 + socket.inet_aton(place.ip) + place.udp_port.to_bytes(2, "big")  # where the second one is
        insider.say(lie)
        assert len(until_cut(insider.tls)) == CARD_BYTES
    pair.talk()  # by datagrams, too


def test_a_key_is_good_for_one_name_of_an_ensemble(pair: Pair) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Insider(pair.first, "other")
    pair.talk()


def test_a_peer_that_sends_little_and_slowly_is_cut_in_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE", 0.2)
    with pair.dial() as silent, pair.dial() as slow:
        slow.sendall(b"\x16\x03\x01")
        until_cut(silent)
        until_cut(slow)
    pair.talk()


def test_of_many_half_open_links_few_are_kept(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE", 600.0)
    monkeypatch.setattr(links, "MAX_STRANGERS", FEW)
    with ExitStack() as stack:
        strangers = [stack.enter_context(pair.dial()) for _ in range(500)]
        for each in strangers[:-FEW]:
            until_cut(each)
        assert not select(strangers[-FEW:], (), (), 0)[0]
        assert len(pair.first.engine._links) == FEW + 1
        pair.talk()


def test_a_flood_of_links_keeps_no_member_out(host: Namespace, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE", 600.0)
    # Both ends of each link, for two members, are here.
    with many_files(4 * MAX_STRANGERS, 200) as files, ExitStack() as stack:
        for _ in range(files // 4):
            for member in pair:
                stack.enter_context(dial(member)).sendall(b"\x16")
        third = stack.enter_context(join(host, ip=LOCALHOST, insecure=False, key=KEY))
        third.offer("third")
        for member in pair:
            member.expect_news(ServiceFound("third", third.process))
        pair.talk()


@contextmanager
def no_more_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.dup(0)
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_connection_without_a_free_file_waits_and_wakes_no_thread(pair: Pair) -> None:
    member, looks = pair.first.engine, list[int]()
    number, port = member._sockets.server.fileno(), member.member.place.tcp_port
    accept = member._poller._reactions[number]

    def look(event: int) -> bool:
        looks.append(event)
        return accept(event)

    member._poller._reactions[number] = look
    with socket.socket() as sock:
        sock.settimeout(SOON)
        with no_more_files():
            sock.connect((LOCALHOST, port))
            for _ in range(100):  # turns of the engine
                pair.talk()
            assert 0 < len(looks) < 50
        say(b"nonsense")(sock)
        until_cut(sock)
    pair.talk()


# Datagrams


def test_a_flood_of_datagrams_disturbs_no_member(pair: Pair) -> None:
    place = pair.first.engine.member.place
    sealed = Privacy(bytes.fromhex(OTHER_KEY), APP).seal(announce(APP, 9, 9), None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(500):
            for data in (b"", b"\xd1", b"\xd2" + bytes(40), os.urandom(200), bytes(60_000), sealed):
                for port in (place.udp_port, place.discovery_port):
                    sock.sendto(data, (LOCALHOST, port))
    pair.talk(also_by_datagrams=False)  # there may be no room for these
    assert len(pair.first.neighbours()) == 1


def announce(app: str, tcp_port: int, discovery_port: int) -> bytes:
    return encode_discovery(Discovery(app, LOCALHOST, tcp_port, discovery_port), DIALECTS["2016"])


class Witness:
    """A peer that announces itself, and notices when a member has heard it."""

    def __init__(self) -> None:
        self.server = socket.create_server((LOCALHOST, 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind((LOCALHOST, 0))

    def __enter__(self) -> "Witness":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        self.datagrams.close()

    @property
    def message(self) -> bytes:
        return announce(APP, self.server.getsockname()[1], self.datagrams.getsockname()[1])

    def send(self, data: bytes, member: Member) -> None:
        self.datagrams.sendto(data, (LOCALHOST, member.engine.member.place.discovery_port))

    def until_heard(self) -> None:
        """It connects to us, or tells us to."""
        assert select((self.server, self.datagrams), (), (), SOON)[0]


@pytest.mark.parametrize("name", [APP, "other"])
def test_plain_and_private_ensembles_of_one_name_or_of_one_key_ignore_one_another(pair: Pair, name: str) -> None:
    with Witness() as stranger, Witness() as friend:
        plain = stranger.message
        foreign = Privacy(bytes.fromhex(KEY), "other").seal(plain, None)
        stranger.send(plain if name == APP else foreign, pair.first)
        friend.send(Privacy(bytes.fromhex(KEY), APP).seal(friend.message, None), pair.first)
        friend.until_heard()  # so the other one was read, too
        assert not select((stranger.server, stranger.datagrams), (), (), 0)[0]


def test_a_plain_ensemble_ignores_a_private_one_of_the_same_name(host: Namespace) -> None:
    with host.inside(), join(host, ip=LOCALHOST) as member, Witness() as stranger, Witness() as friend:
        stranger.send(Privacy(bytes.fromhex(KEY), APP).seal(stranger.message, None), member)
        friend.send(friend.message, member)
        friend.until_heard()
        assert not select((stranger.server, stranger.datagrams), (), (), 0)[0]
        assert member.engine.member.dropped["nonsense"] == 1


def test_discovery_that_is_repeated_brings_a_connection_that_leads_nowhere(pair: Pair) -> None:
    """An attacker who recorded it can do no more than that, wherever its sender was."""
    with Witness() as stranger:
        recorded = Privacy(bytes.fromhex(KEY), APP).seal(stranger.message, None)
        for _ in range(200):
            stranger.send(recorded, pair.first)
        stranger.until_heard()
        assert len(pair.first.engine.member.processes) <= 2
        pair.talk()


# Much


def hold_second(pair: Pair) -> Event:
    """Its handlers wait, until this is set."""
    is_held, may_go_on = Event(), Event()

    def hold() -> None:
        is_held.set()
        may_go_on.wait(SOON)

    pair.second.service("second").add(hold, "/hold")
    pair.first.send("!second/hold")
    assert is_held.wait(SOON)
    return may_go_on


def test_large_messages_wait_for_who_is_slow(pair: Pair) -> None:
    may_go_on = hold_second(pair)
    messages = [bytes((number,)) * 10 * MEGABYTE for number in range(3)]
    for each in messages:
        pair.first.send("!second/much", each)
    may_go_on.set()
    assert pair.second.expect_message().message.address == "!second/hold"  # who listens to all heard it, too
    assert [pair.second.expect_message().message.values for _ in messages] == [(each,) for each in messages]


def test_a_process_that_does_not_read_is_cut(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_UNSENT_BYTES", 5 * MEGABYTE)
    may_go_on = hold_second(pair)
    try:
        for _ in range(4):
            with suppress(UnknownService):
                pair.first.send("!second/much", bytes(10 * MEGABYTE))
        pair.first.expect_news(ServiceLost("second"))
    finally:
        may_go_on.set()
    pair.first.expect_news(ServiceFound("second", pair.second.process))  # it comes back, once it is itself again


def test_nothing_that_was_sent_before_the_end_is_lost(host: Namespace, pair: Pair) -> None:
    with join(host, ip=LOCALHOST, insecure=False, key=KEY) as third:
        third.expect_news(ServiceFound("first", pair.first.process))
        third.send("!first/much", bytes(8 * MEGABYTE))
        third.send("!first/last", 1)
    assert pair.first.expect_message().message.values == (bytes(8 * MEGABYTE),)
    assert pair.first.expect_message().message.address == "!first/last"


# The wire


@pytest.mark.parametrize("is_private", [True, False])
def test_an_eavesdropper_of_a_private_ensemble_reads_nothing(hosts: Hosts, is_private: bool) -> None:
    options = {"insecure": not is_private, "key": KEY if is_private else None}
    with listening(hosts.first, LINK) as capture:
        with join(hosts.first, **options) as first, join(hosts.second, **options) as second:
            first.offer("quarry")
            second.offer("hunter")
            first.expect_news(ServiceFound("hunter", second.process))
            second.expect_news(ServiceFound("quarry", first.process))
            for is_reliable in (True, False):
                second.send("!quarry/path/of/it", "a value of ours", reliable=is_reliable)
                assert first.expect_message().message.values == ("a value of ours",)
        said = [b"quarry", b"hunter", b"path/of/it", b"a value of ours", APP.encode() + b"\0", b"_o2", b"10.77.0.1"]
    assert {text: capture.holds(text) for text in said} == dict.fromkeys(said, not is_private)
