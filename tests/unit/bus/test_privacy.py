"""Who has the key is heard once, and nobody else at all."""

import ssl
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.bus.privacy import WINDOW, Privacy, PrivateSession, Window
from gandy.core.bus.links import Place
from gandy.wire.bus_control import Discovery, encode_discovery
from gandy.wire.dialects import DIALECTS

HERE = Place("127.0.0.1", 1, 2, 3)
THERE = Place("10.0.0.2", 4, 5, 6)
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

    def __init__(self) -> None:
        self.one, self.two = Privacy(KEY, "band"), Privacy(KEY, "band")
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


def test_somebody_without_a_certificate_is_not_let_in() -> None:
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
    pair.server.close()
    assert pair.two.open(sealed) == b""
    pair.server.close()  # once more does no harm


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
    privacy = PRIVACY
    assert privacy.open(data) == privacy.open(b"\xd1" + data) == privacy.open(b"\xd2" + data) == b""


PRIVACY = Privacy(KEY, "band")


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=60))
def test_each_number_is_good_once_and_old_ones_are_not(numbers: list[int]) -> None:
    window, seen, greatest = Window(), set[int](), 0
    for number in numbers:
        is_new = number not in seen and number > greatest - WINDOW
        assert window.take(number) == is_new
        seen.add(number)
        greatest = max(greatest, number)
