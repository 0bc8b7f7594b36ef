"""Workers of four kinds under one foreman, clients of two kinds: every call is answered once, with its own answer."""

import asyncio
import os
import struct
from collections import Counter
from itertools import count
from pathlib import Path
from threading import Event, Thread

from tests.e2e.door_crews import (
    EXEC,
    PING,
    PONG,
    TRACKEXEC,
    VERSION,
    DoorCrew,
    PlainClient,
    PlainDealer,
    PlainWorker,
    a_door_crew,
)
from tests.e2e.members import Member
from tests.waiting import until

import gandy

CALLS = int(os.environ.get("GANDY_MIXED_CALLS", "10000"))
WINDOW = 200
COOK = b"\x20"
COOKS = {b"gandy", b"plain", b"dealer"}


class Cook(Thread):
    """A plain worker at the round-robin door."""

    def __init__(self, crew: DoorCrew, over: Event) -> None:
        super().__init__()
        self.worker = PlainWorker(crew, 10)
        self.over = over
        self.served: Counter[bytes] = Counter()

    def run(self) -> None:
        while not self.over.is_set():
            if self.worker.socket.poll(100):
                frames = self.worker.socket.recv_multipart()
                if frames[2] == PING:
                    self.worker.send(b"", VERSION, PONG, frames[3], b"")
                else:
                    assert frames[2] in (EXEC, TRACKEXEC)
                    self.served[frames[5]] += 1
                    self.worker.answer(frames, b"plain " + frames[5])
                    self.worker.increment()


class Stove(Thread):
    """A plain worker at the ping-pong door."""

    def __init__(self, crew: DoorCrew, over: Event) -> None:
        super().__init__()
        self.worker = PlainDealer(crew)
        self.worker.get_ready()
        self.over = over
        self.served: Counter[bytes] = Counter()

    def run(self) -> None:
        while not self.over.is_set():
            if not self.worker.socket.poll(100):
                self.worker.say(b"PING")
                continue
            (job,) = self.worker.hear()
            if job != b"PONG":
                self.served[job] += 1
                self.worker.say(b"dealer " + job)


def ask_all(client: PlainClient, calls: int) -> Counter[bytes]:
    """Who answered. Each id is answered once, with its own answer."""
    who: Counter[bytes] = Counter()
    waiting: set[bytes] = set()
    sent = 0
    while sent < calls or waiting:
        while sent < calls and len(waiting) < WINDOW:
            number = struct.pack("<Q", sent)
            client.ask(number, COOK, b"plain-%d" % sent)
            waiting.add(number)
            sent += 1
        number, (answer,) = client.hear()
        waiting.remove(number)
        cook, _, data = answer.partition(b" ")
        assert data == b"plain-%d" % int.from_bytes(number, "little")
        who[cook] += 1
    return who


async def call_all(client: gandy.AsyncClient, calls: int) -> Counter[bytes]:
    room = asyncio.Semaphore(WINDOW)
    who: Counter[bytes] = Counter()

    async def call(number: int) -> None:
        async with room:
            cook, _, data = (await client.call("cook", b"native-%d" % number)).partition(b" ")
        assert data == b"native-%d" % number
        who[cook] += 1

    await asyncio.gather(*map(call, range(calls)))
    return who


async def until_all_cook(client: gandy.AsyncClient) -> None:
    """A worker of the round-robin door gets nothing until it must be ready, which takes up to a second."""
    cooks: set[bytes] = set()
    for number in count():
        cooks |= {(await client.call("cook", b"first-%d" % number)).partition(b" ")[0]}
        if cooks == COOKS:
            return


def test_each_of_ten_thousand_calls_is_answered_once(tmp_path: Path) -> None:
    over = Event()
    with a_door_crew(tmp_path, "--roundrobin-command", "0x20=cook") as crew:
        commands = ("--commands", "tests.e2e.stews")
        crew.hire("native", 4, commands="tests.e2e.stews")
        for words in (
            ["--roundrobin", crew.roundrobin, "--roundrobin-command", "0x20=cook", "--slots", "4", "--insecure"],
            ["--pingpong", crew.pingpong, "--pingpong-command", "cook", "--insecure"],
        ):
            crew.workers.append(Member(crew, words[0].strip("-"), "worker", "run", *words, *commands))
        threads: list[Cook | Stove] = [Cook(crew, over), Stove(crew, over)]

        def count_workers() -> int:
            with gandy.Client(crew.address) as client:
                return len(client.workers())

        until(lambda: count_workers() == 5)
        plain = PlainClient(crew)
        for thread in threads:
            thread.start()

        async def work(client: gandy.AsyncClient) -> list[Counter[bytes]]:
            await until_all_cook(client)
            asking = asyncio.to_thread(ask_all, plain, CALLS // 2)
            return list(await asyncio.gather(call_all(client, CALLS // 2), asking))

        try:
            native, others = crew.talk(work)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert native.total() + others.total() == CALLS
        for who in (native, others):
            assert set(who) == COOKS
        for thread in threads:
            assert set(thread.served.values()) == {1}
        until(lambda: crew.count_calls() == 0)
        assert plain.hears_nothing()
