"""Ping-pong workers at a real foreman, on plain sockets; and gandy's own at a plain broker."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zmq
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.door_crews import DoorCrew, PlainDealer, a_door_crew
from tests.e2e.kitchens import ROOT, SOON
from tests.e2e.members import Member
from tests.free_ports import find_port
from tests.waiting import until

import gandy
from gandy.errors import CallFailed, WorkerLost


def list_workers(crew: DoorCrew) -> list[str]:
    with gandy.Client(crew.address) as client:
        return [row.id for row in client.workers()]


def test_ready_and_ping_are_answered_and_both_register(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        first, second = PlainDealer(crew, b"first"), PlainDealer(crew)
        first.get_ready()
        second.say(b"PING")
        assert second.hear() == [b"PONG"]
        second.say(b"PING", b"17")
        assert second.hear() == [b"PONG", b"17"]
        workers = list_workers(crew)
        assert "pingpong/first" in workers
        assert len(workers) == 2


def test_jobs_and_results_are_opaque_bytes(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker = PlainDealer(crew)
        worker.get_ready()

        async def work(client: gandy.AsyncClient) -> None:
            for data in (b"soup", b"", bytes(range(256)), b"READY", bytes(1_000_000)):
                call = client.call("cook", data)
                assert await asyncio.to_thread(worker.hear) == [data]
                worker.say(data[::-1])
                assert await call == data[::-1]
            for word in (b"PONG", b"EXIT"):
                with pytest.raises(CallFailed, match=word.decode()):
                    await client.call("cook", word)
            await client.cast("cook", "text")
            assert await asyncio.to_thread(worker.hear) == [b"text"]
            worker.say(b"an answer to nothing")
            with pytest.raises(CallFailed, match="one argument"):
                await client.call("cook", b"one", b"two")

        crew.talk(work)
        assert worker.hears_nothing()


def test_a_silent_worker_keeps_its_job_and_an_idle_one_expires(tmp_path: Path) -> None:
    """pingpong.md, rule 4: a busy worker may be silent. Its job takes three times the expiry, and runs once."""
    with a_door_crew(tmp_path, "--pingpong-expiry", "1s") as crew:
        busy, idle = PlainDealer(crew, b"busy"), PlainDealer(crew, b"idle")
        busy.get_ready()

        async def work(client: gandy.AsyncClient) -> None:
            call = client.call("cook", b"long")
            assert await asyncio.to_thread(busy.hear) == [b"long"]
            idle.get_ready()
            began = time.monotonic()
            while "pingpong/idle" in list_workers(crew) or time.monotonic() < began + 3:
                await asyncio.sleep(0.05)
            assert list_workers(crew) == ["pingpong/busy"]
            busy.say(b"well done")
            assert await call == b"well done"
            idle.say(b"PING")  # and no EXIT came before
            assert idle.hear() == [b"PONG"]
            assert "pingpong/idle" in list_workers(crew)

        crew.talk(work)
        assert busy.hears_nothing()


def test_a_worker_that_dies_with_a_job_is_lost_at_once(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, other = PlainDealer(crew), PlainDealer(crew)
        worker.get_ready()

        async def work(client: gandy.AsyncClient) -> None:
            call, again = client.call("cook", b"1"), client.call("cook", b"2", repeatable=True)
            assert await asyncio.to_thread(worker.hear) == [b"1"]
            worker.close()
            with pytest.raises(WorkerLost):
                await call
            other.get_ready()
            assert await asyncio.to_thread(other.hear) == [b"2"]
            other.close()
            third = PlainDealer(crew)
            third.get_ready()
            assert await asyncio.to_thread(third.hear) == [b"2"]
            third.say(b"two")
            assert await again == b"two"

        crew.talk(work)


def test_results_without_a_job_do_no_harm(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        stranger, worker = PlainDealer(crew, b"stranger"), PlainDealer(crew, b"worker")
        stranger.say(b"a result of nothing")
        for frames in ([], [b"PING", b"1", b"2"], [b"READY", b"x"], [b"x" * 1000, b"y"]):
            stranger.socket.send_multipart([b"", *frames])
            stranger.socket.send_multipart(frames or [b"PING"])
        worker.get_ready()
        worker.say(b"a second result")
        worker.say(b"a third one")
        assert worker.hears_nothing()  # and all that it said before was heard

        async def work(client: gandy.AsyncClient) -> None:
            call = client.call("cook", b"soup")
            assert await asyncio.to_thread(worker.hear) == [b"soup"]
            worker.say(b"soup!")
            assert await call == b"soup!"

        crew.talk(work)
        assert worker.hears_nothing()


def test_a_worker_is_let_go_with_exit(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        idle, busy = PlainDealer(crew, b"idle"), PlainDealer(crew, b"busy")
        busy.get_ready()

        async def work(client: gandy.AsyncClient) -> None:
            call = client.call("cook", b"soup")
            assert await asyncio.to_thread(busy.hear) == [b"soup"]
            idle.get_ready()
            await client.stop_worker("idle")
            assert await asyncio.to_thread(idle.hear) == [b"EXIT"]
            await client.stop_worker("busy")
            assert busy.hears_nothing()
            busy.say(b"soup!")
            assert await call == b"soup!"
            assert await asyncio.to_thread(busy.hear) == [b"EXIT"]
            assert list_workers(crew) == []

        crew.talk(work)


def test_a_broker_that_comes_back_finds_its_workers_again(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        crew.environment["PYTHONPATH"] = str(ROOT)
        words = (
            "--pingpong",
            crew.pingpong,
            "--insecure",
            "--pingpong-command",
            "cook",
            "--commands",
            "tests.e2e.stews",
        )
        crew.workers.append(Member(crew, "pp", "worker", "run", *words))
        plain = PlainDealer(crew)
        plain.get_ready()
        until(lambda: len(list_workers(crew)) == 2)
        crew.foreman.kill()
        crew.restart_foreman()
        plain.say(b"PING")  # as it does every second
        assert plain.hear() == [b"PONG"]
        until(lambda: len(list_workers(crew)) == 2)
        plain.close()
        until(lambda: len(list_workers(crew)) == 1)
        with gandy.Client(crew.address) as client:
            assert client.call("cook", b"soup", timeout=SOON) == b"gandy soup"


# gandy's own worker, at a broker that is written here from the seed


class Broker(Crew):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.environment["PYTHONPATH"] = str(ROOT)
        self.url = f"tcp://127.0.0.1:{find_port()}"
        self.context = zmq.Context()
        self.open()

    def open(self) -> None:
        self.socket = self.context.socket(zmq.ROUTER)
        until(self._can_bind)

    def _can_bind(self) -> bool:
        """A socket that was closed gives its port back a moment later."""
        with suppress(zmq.ZMQError):
            self.socket.bind(self.url)
            return True
        return False

    def hear(self) -> tuple[bytes, bytes]:
        assert self.socket.poll(SOON * 1000), "nothing came"
        worker, empty, word = self.socket.recv_multipart()
        assert empty == b""
        return worker, word

    def hear_but_pings(self) -> tuple[bytes, bytes]:
        while True:
            worker, word = self.hear()
            if word != b"PING":
                return worker, word
            self.say(worker, b"PONG")

    def say(self, worker: bytes, word: bytes) -> None:
        self.socket.send_multipart([worker, b"", word])


@contextmanager
def a_broker(home: Path, command: str) -> Iterator[tuple[Broker, Member]]:
    broker = Broker(home)
    words = ("--pingpong", broker.url, "--insecure", "--pingpong-command", command, "--commands", "tests.e2e.stews")
    worker = Member(broker, "pp", "worker", "run", *words)
    try:
        yield broker, worker
    finally:
        broker.context.destroy(linger=0)
        if worker.process.poll() is None:
            worker.end()


def test_a_gandy_worker_serves_a_plain_broker(tmp_path: Path) -> None:
    with a_broker(tmp_path, "cook") as (broker, worker):
        peer, word = broker.hear()
        assert word == b"READY"
        broker.say(peer, b"PONG")
        broker.say(peer, b"soup")
        assert broker.hear_but_pings() == (peer, b"gandy soup")
        broker.say(peer, b"EXIT")
        assert worker.process.wait(PATIENCE) == 0


def test_a_busy_worker_keeps_pinging(tmp_path: Path) -> None:
    with a_broker(tmp_path, "simmer") as (broker, worker):
        peer, _ = broker.hear()
        broker.say(peer, b"3")
        words = [broker.hear()[1] for _ in range(2)]
        assert words == [b"PING", b"PING"]
        assert broker.hear_but_pings() == (peer, b"done")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE) == 0


def test_a_failure_is_a_result_that_says_so(tmp_path: Path) -> None:
    with a_broker(tmp_path, "burn") as (broker, _):
        peer, _ = broker.hear()
        broker.say(peer, b"black")
        assert broker.hear_but_pings() == (peer, b"ERROR ValueError: black")


def test_a_worker_whose_broker_is_silent_begins_anew(tmp_path: Path) -> None:
    with a_broker(tmp_path, "cook") as (broker, _):
        first, word = broker.hear()
        assert word == b"READY"
        while (said := broker.hear())[1] == b"PING":
            assert said[0] == first  # and is never answered
        second, word = said
        assert (word, second != first) == (b"READY", True)
        broker.socket.close(linger=0)
        broker.open()
        third, word = broker.hear_but_pings()
        assert (word, third != second) == (b"READY", True)
        broker.say(third, b"soup")
        assert broker.hear_but_pings() == (third, b"gandy soup")
