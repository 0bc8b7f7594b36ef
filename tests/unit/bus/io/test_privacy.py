"""A peer with the key is heard once, and one without it not at all."""

import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.bus.core.links import Endpoints
from gandy.bus.io import privacy
from gandy.bus.io.privacy import LINGER, WINDOW, Privacy, PrivateSession, Window
from gandy.bus.limits import MAX_DEPARTED_LINKS
from gandy.bus.wire.control import Discovery, encode_discovery
from gandy.bus.wire.dialects import DIALECTS

HERE = Endpoints("127.0.0.1", 1, 2, 3)
THERE = Endpoints("10.0.0.2", 4, 5, 6)
KEY, OTHER = b"k" * 32, b"o" * 32
DISCOVERY = encode_discovery(Discovery("band", "10.0.0.2", 4, 6), DIALECTS["2016"])


def shake(client: PrivateSession, server: PrivateSession) -> tuple[list[bytes], list[bytes]]:
    """What each of them is told, until both are silent. Raises: SSLError."""
    told: tuple[list[bytes], list[bytes]] = ([], [])
    to_server, to_client = client.begin(), b""
    while to_server or to_client:
        told[1].extend(filter(None, server.receive(to_server)) if to_server else ())
        to_client = server.data_to_send()
        told[0].extend(filter(None, client.receive(to_client)) if to_client else ())
        to_server, to_client = client.data_to_send(), b""
    return told


class Pair:
    """Two processes with a link between them."""

    def __init__(self, read_clock: Callable[[], float] = time.monotonic) -> None:
        self.one, self.two = Privacy(KEY, "band"), Privacy(KEY, "band", read_clock)
        self.client = self.one.make_session(HERE, is_server=False)
        self.server = self.two.make_session(THERE, is_server=True)
        shake(self.client, self.server)

    def send(self, data: bytes) -> bytes:
        return self.one.seal(data, (THERE.ip, THERE.udp_port))


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_link_carries_what_is_said(pair: Pair) -> None:
    assert pair.client.is_known
    assert pair.server.is_known
    data = bytes(range(256)) * 1000
    sealed = pair.client.seal(data)
    assert data[:256] not in sealed
    assert b"".join(pair.server.receive(sealed)) == data


def test_the_other_end_that_leaves_is_noticed(pair: Pair) -> None:
    with pytest.raises(ConnectionError, match="has left"):
        list(pair.server.receive(pair.client.end()))


@pytest.mark.parametrize(("one", "two"), [((KEY, "band"), (OTHER, "band")), ((KEY, "band"), (KEY, "other band"))])
def test_another_key_or_another_ensemble_is_not_let_in(one: tuple[bytes, str], two: tuple[bytes, str]) -> None:
    client = Privacy(*one).make_session(HERE, is_server=False)
    server = Privacy(*two).make_session(THERE, is_server=True)
    with pytest.raises(ssl.SSLError):
        shake(client, server)
    assert not client.is_known
    assert not server.is_known


def test_a_peer_without_a_certificate_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    privacy = Privacy(KEY, "band")
    client = PrivateSession(privacy, HERE, context, is_server=False)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(client, privacy.make_session(THERE, is_server=True))


def test_endless_bytes_before_the_handshake_end_the_link() -> None:
    server = Privacy(KEY, "band").make_session(THERE, is_server=True)
    beginning = b"\x16\x03\x01\x40\x00"  # a record of 16 KB, which is too much
    pieces = [beginning + bytes(1000), *[bytes(1000)] * 100]
    with pytest.raises((ConnectionError, ssl.SSLError)):
        list(chain.from_iterable(map(server.receive, pieces)))


def test_a_datagram_is_heard_once(pair: Pair) -> None:
    sealed = pair.send(b"hello")
    assert b"hello" not in sealed
    assert pair.two.open(sealed) == b"hello"
    assert pair.two.open(sealed) == b""


def test_a_datagram_is_for_one_process_in_one_link(pair: Pair) -> None:
    sealed = pair.send(b"hello")
    assert pair.one.open(sealed) == b""
    other = Pair()
    assert other.two.open(sealed) == b""


def test_datagrams_sent_before_leaving_are_accepted_for_a_moment() -> None:
    now = 100.0
    pair = Pair(lambda: now)
    first, second, third = (pair.send(b"goodbye") for _ in range(3))
    pair.server.close()
    assert pair.two.open(first) == b"goodbye"
    assert pair.two.open(first) == b""
    now += LINGER / 2
    assert pair.two.open(second) == b"goodbye"
    now += LINGER
    assert pair.two.open(third) == b""
    pair.server.close()  # once more does no harm


def test_few_that_left_are_remembered() -> None:
    two = Privacy(KEY, "band", lambda: 1.0)
    sealed = []
    for _ in range(MAX_DEPARTED_LINKS + 1):
        one = Privacy(KEY, "band")
        client, server = one.make_session(HERE, is_server=False), two.make_session(THERE, is_server=True)
        shake(client, server)
        sealed.append(one.seal(b"goodbye", (THERE.ip, THERE.udp_port)))
        server.close()
    assert [two.open(each) for each in sealed] == [b"", *[b"goodbye"] * MAX_DEPARTED_LINKS]


def test_a_datagram_that_was_changed_is_nothing(pair: Pair) -> None:
    sealed = pair.send(b"hello")
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        assert pair.two.open(bytes(changed)) == b""
    assert pair.two.open(sealed) == b"hello"


def test_discovery_is_for_all_who_have_the_key() -> None:
    one, two, stranger = Privacy(KEY, "band"), Privacy(KEY, "band"), Privacy(OTHER, "band")
    sealed = one.seal(DISCOVERY, None)
    assert two.open(sealed) == two.open(sealed) == DISCOVERY
    assert stranger.open(sealed) == b""
    assert two.open(one.seal(b"anything else", None)) == b""


@given(st.binary(max_size=200))
def test_no_datagram_of_a_stranger_is_heard(data: bytes) -> None:
    assert PRIVACY.open(data) == PRIVACY.open(b"\xd1" + data) == PRIVACY.open(b"\xd2" + data) == b""


PRIVACY = Privacy(KEY, "band")


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=60))
def test_each_number_is_good_once_and_old_ones_are_not(numbers: list[int]) -> None:
    window, seen, greatest = Window(), set[int](), 0
    for number in numbers:
        is_new = number not in seen and number > greatest - WINDOW
        assert window.take(number) == is_new
        seen.add(number)
        greatest = max(greatest, number)


def test_a_message_for_one_process_is_not_sealed_for_all() -> None:
    assert Privacy(KEY, "band").seal(b"hello", (THERE.ip, THERE.udp_port)) == b""


def test_a_second_link_that_goes_does_not_take_the_first_one_with_it(pair: Pair) -> None:
    """An attacker forwards a link to the wrong process, and both ends notice soon."""
    client, server = pair.one.make_session(HERE, is_server=False), pair.two.make_session(THERE, is_server=True)
    shake(client, server)
    assert pair.two.open(pair.send(b"by the second")) == b"by the second"
    client.close()
    server.close()
    assert pair.two.open(pair.send(b"by the first")) == b"by the first"
    pair.client.close()
    assert pair.send(b"by none") == b""


def test_a_link_that_is_made_again_has_other_keys(pair: Pair) -> None:
    """So that no number is ever used twice."""
    first = pair.send(b"hello")
    pair.client.close()
    pair.server.close()
    client, server = pair.one.make_session(HERE, is_server=False), pair.two.make_session(THERE, is_server=True)
    shake(client, server)
    again = pair.send(b"hello")
    assert first[-len(b"hello") - 16 :] != again[-len(b"hello") - 16 :]
    assert first[17:25] == again[17:25] == (1).to_bytes(8, "big")
    assert [pair.two.open(each) for each in (first, again, first, again)] == [b"hello", b"hello", b"", b""]


def test_both_ways_have_keys_of_their_own(pair: Pair) -> None:
    """Else both ends would use the same numbers with one key."""
    there = pair.send(b"hello")
    back = pair.two.seal(b"hello", (HERE.ip, HERE.udp_port))
    assert there[25:] != back[25:]


def test_a_process_that_hears_itself_learns_nothing_twice() -> None:
    """An attacker sends a link back to where it came from."""
    one = Privacy(KEY, "band")
    client, server = one.make_session(HERE, is_server=False), one.make_session(HERE, is_server=True)
    shake(client, server)
    sealed = one.seal(b"hello", (HERE.ip, HERE.udp_port))
    assert [one.open(sealed), one.open(sealed)] == [b"hello", b""]
    client.close()
    server.close()
    assert one.open(sealed) == b""


def test_a_mark_that_is_in_use_is_refused(pair: Pair) -> None:
    their_mark = pair.send(b"hello")[1:17]
    stolen = their_mark + bytes((10, 0, 0, 9)) + bytes((0, 9))
    with pytest.raises(ValueError, match="used twice"):
        pair.two.on_card(b"n" * 16, stolen)
    assert pair.two.open(pair.send(b"still there")) == b"still there"


def test_a_card_that_lies_about_its_place_hides_a_process_until_its_link_is_cut(pair: Pair) -> None:
    """All who have the key trust one another. What is promised is that nothing is left of it."""
    liar = Privacy(KEY, "band").make_session(THERE, is_server=True)
    client = pair.one.make_session(HERE, is_server=False)
    shake(client, liar)
    assert pair.two.open(pair.send(b"hidden")) == b""
    client.close()
    assert pair.two.open(pair.send(b"seen")) == b"seen"


def test_a_card_may_come_in_pieces_and_with_more(pair: Pair) -> None:
    server = pair.two.make_session(THERE, is_server=True)
    client = pair.one.make_session(HERE, is_server=False)
    early = b""
    flight = client.begin()
    list(server.receive(flight))
    list(client.receive(server.data_to_send()))
    for byte in client.data_to_send() + client.seal(b"more"):
        early += b"".join(server.receive(bytes((byte,))))
    assert early == b"more"


def test_a_wrong_wall_clock_keeps_no_process_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a machine that believes in 1970, all certificates are of the future."""
    later = datetime(2100, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(privacy, "_CERTIFICATE_DATES", later)
    pair = Pair()
    assert pair.client.is_known
    assert pair.server.is_known


def test_truncated_datagrams_are_nothing(pair: Pair) -> None:
    for sealed in (pair.send(b"hello"), pair.one.seal(DISCOVERY, None)):
        for length in range(len(sealed)):
            assert pair.two.open(sealed[:length]) == b""


def test_a_peer_that_does_not_speak_tls_is_cut() -> None:
    server = Privacy(KEY, "band").make_session(THERE, is_server=True)
    with pytest.raises(ssl.SSLError):
        list(server.receive(b"GET / HTTP/1.1\r\n\r\n"))
    assert not server.is_known
