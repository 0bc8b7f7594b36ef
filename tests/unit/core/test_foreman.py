"""A whole foreman without I/O: its links, which of them may call, and what is written to each."""

import pytest
from tests.ports import PlayedPort
from tests.unit.core.linked import WORKING, Crew

from gandy.core.effects import Give
from gandy.core.extensions import (
    CAPACITY,
    DIRECTORY,
    PONG,
    WANT,
    Capacity,
    decode_directory,
    decode_want,
    encode,
)
from gandy.core.links import Link
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec
from gandy.core.reports import make_result
from gandy.core.requests import REPLY
from gandy.core.roles import Credentials, CrewRole
from gandy.core.shards import Directory, ShardPlace, Want
from gandy.core.workers import WorkerInfo
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.ids import JobId, TaskNumber
from gandy.wire import calls, payloads, v2
from gandy.wire.messages import About, Extended, Extension, Hello


class Gate:
    """A door with `left` messages to send, which notes how it is called."""

    def __init__(self) -> None:
        self.left = 0
        self.calls: list[tuple[object, ...]] = []

    def send(self, now: float) -> bool:
        had, self.left = self.left, max(0, self.left - 1)
        self.calls.append(("send", had, now))
        return bool(had)

    def on_time(self, now: float) -> None:
        self.calls.append(("time", now))

    def dismiss(self, worker: str, immediate: bool, now: float) -> None:
        self.calls.append(("dismiss", worker, immediate, now))


def a_call(seq: int) -> bytes:
    return calls.encode(calls.CALL, 0, seq, 0, calls.encode_target("ping") + b"x")


def test_a_call_goes_from_a_client_to_a_worker_and_back() -> None:
    crew = Crew()
    worker, client = crew.worker("w"), crew.client("c")
    crew.foreman.on_data(client, a_call(7), 2.0)
    crew.foreman.check()
    assert crew.ports["w"].take() == a_call(0)
    answer = calls.LAST | calls.WHOLE
    crew.foreman.on_data(worker, calls.encode(calls.RESULT, answer, 0, 0, b"pong"), 3.0)
    crew.foreman.check()
    assert crew.ports["c"].take() == calls.encode(calls.RESULT, answer, 7, 0, b"pong")
    assert worker.peer.worker is not None
    assert worker.peer.worker.last_heard == 3.0


def test_calls_and_other_messages_may_come_in_one_read() -> None:
    crew = Crew()
    crew.worker("w")
    client = crew.client("c")
    crew.foreman.on_data(client, a_call(7) + b"nonsense that is long enough", 2.0)
    assert crew.ports["w"].take() == a_call(0)
    assert crew.watcher.notes[-1] == "c refused: BAD_MAGIC"
    assert crew.ports["c"].ends == ["close"]


@pytest.mark.parametrize(
    ("role", "may_call"),
    [
        (CrewRole.OWNER, True),
        (CrewRole.ANYBODY, True),
        (CrewRole.CLIENT, True),
        (CrewRole.WORKER, False),
        (CrewRole.OBSERVER, False),
    ],
)
def test_the_short_way_of_calls_is_for_roles_that_may_call(role: CrewRole, may_call: bool) -> None:
    link = Crew().connect("peer", role)
    assert link.framing is not None
    assert (link.framing.take_plain_calls is not None) == may_call


def test_a_link_of_an_older_protocol_carries_no_calls() -> None:
    crew = Crew()
    port = PlayedPort("old")
    link = crew.foreman.on_link(port, Credentials(), 0.0, V1ForemanSide())
    assert link.framing is None
    assert port.take()  # v1: the foreman speaks first
    crew.foreman.links.greet(link)
    assert port.take() == b""
    crew.foreman.on_data(link, b"nonsense that is long enough", 1.0)
    assert port.ends == ["close"]


def test_a_worker_that_comes_again_replaces_its_former_link() -> None:
    crew = Crew()
    first = crew.worker("w", "one")
    second = crew.worker("w", "two")
    assert crew.ports["one"].ends == ["abort"]
    assert crew.foreman.links.find("w") is second
    crew.foreman.on_cut(first, 2.0)
    crew.foreman.check()
    assert crew.foreman.links.find("w") is second
    crew.foreman.on_cut(second, 3.0)
    crew.foreman.check()
    assert crew.foreman.links.find("w") is None
    assert crew.watcher.notes == ["w on one", "w on two"]


def test_a_worker_that_should_be_dead_is_sent_something_so_that_its_link_ends() -> None:
    """The kernel of a machine that was started again knows nothing of the link, and says so."""
    crew = Crew()
    crew.worker("old")
    crew.worker("other")
    link = crew.connect("new")
    link.credentials = Credentials(key="key of old")
    crew.send(link, Hello(2, (), WORKING, About("new", "old", 2, former=("old", "other", "gone", "new"))))
    assert crew.ports["old"].take() == v2.encode(0, Extended(PONG, b""))
    assert crew.ports["other"].take() == b""  # it has another key
    assert crew.ports["old"].ends == []


def test_a_worker_without_heartbeats_is_sent_nothing_that_it_does_not_know() -> None:
    crew = Crew()
    old = crew.connect("old")
    crew.send(old, Hello(2, (), WORKING & ~Extension.HEARTBEAT, About("old", "old", 2)))
    crew.ports["old"].take()
    link = crew.connect("new")
    link.credentials = Credentials(key="key of old")
    crew.send(link, Hello(2, (), WORKING, About("new", "old", 2, former=("old",))))
    assert crew.ports["old"].take() == b""


def test_nothing_is_sent_to_a_link_that_is_gone() -> None:
    crew = Crew()
    client = crew.client("c")
    assert crew.foreman.links.send(client, REPLY, b"reply", 1)
    crew.foreman.on_cut(client, 2.0)
    crew.foreman.links.flush()
    crew.foreman.links.greet(client)
    assert not crew.foreman.links.send(client, REPLY, b"reply", 1)
    assert crew.ports["c"].take() == b""


def test_doors_send_until_they_have_nothing_to_send() -> None:
    crew, gate = Crew(), Gate()
    crew.foreman.switchboard.output.doors.append(gate)
    gate.left = 2
    crew.foreman.on_call_time(5.0)
    assert gate.calls == [("time", 5.0), ("send", 2, 5.0), ("send", 1, 5.0), ("send", 0, 5.0)]
    gate.calls.clear()
    crew.foreman.batch.add(crew.foreman.reactor.on_hello(WorkerInfo("far", "far", 1), (), 6.0))
    crew.foreman.batch.add(crew.foreman.reactor.drain("far", immediate=True))
    for send in crew.foreman.take_batch(6.0).sends:
        crew.foreman.perform(send, {}, 6.0)
    assert ("dismiss", "far", True, 6.0) in gate.calls


def test_calls_wait_for_slots_that_tasks_leave_and_get_them_before_the_next_commit() -> None:
    crew = Crew()
    worker, client = crew.worker("w", slots=1), crew.client("c")
    for seq in (1, 2):
        crew.foreman.on_data(client, a_call(seq), 2.0)
    assert crew.foreman.switchboard.waiting.count == 1
    crew.foreman.share_slots(2.1)
    crew.ports["w"].take()
    crew.foreman.on_data(worker, calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 0, 0, b""), 3.0)
    assert crew.ports["w"].take() == a_call(1)
    crew.foreman.take_batch(4.0)
    crew.foreman.check()


def test_calls_that_wait_get_the_slots_that_tasks_did_not_take() -> None:
    crew = Crew()
    worker, client = crew.worker("w", slots=1), crew.client("c")
    account = worker.peer.slots
    account.by_tasks = 1
    crew.foreman.on_data(client, a_call(1), 2.0)
    assert crew.ports["w"].take() == b""
    account.by_tasks = 0
    crew.foreman.take_batch(3.0)
    assert crew.ports["w"].take() == a_call(0)
    crew.foreman.check()


def test_the_door_of_a_peer_gets_its_frames() -> None:
    crew = Crew()
    frames: list[tuple[bytes, float]] = []
    peer = crew.foreman.switchboard.add_peer(lambda _peer, data, now: frames.append((data, now)))
    worker = crew.worker("w")
    crew.foreman.switchboard.on_frame(peer, calls.CALL, 0, 7, 0, calls.encode_target("ping") + b"x")
    crew.foreman.switchboard.output.flush(2.0)
    assert crew.ports["w"].take() == a_call(0)
    answer = calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 0, 0, b"pong")
    crew.foreman.on_data(worker, answer, 3.0)
    assert frames == [(calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 7, 0, b"pong"), 3.0)]
    crew.foreman.check()


def a_result(seq: int = 0) -> bytes:
    return calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, seq, 0, b"")


def test_a_task_gets_the_slot_that_a_call_returns_without_waiting_for_the_clock() -> None:
    crew = Crew()
    worker, client = crew.worker("w", slots=1), crew.client("c")
    crew.foreman.on_data(client, a_call(1), 2.0)
    crew.foreman.batch.add(crew.foreman.reactor.control.submit(JobSpec(command="true"), 2.0)[1])
    assert not any(isinstance(send, Give) for send in crew.foreman.take_batch(2.0).sends)
    crew.foreman.on_data(client, a_call(2) + calls.encode(calls.CANCEL, 0, 2), 2.5)
    assert not crew.foreman.has_work
    crew.foreman.on_data(worker, a_result(), 3.0)
    assert crew.foreman.has_work
    assert any(isinstance(send, Give) for send in crew.foreman.take_batch(3.0).sends)
    crew.foreman.check()


def test_calls_do_not_wait_for_a_store_that_takes_long() -> None:
    crew = Crew()
    worker, client = crew.worker("w", slots=1), crew.client("c")
    crew.foreman.batch.add(crew.foreman.reactor.control.submit(JobSpec(command="true"), 1.0)[1])
    batch = crew.foreman.take_batch(1.0)
    for send in batch.sends:
        crew.foreman.perform(send, {}, 1.0)
    crew.foreman.on_data(client, a_call(1), 2.0)
    crew.foreman.links.flush()
    crew.ports["w"].take()
    result = make_result(AttemptKey(JobId(1), TaskNumber(1), 1), Ending(cause=Cause.EXIT, exit_code=0))
    crew.foreman.on_data(worker, v2.encode(1, Extended(v2.RESULTS, payloads.encode([result]))), 3.0)
    assert crew.foreman.batch.records, "the store is to know of it, and takes long"
    assert crew.ports["w"].take() == b"", "the slot is for tasks first"
    crew.foreman.share_slots(3.1)
    assert crew.ports["w"].take() == a_call(0)
    crew.foreman.take_batch(3.2)
    crew.foreman.share_slots(3.3)
    assert crew.ports["w"].take() == b""
    crew.foreman.check()


# Shards


def in_a_shard() -> Crew:
    crew = Crew()
    crew.foreman.shard = 3
    return crew


def hello_shared(crew: Crew, name: str, offers: Extension = WORKING | Extension.SHARDS) -> Link:
    link = crew.connect(name)
    crew.send(link, Hello(2, (), offers, About(name, name, 2, ahead=10)))
    return link


def read_extended(data: bytes, kind: int) -> list[bytes]:
    decoder = v2.V2Decoder()
    decoder.allow(WORKING | Extension.SHARDS)
    decoder.receive_data(data)
    found = []
    while (message := decoder.next_message()) is not None:
        if isinstance(message[1], Extended) and message[1].type == kind:
            found.append(message[1].payload)
    return found


def test_a_worker_is_told_where_the_shards_are_first_and_after_each_change() -> None:
    crew = in_a_shard()
    first, second = Directory(3), Directory(3, (ShardPlace(3, 1, ("tcp://a:1",)),))
    link = hello_shared(crew, "w")
    assert read_extended(crew.ports["w"].take(), DIRECTORY) == []  # it is not known yet
    crew.foreman.set_directory(lambda _link: first)
    assert list(map(decode_directory, read_extended(crew.ports["w"].take(), DIRECTORY))) == [first]
    crew.foreman.set_directory(lambda _link: second)
    hello_shared(crew, "v")
    for name in "wv":
        assert list(map(decode_directory, read_extended(crew.ports[name].take(), DIRECTORY))) == [second]
    assert Extension.SHARDS in link.agreed


def test_a_worker_that_knows_no_shards_is_told_nothing() -> None:
    crew = in_a_shard()
    crew.foreman.set_directory(lambda _link: Directory(3))
    link = hello_shared(crew, "w", WORKING)
    client = crew.client("c")
    assert Extension.SHARDS not in link.agreed | client.agreed
    assert read_extended(crew.ports["w"].take(), DIRECTORY) == []


def test_a_single_foreman_does_not_offer_shards() -> None:
    assert Extension.SHARDS not in hello_shared(Crew(), "w").agreed


def test_a_worker_is_told_what_waits_for_it() -> None:
    crew = in_a_shard()
    crew.foreman.set_directory(lambda _link: Directory(3, (ShardPlace(3, 1, ()), ShardPlace(4, 1, ()))))
    link = hello_shared(crew, "w")
    crew.foreman.on_data(link, v2.encode(0, Extended(CAPACITY, encode(Capacity(0, 0)))), 1.0)
    crew.ports["w"].take()
    job, effects = crew.foreman.reactor.control.submit(JobSpec(command="true"), 1.0)
    crew.foreman.batch.add(effects)
    crew.foreman.take_batch(2.0)
    assert list(map(decode_want, read_extended(crew.ports["w"].take(), WANT))) == [Want(1, 0, job)]
    crew.foreman.on_cut(link, 3.0)
    crew.foreman.reactor.dispatcher.request()
    crew.foreman.take_batch(4.0)
