"""A whole foreman without I/O: which links there are, who may call, who is silent, and what is written where."""

import pytest
from tests.ports import PlayedPort

from gandy.core.effects import Give
from gandy.core.extensions import FOREMAN_OFFERS
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.liveness import HEARTBEAT_EXPIRY
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec
from gandy.core.peer_log import PeerLog
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.reports import make_result
from gandy.core.requests import REPLY
from gandy.core.roles import Credentials, CrewRole, make_refusal
from gandy.core.workers import WorkerInfo
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.limits import HELLO_SECONDS
from gandy.wire import calls, payloads, v2
from gandy.wire.calls import Offer
from gandy.wire.messages import About, Extended, Extension, Hello, Message

WORKING = FOREMAN_OFFERS & ~Extension.CLIENT
ASKING = Extension.ATOMIC | Extension.CLIENT | Extension.CALLS


class Watcher(PeerLog):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        self.notes.append(f"{worker.id} on {link.name}")

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        self.notes.append(f"{link.name} refused: {error.code.name}")

    def on_expired(self, link: Link) -> None:
        self.notes.append(f"{link.name} expired")

    def on_silent(self, worker: WorkerInfo) -> None:
        self.notes.append(f"{worker.id} silent")


class Gate:
    """A door that has so many things to say, and notes what it is told."""

    def __init__(self) -> None:
        self.left = 0
        self.told: list[tuple[object, ...]] = []

    def send(self, now: float) -> bool:
        had, self.left = self.left, max(0, self.left - 1)
        self.told.append(("send", had, now))
        return bool(had)

    def on_time(self, now: float) -> None:
        self.told.append(("time", now))

    def dismiss(self, worker: str, immediate: bool, now: float) -> None:
        self.told.append(("dismiss", worker, immediate, now))


class Crew:
    def __init__(self, max_silent: int = 10) -> None:
        self.watcher = Watcher()
        self.foreman = Foreman(Reactor(Policy(grace=10.0)), 0.0, self.watcher, max_silent)
        self.ports: dict[str, PlayedPort] = {}

    def connect(self, name: str, role: CrewRole = CrewRole.OWNER, expires: float | None = None) -> Link:
        port = self.ports[name] = PlayedPort(name)
        return self.foreman.on_link(port, Credentials(role, f"key of {name}", expires), 0.0)

    def say(self, link: Link, message: Message, seq: int = 0, now: float = 1.0) -> None:
        self.foreman.on_data(link, v2.encode(seq, message), now)
        self.foreman.check()

    def worker(self, name: str, link: str = "", slots: int = 2, offers: tuple[str, ...] = ("ping",)) -> Link:
        port = self.ports[link or name] = PlayedPort(link or name)
        found = self.foreman.on_link(port, Credentials(key=f"key of {name}"), 0.0)
        self.say(found, Hello(slots, (), WORKING, About(name, name, slots)))
        said = calls.encode_announcement(slots, 0, [Offer(offer) for offer in offers])
        self.foreman.on_data(found, calls.encode(calls.ANNOUNCE, 0, 0, 0, said), 1.0)
        self.ports[found.name].take()
        return found

    def client(self, name: str, role: CrewRole = CrewRole.CLIENT) -> Link:
        found = self.connect(name, role)
        self.say(found, Hello(0, (), ASKING))
        self.ports[name].take()
        return found


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


def test_calls_and_other_words_may_come_in_one_read() -> None:
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
def test_the_short_way_of_calls_is_for_those_who_may_call(role: CrewRole, may_call: bool) -> None:
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


def test_peers_that_say_nothing_are_cut() -> None:
    crew = Crew(max_silent=2)
    for name in ("a", "b"):
        crew.connect(name)
    assert crew.ports["a"].ends == ["abort"]  # half of those that there may be, from one address
    crew.worker("w")
    crew.foreman.on_time(HELLO_SECONDS + 1.0)
    assert [crew.ports[name].ends for name in ("b", "w")] == [["abort"], []]


def test_a_worker_that_falls_silent_is_cut() -> None:
    crew = Crew()
    worker = crew.worker("w")
    crew.foreman.on_time(2.0)
    crew.foreman.on_data(worker, calls.encode(calls.CANCEL, 0, 1), 10.0)
    crew.foreman.on_time(1.0 + HEARTBEAT_EXPIRY + 0.5)
    assert crew.ports["w"].ends == []
    crew.foreman.on_time(10.0 + HEARTBEAT_EXPIRY + 0.5)
    assert (crew.ports["w"].ends, crew.watcher.notes[-1]) == (["abort"], "w silent")


def test_keys_that_are_revoked_or_expired_end_their_links() -> None:
    crew = Crew()
    for name, expires in (("a", None), ("b", 100.0), ("c", 50.0)):
        crew.connect(name, CrewRole.CLIENT, expires)
    crew.foreman.liveness.cut_key("key of a")
    crew.foreman.liveness.cut_expired(60.0)
    last_words = [(port.ends, port.take()) for port in crew.ports.values()]
    revoked, expired = make_refusal(ErrorCode.REVOKED_KEY), make_refusal(ErrorCode.EXPIRED_KEY)
    assert last_words == [(["dismiss"], revoked), ([], b""), (["dismiss"], expired)]
    assert crew.watcher.notes == ["c expired"]
    assert [link.name for link in crew.foreman.links.list_by_key("key of b")] == ["b"]


def test_nothing_is_sent_to_a_link_that_is_gone() -> None:
    crew = Crew()
    client = crew.client("c")
    assert crew.foreman.links.send(client, REPLY, b"reply", 1)
    crew.foreman.on_cut(client, 2.0)
    crew.foreman.links.flush()
    crew.foreman.links.greet(client)
    assert not crew.foreman.links.send(client, REPLY, b"reply", 1)
    assert crew.ports["c"].take() == b""


def test_doors_are_heard_until_they_have_nothing_to_say() -> None:
    crew, gate = Crew(), Gate()
    crew.foreman.switchboard.output.doors.append(gate)
    gate.left = 2
    crew.foreman.on_call_time(5.0)
    assert gate.told == [("time", 5.0), ("send", 2, 5.0), ("send", 1, 5.0), ("send", 0, 5.0)]
    gate.told.clear()
    crew.foreman.batch.add(crew.foreman.reactor.on_hello(WorkerInfo("far", "far", 1), (), 6.0))
    crew.foreman.batch.add(crew.foreman.reactor.drain("far", immediate=True))
    for send in crew.foreman.take_batch(6.0).sends:
        crew.foreman.perform(send, {}, 6.0)
    assert ("dismiss", "far", True, 6.0) in gate.told


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


def test_a_peer_of_a_door_is_told_by_its_door() -> None:
    crew = Crew()
    told: list[tuple[bytes, float]] = []
    peer = crew.foreman.switchboard.add_peer(lambda _peer, data, now: told.append((data, now)))
    worker = crew.worker("w")
    crew.foreman.switchboard.on_frame(peer, calls.CALL, 0, 7, 0, calls.encode_target("ping") + b"x")
    crew.foreman.switchboard.output.flush(2.0)
    assert crew.ports["w"].take() == a_call(0)
    answer = calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 0, 0, b"pong")
    crew.foreman.on_data(worker, answer, 3.0)
    assert told == [(calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 7, 0, b"pong"), 3.0)]
    crew.foreman.check()


def test_workers_are_looked_at_only_when_one_of_them_may_be_silent() -> None:
    crew = Crew()
    worker = crew.worker("w")
    crew.foreman.on_time(2.0)
    assert worker.peer.worker is not None
    worker.peer.worker.last_heard = -100.0
    crew.foreman.on_time(3.0)
    assert crew.ports["w"].ends == []


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
