"""Peers of seed 002 at a real foreman: plain sockets that know nothing of gandy, with the bytes of the original."""

import asyncio
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import zmq
from tests.e2e.door_crews import (
    DEREGISTER,
    EXEC,
    FAILED,
    INCREMENT,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    RR_STREAM,
    TRACKADDRESS,
    TRACKEXEC,
    VERSION,
    DoorCrew,
    PlainClient,
    PlainWorker,
    a_door_crew,
)
from tests.e2e.members import Member
from tests.waiting import until

import gandy
from gandy.errors import CallFailed

REGISTRATIONS = int(os.environ.get("GANDY_REGISTRATIONS", "30000"))  # in `make soak`, a million

ID4, ID8 = b"\x00\x00\x00\x00", b"\x04\x00\x00\x00\x00\x00\x00\x00"


def list_workers(crew: DoorCrew) -> dict[str, int]:
    with gandy.Client(crew.address) as client:
        return {row.name: row.slots for row in client.workers()}


KINDS = pytest.mark.parametrize("kind", [zmq.ROUTER, zmq.DEALER], ids=["router", "dealer"])


@KINDS
def test_every_message_is_that_of_the_capture(tmp_path: Path, kind: int) -> None:
    """The whole conversation of originals/roundrobin-frames.txt, frame by frame, seen by both peers."""
    with a_door_crew(tmp_path) as crew:
        worker = PlainWorker(crew, 10, f"{crew.roundrobin}:234595", kind)  # PING, PONG, REGISTER, RESPONSE
        client = PlainClient(crew, f"{crew.roundrobin}:62939", kind)
        client.greet()
        client.send(b"", VERSION, TRACKEXEC, ID8, PING, b"")
        assert worker.receive() == [b"", VERSION, TRACKEXEC, ID8, PING, b"", client.id]
        worker.send(client.id, b"", VERSION, RESPONSE, ID8, b"")
        assert client.receive() == [b"", VERSION, RESPONSE, ID8, b"", worker.id]
        worker.send(b"", VERSION, EXEC, struct.pack("<I", 1), INCREMENT, b"")
        client.send(b"", VERSION, EXEC, b"\x0b" + bytes(7), PING, b"")
        assert worker.receive() == [b"", VERSION, EXEC, b"\x0b" + bytes(7), PING, b"", client.id]
        worker.send(b"", VERSION, EXEC, struct.pack("<I", 2), INCREMENT, b"")
        client.send(b"", VERSION, TRACKEXEC, ID4, RR_STREAM, b"STREAM_ID", b"1024", b"")
        assert worker.receive() == [b"", VERSION, TRACKEXEC, ID4, RR_STREAM, b"STREAM_ID", b"1024", b"", client.id]
        packet = b"2R\x08\xc0\x0f\x00$k\x7f\x00\x00" + struct.pack("<ii", 105, 1024) + b"\x01" * 1024
        worker.send(client.id, b"", VERSION, RESPONSE, ID4, packet, b"")
        assert client.receive() == [b"", VERSION, RESPONSE, ID4, packet, b"", worker.id]
        worker.send(b"", VERSION, EXEC, struct.pack("<I", 3), INCREMENT, b"")
        worker.send(b"", VERSION, EXEC, b"WORKER", DEREGISTER, b"")
        assert worker.hears_nothing()
        until(lambda: list_workers(crew) == {})


@KINDS
def test_messages_with_an_address_are_passed_on(tmp_path: Path, kind: int) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, client = PlainWorker(crew, kind=kind), PlainClient(crew, kind=kind)
        client.greet()
        client.send(worker.id, b"", VERSION, PONG, b"two hops", b"")  # a PING would be answered by the helper
        assert worker.receive() == [b"", VERSION, PONG, b"two hops", b"", client.id]
        client.send(worker.id, b"", VERSION, TRACKEXEC, ID4, b"mqs_more", b"60:me", b"handle88", b"0", b"")
        frames = worker.receive()
        assert frames == [b"", VERSION, TRACKEXEC, ID4, b"mqs_more", b"60:me", b"handle88", b"0", b"", client.id]
        worker.send(client.id, b"", VERSION, TRACKADDRESS, ID4, b"an address", b"")
        assert client.receive() == [b"", VERSION, TRACKADDRESS, ID4, b"an address", b"", worker.id]
        worker.answer(frames, b"2R\x08handle88the end")
        assert client.receive() == [b"", VERSION, RESPONSE, ID4, b"2R\x08handle88the end", b"", worker.id]
        worker.answer(frames, b"again")
        assert client.hears_nothing()


@pytest.mark.parametrize("size", [1, 4, 255, 511])
def test_ids_have_any_length(tmp_path: Path, size: int) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, client = PlainWorker(crew, 1), PlainClient(crew)
        for byte in (b"\x07", b"\x08", b"\x09", b"x"):  # those that the original took for commands
            client.ask(byte * size, PING)
            worker.serve()
            assert client.hear() == (byte * size, ())
        assert list_workers(crew) == {worker.id.decode(): 1}


def test_calls_that_waited_reach_a_worker_that_is_slow_to_install_its_commands(tmp_path: Path) -> None:
    """The original does so when it has the response to REGISTER, and drops what comes before without a word."""
    with a_door_crew(tmp_path) as crew:
        client = PlainClient(crew)
        client.greet()
        for number in (b"1111", b"2222", b"3333"):
            client.ask(number, PING)
        worker = PlainWorker(crew)
        assert not worker.socket.poll(500), "it would have been dropped"
        for _ in range(3):
            worker.serve()
        assert [client.hear()[0] for _ in range(3)] == [b"1111", b"2222", b"3333"]


def test_a_call_that_its_worker_drops_ends_and_gives_its_slot_back(tmp_path: Path) -> None:
    with a_door_crew(tmp_path, "--roundrobin-limit", "2s") as crew:
        worker, client = PlainWorker(crew, 1), PlainClient(crew)
        client.ask(b"1111", PING)
        client.ask(b"2222", PING)
        assert worker.receive()[3] == b"1111"
        assert client.hear() == (b"1111", (FAILED, b"its worker has sent nothing about it for 2 s"))
        assert worker.serve()[3] == b"2222"
        assert client.hear() == (b"2222", ())


def test_a_slot_comes_back_with_its_increment_and_not_before(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, client = PlainWorker(crew, 1), PlainClient(crew)
        client.ask(b"1111", PING)
        client.ask(b"2222", PING)
        worker.answer(worker.receive())
        assert client.hear() == (b"1111", ())
        assert worker.hears_nothing()
        worker.increment()
        worker.answer(worker.receive())
        assert client.hear() == (b"2222", ())
        for _ in range(5):
            worker.increment()  # all but the first are for nothing
        assert worker.hears_nothing()
        client.ask(b"3333", PING)
        client.ask(b"4444", PING)
        assert worker.receive()[3] == b"3333"
        assert worker.hears_nothing()
        worker.increment()
        assert worker.receive()[3] == b"4444"


def test_workers_take_turns_and_what_finds_none_waits(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        client = PlainClient(crew)
        for number in range(6):
            client.ask(b"%04d" % number, PING)
        first = PlainWorker(crew, 2)
        assert [first.receive()[3] for _ in range(2)] == [b"0000", b"0001"]
        workers = [PlainWorker(crew, 2) for _ in range(2)]
        got = [[worker.receive()[3] for _ in range(2)] for worker in workers]
        assert got == [[b"0002", b"0003"], [b"0004", b"0005"]]
        for worker in (first, *workers):
            worker.increment()
            worker.increment()
        for number in range(3):
            client.ask(b"next", PING)
            assert (first, *workers)[number].receive()[3] == b"next"


def test_unknown_commands_are_answered_and_cost_no_slot(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, client = PlainWorker(crew, 1), PlainClient(crew)
        client.ask(b"1111", b"\x55")
        number, (status, text) = client.hear()
        assert (number, status) == (b"1111", FAILED)
        assert b"0x55" in text
        client.ask(b"2222", b"\x55", track=False)
        client.ask(b"3333", PING)
        assert worker.serve()[3] == b"3333"


def test_a_worker_that_is_killed_with_ten_calls_is_replaced(tmp_path: Path) -> None:
    """Calls that may be repeated are served by another worker; others are answered."""
    program = (
        "import sys, zmq\n"
        "socket = zmq.Context().socket(zmq.DEALER); socket.setsockopt(zmq.ROUTING_ID, b'victim')\n"
        "socket.connect(sys.argv[1])\n"
        "socket.send_multipart([b'', b'LMQv100', b'\\4', b'abcd', b'\\x08', b'10', b''])\n"
        "for _ in range(11): socket.recv_multipart(); print('got', flush=True)\n"
        "socket.recv_multipart()\n"
    )
    with a_door_crew(tmp_path, "--roundrobin-command", "0x20=once") as crew:
        victim = subprocess.Popen([sys.executable, "-c", program, crew.roundrobin], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"got\n"  # it is registered
        client = PlainClient(crew)
        for number in range(5):
            client.ask(b"rep%d" % number, PING)
            client.ask(b"one%d" % number, b"\x20")
        assert [victim.stdout.readline() for _ in range(10)] == [b"got\n"] * 10
        other = PlainWorker(crew, 10)
        victim.kill()
        victim.communicate()
        assert sorted(other.serve()[3] for _ in range(5)) == [b"rep%d" % number for number in range(5)]
        answers = dict(client.hear() for _ in range(10))
        assert all(answers[b"rep%d" % number] == () for number in range(5))
        assert all(answers[b"one%d" % number][0] == FAILED for number in range(5))
        assert other.hears_nothing()
        assert client.hears_nothing()
        until(lambda: list_workers(crew) == {other.id.decode(): 10})


def test_a_worker_that_is_stopped_is_lost_and_found_again(tmp_path: Path) -> None:
    """A silent process, with its connection open: its calls go to another one, and when it speaks it is back."""
    with a_door_crew(tmp_path, "--roundrobin-expiry", "3s") as crew:
        crew.workers.append(_hire_roundrobin(crew))
        until(lambda: len(list_workers(crew)) == 1)
        crew.workers[0].stop()
        client = PlainClient(crew)
        client.ask(b"1111", PING)
        until(lambda: crew.count_calls() == 1)
        other = PlainWorker(crew, 1)
        assert other.serve()[3] == b"1111"  # after the time of liveness
        assert client.hear() == (b"1111", ())
        crew.workers[0].go_on()
        until(lambda: len(list_workers(crew)) == 2)
        assert client.hears_nothing()


def _hire_roundrobin(crew: DoorCrew) -> Member:
    return Member(crew, "rr", "worker", "run", "--roundrobin", crew.roundrobin, "--slots", "2", "--insecure")


def test_a_client_that_is_gone_leaves_its_slots(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, gone, client = PlainWorker(crew, 1), PlainClient(crew), PlainClient(crew)
        for number in range(20):
            gone.ask(b"%04d" % number, PING)
        frames = worker.receive()
        gone.close()
        client.ask(b"mine", PING)
        worker.answer(frames)
        worker.increment()
        while (frames := worker.serve())[3] != b"mine":
            pass  # what went out before the door noticed
        assert client.hear() == (b"mine", ())


def test_a_flood_from_one_client_does_not_stop_another(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, flood, client = PlainWorker(crew, 1), PlainClient(crew), PlainClient(crew)
        flood.ask(b"head", PING)
        frames = worker.receive()
        for number in range(15_000):
            flood.ask(b"%08d" % number, PING)
        flood.send(b"", VERSION, PING, b"all read", b"")
        assert flood.receive()[3] == b"all read"
        client.ask(b"mine", PING)
        client.greet()
        worker.answer(frames)
        worker.increment()
        served = 0
        while worker.serve()[3] != b"mine":
            served += 1
        assert served <= 100  # and not fifteen thousand
        assert client.hear() == (b"mine", ())


MALFORMED = {
    "no frames but one": [b"x"],
    "one empty": [b""],
    "two empties": [b"", b""],
    "three frames": [b"", VERSION, PING],
    "no last empty": [b"", VERSION, TRACKEXEC, ID4, PING],
    "no first empty": [VERSION, TRACKEXEC, ID4, PING, b""],
    "wrong version": [b"", b"LMQv999", TRACKEXEC, ID4, PING, b""],
    "unknown mq command": [b"", VERSION, b"\x77", ID4, PING, b""],
    "no id": [b"", VERSION, TRACKEXEC, b""],
    "no command": [b"", VERSION, TRACKEXEC, ID4, b""],
    "long id": [b"", VERSION, TRACKEXEC, b"i" * 600, PING, b""],
    "long command": [b"", VERSION, TRACKEXEC, ID4, b"c" * 100_000, b""],
    "empty sender": [b"", VERSION, TRACKEXEC, ID4, PING, b"", b"", b"x"],
    "only addresses": [b"a", b"b", b"c"],
    "address of nobody": [b"nobody", b"", VERSION, PING, ID4, b""],
    "many frames": [b"", VERSION, TRACKEXEC, ID4, *[b"x"] * 5_000, b""],
    "response to nothing": [b"", VERSION, RESPONSE, ID4, b""],
    "increment of nobody": [b"", VERSION, EXEC, ID4, INCREMENT, b""],
    "deregister of nobody": [b"", VERSION, EXEC, b"WORKER", DEREGISTER, b""],
    "more of no stream": [b"", VERSION, TRACKEXEC, ID4, b"mqs_more", b""],
    "ongoing of nothing": [b"", VERSION, TRACKEXEC, ID4, b"ongoing", b""],
}


def test_no_malformed_message_does_harm(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker, client, bad = PlainWorker(crew, 1), PlainClient(crew), PlainClient(crew)
        for frames in MALFORMED.values():
            bad.send(*frames)
            client.ask(b"1111", PING)
            assert worker.serve()[3] == b"1111"
            assert client.hear() == (b"1111", ())
        assert list_workers(crew) == {worker.id.decode(): 1}


@pytest.mark.parametrize(("told", "slots"), [(b"many", 0), (b"-3", 0), (b"", 0), (b"7\0", 7), (b"9" * 30, 0xFFFE)])
def test_any_number_of_slots_can_be_told(tmp_path: Path, told: bytes, slots: int) -> None:
    with a_door_crew(tmp_path) as crew:
        odd = PlainClient(crew)
        odd.ask(b"1111", REGISTER, *([told] if told else []))
        assert odd.hear() == (b"1111", ())
        until(lambda: list_workers(crew) == {odd.id.decode(): slots})  # when it is ready


def test_endless_registrations_do_no_harm(tmp_path: Path) -> None:
    """From few peers, as fast as they can: a routing id is in the table once."""
    with a_door_crew(tmp_path) as crew:
        crowd = [PlainWorker(crew, 1) for _ in range(20)]
        for number in range(REGISTRATIONS):
            crowd[number % 20].send(b"", VERSION, EXEC, ID4, REGISTER, b"3", b"")
        for peer in crowd:
            assert peer.hears_nothing()
        assert set(list_workers(crew).values()) == {3}
        client = PlainClient(crew)
        for number in range(60):
            client.ask(b"%04d" % number, PING)
        for peer in crowd:
            for _ in range(3):
                peer.serve()
        assert {client.hear()[0] for _ in range(60)} == {b"%04d" % number for number in range(60)}


def test_a_restarted_foreman_takes_back_workers_that_noticed_nothing(tmp_path: Path) -> None:
    with a_door_crew(tmp_path) as crew:
        worker = PlainWorker(crew, 4)
        memory = tmp_path / "roundrobin.json"
        until(memory.exists)
        crew.foreman.kill()
        crew.restart_foreman()
        worker.socket.poll(20_000)  # the PING, which `hears_nothing` answers
        assert worker.hears_nothing()
        until(lambda: list_workers(crew) == {worker.id.decode(): 4})
        client = PlainClient(crew)
        client.ask(b"1111", PING)
        assert worker.serve()[3] == b"1111"
        assert client.hear() == (b"1111", ())


def test_native_clients_are_served_by_plain_workers(tmp_path: Path) -> None:
    with a_door_crew(tmp_path, "--roundrobin-command", "0x20=double") as crew:
        worker = PlainWorker(crew, 10)

        async def serve(*payload: bytes) -> list[bytes]:
            frames = await asyncio.to_thread(worker.receive)
            worker.answer(frames, *payload)
            worker.increment()
            return frames

        async def work(client: gandy.AsyncClient) -> None:
            call = client.call("ping")
            frames = await serve()
            assert (frames[:3], frames[4:]) == ([b"", VERSION, TRACKEXEC], [PING, b""])
            assert await call == "pong"
            call = client.call("double", "text", 12, b"\0")
            assert (await serve(b"one", b"two"))[4:] == [b"\x20", b"text", b"12", b"\0", b""]
            assert await call == [b"one", b"two"]
            call = client.call("double")
            await serve(FAILED, b"no more")
            with pytest.raises(CallFailed, match="no more"):
                await call
            large = os.urandom(1_000_000)
            call = client.call("double", large)
            assert (await serve(large))[5] == large
            assert await call == large
            stream = client.stream("rr_stream", "60:me", 1024)
            assert (await serve(b"0R\x08handle88first"))[4:] == [RR_STREAM, b"60:me", b"1024", b""]
            frames = await asyncio.to_thread(worker.receive)
            assert frames[4:] == [b"mqs_more", b"60:me", b"handle88", b"0", b""]
            worker.answer(frames, b"2R\x08handle88second")
            assert [value async for value in stream] == [b"first", b"second"]
            await client.cast("double", 1)
            assert (await asyncio.to_thread(worker.receive))[2] == EXEC

        crew.talk(work)


def test_plain_clients_are_served_by_native_workers(tmp_path: Path) -> None:
    codes = ("0x20=echo", "0x21=stream,stream", "0x22=fail")
    words = [word for code in codes for word in ("--roundrobin-command", code)]
    with a_door_crew(tmp_path, *words) as crew:
        crew.hire("native")
        client = PlainClient(crew)
        client.ask(b"1111", PING)
        assert client.hear() == (b"1111", ())
        client.ask(b"2222", RR_STREAM, b"STREAM_ID", b"1024")
        number, (packet,) = client.hear()
        assert (number, packet[:3]) == (b"2222", b"2R\x08")
        assert packet.count(b"\x01") >= 1024
        large = os.urandom(1_000_000)
        client.ask(b"3333", b"\x20", large)
        assert client.hear() == (b"3333", (large,))
        client.ask(b"4444", b"\x21", b"20000")
        number, (status, text) = client.hear()
        assert (number, status) == (b"4444", FAILED)  # its argument is no number: frames are bytes
        assert b"TypeError" in text or b"not supported" in text
