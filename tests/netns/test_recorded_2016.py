"""A plain peer made of recorded bytes of 2016, without gandy's own code, connects to a member, or a member to it.

The originals were at 39361, where it led the clock, and at 46737. Members take the place of either, to the byte.
"""

import socket
import struct
import time
from contextlib import ExitStack
from typing import Final

from tests.netns.members import Member
from tests.netns.namespaces import Namespace
from tests.netns.programs import SOON

from gandy.bus import Message, Status
from gandy.bus.core.effects import ClockFound, ProcessLost, ServiceFound

LEADER: Final = 39361
LEADER_UDP: Final = 40000  # not recorded
FOLLOWER: Final = 46737
FOLLOWER_UDP: Final = 43486
FIRST_PORT: Final = 53472  # of discovery
SECOND_PORT: Final = 54859
AT_ONCE: Final = bytes(8)  # 0.0

# Bytes on the wire as they were recorded.
DISCOVERY: Final = bytes.fromhex(
    "00 00 00 00 00 00 00 00 21 5f 6f 32 2f 64 79 00"
    "2c 73 73 73 69 69 00 00 6c 00 00 00 74 65 73 74"
    "00 00 00 00 31 32 37 2e 30 2e 30 2e 31 00 00 00"
    "c1 99 00 00 e0 d0 00 00"
)
FOLLOWER_INIT: Final = bytes.fromhex(
    "00 00 00 40"
    "00 00 00 00 00 00 00 00 21 31 32 37 2e 30 2e 30"
    "2e 31 3a 33 39 33 36 31 2f 69 6e 00 2c 73 73 69"
    "69 69 00 00 6c 00 00 00 31 32 37 2e 30 2e 30 2e"
    "31 00 00 00 91 b6 00 00 de a9 00 00 00 00 00 00"
)
FOLLOWER_SERVICES: Final = (
    bytes.fromhex("00 00 00 38") + AT_ONCE + b"!127.0.0.1:39361/sv\0" + b",ss\0" + b"127.0.0.1:46737\0" + b"client\0\0"
)
FOLLOWER_SYNC: Final = (
    bytes.fromhex("00 00 00 34") + AT_ONCE + b"!127.0.0.1:39361/cs/cs\0\0" + b",s\0\0" + b"127.0.0.1:46737\0"
)
NUMBERS: Final = (
    bytes.fromhex("00 00 00 00 00 00 e0 3f")
    + b"/s/a\0\0\0\0"
    + bytes.fromhex("2c 69 68 66 64 74 00 00")
    + bytes.fromhex("04030201 0807060504030201 0000803f 000000000000f03f 0000000000000040")
)
LISTS: Final = (
    AT_ONCE
    + b"/s/a\0\0\0\0"
    + bytes.fromhex("2c 5b 69 69 5d 76 69 76 64 00 00 00")
    + bytes.fromhex("01000000 02000000 08000000 03000000 04000000 08000000 000000000000f03f")
)
NUMBERS_MESSAGE: Final = Message("/s/a", "ihfdt", (0x01020304, 0x0102030405060708, 1.0, 1.0, 2.0), 0.5)
LISTS_MESSAGE: Final = Message("/s/a", "[ii]vivd", ([1, 2], (3, 4), (1.0,)), 0.0)

# Not recorded whole, and put together from the same facts.
LEADER_INIT: Final = (
    bytes.fromhex("00 00 00 40")
    + AT_ONCE
    + b"!127.0.0.1:46737/in\0"
    + b",ssiii\0\0"
    + b"l\0\0\0"
    + b"127.0.0.1\0\0\0"
    + struct.pack("<iii", LEADER, LEADER_UDP, 1)
)
LEADER_SERVICES: Final = (
    bytes.fromhex("00 00 00 40")
    + AT_ONCE
    + b"!127.0.0.1:46737/sv\0"
    + b",sss\0\0\0\0"
    + b"127.0.0.1:39361\0"
    + b"server\0\0"
    + b"_cs\0"
)
LEADER_SYNC: Final = (
    bytes.fromhex("00 00 00 34") + AT_ONCE + b"!127.0.0.1:46737/cs/cs\0\0" + b",s\0\0" + b"127.0.0.1:39361\0"
)


def make_request(serial: int) -> bytes:
    return AT_ONCE + b"!_cs/get\0\0\0\0" + b",is\0" + struct.pack("<i", serial) + b"!127.0.0.1:46737/cs\0"


def make_reply(serial: int, seconds: float) -> bytes:
    return AT_ONCE + b"!127.0.0.1:46737/cs/get-reply\0\0\0" + b",it\0" + struct.pack("<id", serial, seconds)


class Raw:
    """Sockets of a process that knows nothing."""

    def __init__(self, stack: ExitStack, udp: int) -> None:
        self._stack = stack
        self.datagrams = self.bind(socket.SOCK_DGRAM, udp)
        self.link: socket.socket

    def bind(self, kind: socket.SocketKind, port: int) -> socket.socket:
        opened = self._stack.enter_context(socket.socket(type=kind))
        opened.settimeout(SOON)
        opened.bind(("127.0.0.1", port))
        return opened

    def connect(self, port: int) -> None:
        self.link = self._stack.enter_context(socket.create_connection(("127.0.0.1", port), SOON))

    def accept(self, server: socket.socket) -> None:
        self.link = self._stack.enter_context(server.accept()[0])
        self.link.settimeout(SOON)

    def expect(self, data: bytes) -> None:
        got = b""
        while len(got) < len(data) and (more := self.link.recv(len(data) - len(got))):
            got += more
        assert got.hex(" ") == data.hex(" ")


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def make_services(sender: int, receiver: int, service: bytes) -> bytes:
    """One that comes later."""
    return AT_ONCE + b"!127.0.0.1:%d/sv\0" % receiver + b",ss\0" + b"127.0.0.1:%d\0" % sender + service


def test_a_member_accepts_the_recorded_peer(host: Namespace) -> None:
    with ExitStack() as stack:
        with host.inside():
            raw = Raw(stack, FOLLOWER_UDP)
            heard = raw.bind(socket.SOCK_DGRAM, SECOND_PORT)
        with host.giving_ports(LEADER, LEADER_UDP):
            member = stack.enter_context(Member(clock="lead", insecure=True, ip="127.0.0.1"))
        member.offer("server")
        assert heard.recv(1000).hex(" ") == DISCOVERY.hex(" ")
        member.expect_news(ClockFound(member.process))

        with host.inside():
            raw.connect(LEADER)
        raw.link.sendall(FOLLOWER_INIT[:4])  # the original writes it apart
        raw.link.sendall(FOLLOWER_INIT[4:] + FOLLOWER_SERVICES)
        member.expect_news(ServiceFound("client", "127.0.0.1:46737"))
        raw.expect(LEADER_INIT + LEADER_SERVICES + LEADER_SYNC)
        assert member.status("client") is Status.REMOTE_NOTIME

        for serial in (1, 2):
            before = member.now()
            raw.datagrams.sendto(make_request(serial), ("127.0.0.1", LEADER_UDP))
            reply = raw.datagrams.recv(1000)
            (seconds,) = struct.unpack("<d", reply[-8:])
            assert reply.hex(" ") == make_reply(serial, seconds).hex(" ")
            assert before <= seconds <= member.now()

        member.offer("s")
        raw.expect(frame(make_services(LEADER, FOLLOWER, b"s\0\0\0")))
        raw.link.sendall(FOLLOWER_SYNC + frame(NUMBERS) + frame(LISTS))
        assert member.expect_message().message == NUMBERS_MESSAGE
        assert member.expect_message().message == LISTS_MESSAGE
        assert member.status("client") is Status.REMOTE
        raw.datagrams.sendto(NUMBERS, ("127.0.0.1", LEADER_UDP))
        assert member.expect_message().message == NUMBERS_MESSAGE

        member.service("s").close()
        raw.expect(frame(AT_ONCE + b"!127.0.0.1:46737/sd\0" + b",ss\0" + b"127.0.0.1:39361\0" + b"s\0\0\0"))


def test_a_member_connects_to_the_recorded_peer(host: Namespace) -> None:
    with ExitStack() as stack:
        with host.inside():
            raw = Raw(stack, LEADER_UDP)
            raw.bind(socket.SOCK_DGRAM, FIRST_PORT)
            server = raw.bind(socket.SOCK_STREAM, LEADER)
        server.listen()
        with host.giving_ports(FOLLOWER, FOLLOWER_UDP):
            member = stack.enter_context(Member(insecure=True, ip="127.0.0.1"))
        member.offer("client")
        raw.datagrams.sendto(DISCOVERY, ("127.0.0.1", SECOND_PORT))
        raw.accept(server)
        raw.expect(FOLLOWER_INIT + FOLLOWER_SERVICES)
        raw.link.sendall(LEADER_INIT + LEADER_SERVICES)

        start = time.monotonic() - 1000.0
        for serial in range(1, 6):
            assert raw.datagrams.recv(1000).hex(" ") == make_request(serial).hex(" ")
            raw.datagrams.sendto(make_reply(serial, time.monotonic() - start), ("127.0.0.1", FOLLOWER_UDP))
        raw.expect(FOLLOWER_SYNC)
        member.expect_news(ClockFound("127.0.0.1:39361"))
        error, bound = member.measure(-start)
        assert abs(error) <= bound
        assert member.status("server") is Status.REMOTE

        raw.link.sendall(frame(make_services(LEADER, FOLLOWER, b"s\0\0\0")))
        member.expect_news(ServiceFound("s", "127.0.0.1:39361"))
        for address, types, values, at in (NUMBERS_MESSAGE, LISTS_MESSAGE):
            member.send(address, *values, types=types, at=at or None)
        raw.expect(frame(NUMBERS) + frame(LISTS))
        member.send(LISTS_MESSAGE.address, *LISTS_MESSAGE.values, types=LISTS_MESSAGE.types, reliable=False)
        while (data := raw.datagrams.recv(1000)).startswith(AT_ONCE + b"!_cs/get\0"):
            pass
        assert data.hex(" ") == LISTS.hex(" ")

        raw.link.close()
        member.expect_news(ProcessLost("127.0.0.1:39361"))
        assert member.status("s") is Status.UNKNOWN
