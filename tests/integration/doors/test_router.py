"""The router with real sockets on loopback: plain pyzmq peers, strangers, and peers that go away."""

import asyncio
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import uvloop
import zmq

from gandy.config import Address
from gandy.doors.limits import MAX_FRAMES, MAX_UNSENT_BYTES
from gandy.doors.sockets.router import TURN_MESSAGES, Router
from gandy.errors import ConfigError

DEADLINE = 30.0  # seconds; far more than anything here takes on a busy machine
LOCAL = "tcp://127.0.0.1:0"


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, DEADLINE))


class Ledger:
    """All that a router tells, in order, and a way to wait for it."""

    def __init__(self, router: Router) -> None:
        self.messages: list[list[bytes]] = []
        self.gone: list[bytes] = []
        self.connects = 0
        self.order: list[tuple[str, bytes]] = []
        self._changed = asyncio.Event()
        router.on_message = self._on_message
        router.on_disconnect = self._on_disconnect
        router.on_connect = self._on_connect

    def _on_message(self, frames: list[bytes]) -> None:
        self.messages.append(frames)
        self.order.append(("said", frames[0]))
        self._changed.set()

    def _on_disconnect(self, routing_id: bytes) -> None:
        self.gone.append(routing_id)
        self.order.append(("gone", routing_id))
        self._changed.set()

    def _on_connect(self) -> None:
        self.connects += 1
        self._changed.set()

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def until_said(self, *frames: bytes) -> None:
        await self.wait_for(lambda: list(frames) in self.messages)


@asynccontextmanager
async def listening(address: Address | str = LOCAL, **options: Any) -> AsyncIterator[tuple[Router, Ledger]]:
    router = Router(address, **options)
    try:
        yield router, Ledger(router)
    finally:
        router.close()


class Crew:
    """Plain peers, with a context of their own."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []  # to be closed, and not by chance

    def close(self) -> None:
        for each in self._sockets:
            each.close(0)
        self._context.term()

    def socket(self, kind: int) -> "zmq.Socket[bytes]":
        made = self._context.socket(kind)
        self._sockets.append(made)
        return made

    def dealer(self, router: Router, routing_id: bytes, **options: int) -> "zmq.Socket[bytes]":
        peer = self.socket(zmq.DEALER)
        peer.setsockopt(zmq.ROUTING_ID, routing_id)
        peer.setsockopt(zmq.RCVTIMEO, int(DEADLINE * 1000))
        peer.setsockopt(zmq.RECONNECT_IVL, 10)
        for name, value in options.items():
            peer.setsockopt(getattr(zmq, name), value)
        peer.connect(str(router.address))
        return peer


@contextmanager
def peers() -> Iterator[Crew]:
    crew = Crew()
    try:
        yield crew
    finally:
        crew.close()


def answer_with(router: Router, frames: list[bytes]) -> None:
    assert router.send(frames)


async def receive(peer: "zmq.Socket[bytes]") -> list[bytes]:
    return await asyncio.to_thread(peer.recv_multipart)


def test_messages_go_both_ways() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                peer.send_multipart([b"", b"one", b""])
                await ledger.until_said(b"anna", b"", b"one", b"")
                assert router.send([b"anna", b"", b"two"])
                assert await receive(peer) == [b"", b"two"]

    run(main())


def test_a_connecting_router_knows_us_by_our_address() -> None:
    def greet(address: str, peer: "zmq.Socket[bytes]") -> list[bytes]:
        peer.setsockopt(zmq.ROUTING_ID, b"client")
        peer.setsockopt(zmq.ROUTER_MANDATORY, 1)
        peer.setsockopt(zmq.RCVTIMEO, int(DEADLINE * 1000))
        news = peer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        peer.connect(address)
        assert news.poll(int(DEADLINE * 1000))
        peer.getsockopt(zmq.EVENTS)  # it learns of the other end when its events are read
        peer.send_multipart([address.encode(), b"", b"hello"])
        answer = peer.recv_multipart()
        peer.disable_monitor()
        news.close(0)
        return answer

    async def main() -> None:
        async with listening() as (router, _):
            router.on_message = lambda frames: answer_with(router, [*frames, b"back"])
            with peers() as crew:
                address = str(router.address)
                answer = await asyncio.to_thread(greet, address, crew.socket(zmq.ROUTER))
                assert answer == [address.encode(), b"", b"hello", b"back"]

    run(main())


def test_a_flood_arrives_whole_and_in_order_while_others_have_their_turn() -> None:
    each = 25_000
    names = (b"anna", b"bert")

    def flood(peer: "zmq.Socket[bytes]") -> None:
        for count in range(each):
            peer.send_multipart([b"", b"%d" % count])

    async def main() -> None:
        async with listening() as (router, ledger):
            steps: list[int] = []  # messages between two turns of the loop
            seen = 0

            def tick() -> None:
                nonlocal seen
                steps.append(len(ledger.messages) - seen)
                seen = len(ledger.messages)
                asyncio.get_running_loop().call_soon(tick)

            tick()
            with peers() as crew:
                dealers = [crew.dealer(router, name) for name in names]
                await asyncio.gather(*(asyncio.to_thread(flood, dealer) for dealer in dealers))
                await ledger.wait_for(lambda: len(ledger.messages) == 2 * each)
            for name in names:
                assert [int(said) for peer, _, said in ledger.messages if peer == name] == list(range(each))
            assert max(steps) <= 3 * TURN_MESSAGES

    run(main())


def test_many_answers_from_the_callback_arrive_whole_and_in_order() -> None:
    count = 20_000

    def converse(peer: "zmq.Socket[bytes]") -> list[bytes]:
        answers = []
        for number in range(count):
            peer.send(b"%d" % number)
            while peer.poll(0):
                answers.append(peer.recv())
        while len(answers) < count:
            answers.append(peer.recv())
        return answers

    async def main() -> None:
        async with listening() as (router, _):
            refused: list[list[bytes]] = []
            router.on_message = lambda frames: None if router.send(frames) else refused.append(frames)
            with peers() as crew:
                dealer = crew.dealer(router, b"anna", RCVHWM=0)
                assert await asyncio.to_thread(converse, dealer) == [b"%d" % number for number in range(count)]
            assert not refused

    run(main())


def test_a_send_that_takes_the_signal_of_a_message_does_not_hide_it() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                peer = crew.dealer(router, b"anna", RCVHWM=0)
                peer.send(b"one")
                await ledger.until_said(b"anna", b"one")
                await ledger.wait_for(lambda: ledger.connects == 1)
                while router._reader._is_awake:  # from something before
                    await asyncio.sleep(0)
                signal_fd = int(router._socket.getsockopt(zmq.FD))
                peer.send(b"two")
                assert select.select([signal_fd], [], [], DEADLINE)[0]  # it is here, and the loop has not looked
                while select.select([signal_fd], [], [], 0)[0]:
                    assert router.send([b"anna", b"hello"])
                await ledger.until_said(b"anna", b"two")

    run(main())


def test_a_lock_step_conversation_never_stalls() -> None:
    def converse(peer: "zmq.Socket[bytes]") -> None:
        for number in range(3_000):
            peer.send(b"%d" % number)
            assert peer.recv() == b"%d" % number

    async def main() -> None:
        async with listening() as (router, _):
            router.on_message = lambda frames: answer_with(router, frames)
            with peers() as crew:
                names = (b"anna", b"bert", b"carl")
                dealers = [crew.dealer(router, name) for name in names]
                await asyncio.gather(*(asyncio.to_thread(converse, dealer) for dealer in dealers))

    run(main())


KILLED = """
import sys, time, zmq
peer = zmq.Context().socket(zmq.DEALER)
peer.setsockopt(zmq.ROUTING_ID, b"anna")
peer.connect(sys.argv[1])
peer.send(b"ready")
time.sleep(600)
"""


def test_a_killed_peer_is_told_and_cannot_be_sent_to() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            command = [sys.executable, "-c", KILLED, str(router.address)]
            with subprocess.Popen(command) as process:
                try:
                    await ledger.until_said(b"anna", b"ready")
                    assert router.send([b"anna", b"job"])
                    assert ledger.gone == []
                finally:
                    process.send_signal(signal.SIGKILL)
            await ledger.wait_for(lambda: ledger.gone == [b"anna"])
            assert not router.send([b"anna", b"job"])

    run(main())


def test_what_a_peer_said_before_it_left_comes_before_the_hint() -> None:
    count = 5_000

    def leave(peer: "zmq.Socket[bytes]") -> None:
        for _ in range(count):
            peer.send(b"result")
        peer.close(int(DEADLINE * 1000))

    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                # Alone: two could have the same number one after the other, and then there are hints too many.
                await asyncio.to_thread(leave, crew.dealer(router, b"anna"))
                await ledger.wait_for(lambda: len(ledger.messages) == count and len(ledger.gone) > 0)
                assert ledger.order.index(("gone", b"anna")) == count

    run(main())


def test_every_peer_that_leaves_is_told_though_numbers_are_used_again() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                for turn in range(40):
                    names = [b"%d-%d" % (turn, each) for each in range(5)]
                    dealers = [crew.dealer(router, name) for name in names]
                    for dealer in dealers:
                        dealer.send(b"ready")
                        dealer.close(int(DEADLINE * 1000))
                await ledger.wait_for(lambda: len(ledger.messages) == 200 and len(set(ledger.gone)) == 200)

    run(main())


def test_the_same_peer_over_a_new_connection_takes_the_place_of_the_old() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                # The old one does not come back by itself, as one on a cut cable cannot.
                old = crew.dealer(router, b"anna", RECONNECT_IVL=-1)
                old.send(b"one")
                await ledger.until_said(b"anna", b"one")
                new = crew.dealer(router, b"anna")
                new.send(b"two")
                await ledger.until_said(b"anna", b"two")
                assert router.send([b"anna", b"hello"])
                assert await receive(new) == [b"hello"]
                await ledger.wait_for(lambda: b"anna" in ledger.gone)  # a hint: the old one went
                assert router.send([b"anna", b"again"])
                assert await receive(new) == [b"again"]
                assert not old.poll(0)
                new.close(0)
                told = len(ledger.gone)
                await ledger.wait_for(lambda: len(ledger.gone) > told)
                assert not router.send([b"anna", b"nobody"])

    run(main())


def test_a_peer_that_only_connects_can_be_sent_to_when_we_are_told() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            sent: list[bool] = []
            router.on_connect = lambda: sent.append(router.send([b"anna", b"welcome"]))
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                assert await receive(peer) == [b"welcome"]
            assert sent[-1]
            assert ledger.messages == []

    run(main())


def test_routing_ids_of_all_lengths() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                for length in (1, 2, 255):
                    name = b"\xff" * length
                    peer = crew.dealer(router, name)
                    peer.send(b"hi")
                    await ledger.until_said(name, b"hi")
                    assert router.send([name, b"you"])
                    assert await receive(peer) == [b"you"]
                for name in (b"", b"nobody", b"\xff" * 256, b"\xff" * 100_000, str(router.address).encode()):
                    assert not router.send([name, b"", b"you"])
                assert not router.send([b"nobody", b"x" * 100_000])

    run(main())


def test_a_message_that_is_too_large_cuts_its_sender_only() -> None:
    limit = 16 * 1024 * 1024

    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                anna, bert = crew.dealer(router, b"anna"), crew.dealer(router, b"bert")
                bert.send(b"x" * limit)
                await ledger.wait_for(lambda: len(ledger.messages) == 1)
                assert len(ledger.messages[0][1]) == limit
                anna.send(b"hi")
                await ledger.until_said(b"anna", b"hi")
                anna.send(b"x" * (limit + 1024 * 1024))
                await ledger.wait_for(lambda: ledger.gone == [b"anna"])
                bert.send(b"still here")
                await ledger.until_said(b"bert", b"still here")
                anna.send(b"back")
                await ledger.until_said(b"anna", b"back")
                assert b"bert" not in ledger.gone
                assert max(len(frames[1]) for frames in ledger.messages) == limit

    run(main())


# Signature, version 3.0, mechanism NULL, not a server, filler: a whole greeting of ZMTP.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
GARBAGE = [
    b"",
    b"\0",
    random.Random(6).randbytes(10_000),  # libzmq takes it for ZMTP 1.0, and hears messages in it
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    GREETING[:10],
    GREETING[:40],
    GREETING,
    GREETING + b"\x04\x05\x05READY"[:-2],
    GREETING + b"\x04\xff" + b"\x05READY" + b"\xff" * 249,
    GREETING + b"\x06" + b"\xff" * 8,  # a command of 2**64 - 1 bytes
    b"\xff" * 10_000,
]


def test_strangers_who_speak_no_zeromq_do_no_harm() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                strangers = []
                for garbage in GARBAGE * 5:
                    stranger = socket.create_connection((router.address.host, router.address.port))
                    stranger.sendall(garbage)
                    strangers.append(stranger)
                peer.send(b"among them")
                await ledger.until_said(b"anna", b"among them")
                for stranger in strangers:
                    stranger.close()
                peer.send(b"after them")
                await ledger.until_said(b"anna", b"after them")
                assert router.send([b"anna", b"well"])
                assert await receive(peer) == [b"well"]
                own = [frames[1:] for frames in ledger.messages if frames[0] == b"anna"]
                assert own == [[b"among them"], [b"after them"]]

    run(main())


def test_what_is_refused_leaves_nothing_half_sent_behind() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                slow = crew.dealer(router, b"slow", RCVHWM=1, RCVBUF=4096)
                good = crew.dealer(router, b"good", RCVHWM=0)
                slow.send(b"hi")
                good.send(b"hi")
                await ledger.wait_for(lambda: len(ledger.messages) == 2)
                sent = refused = 0
                while refused < 100:
                    if router.send([b"slow", b"%d" % sent, b"", b"x" * 8_000, b"y" * 8_000]):
                        sent += 1
                        continue
                    refused += 1
                    assert not router.send([b"nobody", b"", b"z"])
                    assert router.send([b"good", b"%d" % refused, b"", b"end"])
                for number in range(1, 101):
                    assert await receive(good) == [b"%d" % number, b"", b"end"]

                def read_slow() -> list[list[bytes]]:
                    return [slow.recv_multipart() for _ in range(sent)]

                for number, frames in enumerate(await asyncio.to_thread(read_slow)):
                    assert frames == [b"%d" % number, b"", b"x" * 8_000, b"y" * 8_000]

    run(main())


def test_a_peer_that_does_not_read_does_not_fill_our_memory() -> None:
    size = 1024 * 1024

    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                slow = crew.dealer(router, b"slow", RCVHWM=1, RCVBUF=4096)
                slow.send(b"hi")
                await ledger.until_said(b"slow", b"hi")
                sent = 0
                while router.send([b"slow", b"%d" % sent, b"x" * size]):
                    sent += 1
                    assert sent <= 2 * MAX_UNSENT_BYTES // size
                assert sent >= MAX_UNSENT_BYTES // size - 1

                def read() -> list[bytes]:
                    return [slow.recv_multipart()[0] for _ in range(sent)]

                assert await asyncio.to_thread(read) == [b"%d" % number for number in range(sent)]
                while not router.send([b"slow", b"more", b"x" * size]):  # libzmq tells a moment later
                    await asyncio.sleep(0.001)
                assert (await receive(slow))[0] == b"more"

    run(main())


@pytest.mark.parametrize("count", [MAX_FRAMES, MAX_FRAMES + 1, 5 * MAX_FRAMES + 7])
def test_a_message_of_too_many_frames_is_dropped_whole(count: int) -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                peer.send_multipart([b"x"] * (MAX_FRAMES - 1))
                peer.send_multipart([b"y"] * count)
                peer.send_multipart([b"z"])
                await ledger.until_said(b"anna", b"z")
                assert [len(frames) for frames in ledger.messages] == [MAX_FRAMES, 2]
                assert router.dropped == 1

    run(main())


def test_a_callback_that_raises_does_not_stop_the_next_message() -> None:
    async def main() -> None:
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
        async with listening() as (router, ledger):
            note = router.on_message

            def stumble(frames: list[bytes]) -> None:
                if frames[1] == b"bad":
                    raise ZeroDivisionError
                note(frames)

            router.on_message = stumble
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                for text in (b"one", b"bad", b"bad", b"two"):
                    peer.send(text)
                await ledger.until_said(b"anna", b"two")
            assert [type(error) for error in errors] == [ZeroDivisionError] * 2

    run(main())


def test_last_words_go_out() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                dealers = [crew.dealer(router, b"%d" % number) for number in range(20)]
                for dealer in dealers:
                    dealer.send(b"ready")
                await ledger.wait_for(lambda: len(ledger.messages) == len(dealers))
                assert router.send([b"0", b"x" * 4_000_000])  # more than fits into the kernel
                for number in range(len(dealers)):
                    assert router.send([b"%d" % number, b"", b"EXIT"])
                router.close()
                router.close()
                assert not router.send([b"1", b"", b"EXIT"])
                assert len((await receive(dealers[0]))[0]) == 4_000_000
                for dealer in dealers:
                    assert await receive(dealer) == [b"", b"EXIT"]

    run(main())


def test_a_callback_may_close_the_router() -> None:
    async def main() -> None:
        async with listening() as (router, _):
            done = asyncio.Event()

            def close(_frames: list[bytes]) -> None:
                router.close()
                done.set()

            router.on_message = close
            with peers() as crew:
                peer = crew.dealer(router, b"anna")
                for _ in range(10):
                    peer.send(b"x")
                await done.wait()

    run(main())


def test_a_peer_that_does_not_read_does_not_keep_us_from_closing() -> None:
    async def main() -> None:
        async with listening() as (router, ledger):
            with peers() as crew:
                slow = crew.dealer(router, b"slow", RCVHWM=1, RCVBUF=4096)
                slow.send(b"hi")
                await ledger.until_said(b"slow", b"hi")
                while router.send([b"slow", b"x" * 15_000]):
                    pass
                router.close()

    run(main())


def test_an_address_that_is_taken_is_refused() -> None:
    async def main() -> None:
        async with listening() as (router, _):
            with pytest.raises(ConfigError, match="another program does"):
                Router(router.address)
        async with listening(router.address):  # and is free again afterwards
            pass

    run(main())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://192.0.2.1:0", "no such address"),
        ("tcp://192.0.2.1:6714", "no such address"),
        ("tcp://no-such-machine.invalid:6714", "unknown host"),
        (f"tcp://{'x' * 300}:6714", "unknown host"),
        ("ipc:///tmp/x", "not an address"),
        (Address("unix", "/tmp/x"), "tcp://HOST:PORT"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(address: Address | str, reason: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match=reason):
            Router(address)

    run(main())


@pytest.mark.parametrize("host", ["localhost", "[::1]", "*", "127.0.0.2"])
def test_other_ways_to_write_a_host(host: str) -> None:
    async def main() -> None:
        async with listening(f"tcp://{host}:0") as (router, ledger):
            assert str(router.address) == f"tcp://{host}:{router.address.port}"
            with peers() as crew:
                peer = crew.socket(zmq.DEALER)
                peer.setsockopt(zmq.IPV6, int(":" in host))
                where = "127.0.0.1" if host in ("*", "localhost") else host
                peer.connect(f"tcp://{where}:{router.address.port}")
                peer.send(b"hi")
                await ledger.wait_for(lambda: len(ledger.messages) == 1)

    run(main())


def test_a_name_for_ourselves_can_be_chosen() -> None:
    async def main() -> None:
        async with listening(routing_id=b"tcp://box:6714") as (router, _):
            assert router._socket.getsockopt(zmq.ROUTING_ID) == b"tcp://box:6714"

    run(main())
