"""Messages of workers become events of the reactor, and what it wants becomes requests, for each generation."""

import msgspec
import pytest
from msgspec import UNSET
from tests.builders import a_job, a_pair
from tests.crews import Frame
from tests.ports import PlayedPort

from gandy.core.effects import Acknowledge, Assignment, Dismiss, Give, KillAttempts, Recall
from gandy.core.extensions import (
    BEGUN,
    CAPACITY,
    FOREMAN_OFFERS,
    LOAD,
    PING,
    PONG,
    Begun,
    Capacity,
    MachineLoad,
    encode,
)
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.model import AttemptKey, Cause, Counts, Input, JobSpec, PythonSpec, TaskState
from gandy.core.peer_log import PeerLog
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.records import Began, Ended, JobSet
from gandy.core.requests import REQUEST
from gandy.core.roles import Credentials, CrewRole
from gandy.doors.v1 import wire as v1
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_AHEAD, MAX_BEGUN, MAX_CORES, MAX_SLOTS
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side
from gandy.wire import calls, payloads, v2
from gandy.wire.messages import (
    RESEND_HELLO,
    About,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Message,
    Ok,
    Orders,
    PythonOrders,
    Report,
    Stop,
    Task,
    TaskResult,
    Update,
)

KEY = AttemptKey(JobId(1), TaskNumber(1), 1)
ABOUT = About("id1", "anna", 2, ("gpu",))


class Watcher(PeerLog):
    """Notes why a peer is cut."""

    def __init__(self) -> None:
        self.refusals: list[RemoteProtocolError] = []

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        self.refusals.append(error)

    def raise_refusal(self) -> None:
        if self.refusals:
            raise self.refusals.pop()


class Room:
    """A foreman with one link, whose worker is played by hand."""

    def __init__(self, side: ForemanSide | V1ForemanSide | None = None) -> None:
        self.watcher = Watcher()
        self.foreman = Foreman(Reactor(Policy(grace=10.0, first_pace=0.0)), 0.0, self.watcher)
        self.side = side or ForemanSide(offers=FOREMAN_OFFERS)
        self.connect("link", self.side)
        self.inputs: dict[AttemptKey, Input] = {KEY: "a line"}

    def connect(self, name: str, side: Side, key: str = "") -> None:
        """Open a link. `sent` reads the last one."""
        self.side = side  # type: ignore[assignment]
        self.port = PlayedPort(name)
        self.foreman.on_link(self.port, Credentials(key=key or CrewRole.OWNER), 0.0, side)

    def feed(self, link: str, data: bytes, now: float) -> None:
        """Raises: RemoteProtocolError, where the peer is cut for it."""
        self.foreman.on_data(self.foreman.links.by_name[link], data, now)
        self.watcher.raise_refusal()

    def cut(self, link: str, now: float) -> None:
        self.foreman.on_cut(self.foreman.links.by_name[link], now)

    def receive(self, seq: int, message: Message) -> None:
        self.feed("link", v2.encode(seq, message), 1.0)

    def work(self) -> list[object]:
        """Perform everything that was decided; gives the records."""
        records: list[object] = []
        while self.foreman.has_work:
            batch = self.foreman.take_batch(1.0)
            records += batch.records
            for send in batch.sends:
                self.foreman.perform(send, self.inputs, 1.0)
        return records

    def sent(self) -> list[tuple[int, Message]]:
        decoder = v2.V2Decoder()
        decoder.allow(FOREMAN_OFFERS)
        self.foreman.links.flush()
        decoder.receive_data(self.port.take())
        messages = []
        while (numbered := decoder.next_message()) is not None:
            messages.append(numbered)
        return messages

    def submit(self, **changes: object) -> None:
        _, effects = self.foreman.reactor.control.submit(JobSpec(command="true", **changes), 0.0)  # type: ignore[arg-type]
        self.foreman.batch.add(effects)
        self.work()


def a_gandy_room() -> Room:
    room = Room()
    room.receive(0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, ABOUT))
    room.sent()
    return room


def test_a_gandy_worker_is_known_by_its_own_id() -> None:
    room = a_gandy_room()
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    assert (worker.info.name, worker.info.slots, worker.info.tags) == ("anna", 2, frozenset({"gpu"}))


def test_a_worker_for_calls_alone_gets_no_task() -> None:
    room, about = Room(), msgspec.structs.replace(ABOUT, takes_tasks=False)
    room.receive(0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, about))
    room.sent()
    room.submit(tasks=3)
    assert room.sent() == []


@pytest.mark.parametrize("hello", [Hello(2, ()), Hello(0, (), Extension.CLIENT)], ids=["a worker", "a client"])
def test_a_peer_is_known_when_it_has_said_hello(hello: Hello) -> None:
    room = Room()
    (link,) = room.foreman.links.by_name.values()
    assert not link.is_known
    room.receive(0, hello)
    assert link.is_known


@pytest.mark.parametrize("door", ["roundrobin/", "pingpong/"])
def test_no_worker_poses_as_one_of_another_door(door: str) -> None:
    with pytest.raises(RemoteProtocolError, match="another door"):
        Room().receive(
            0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, msgspec.structs.replace(ABOUT, id=f"{door}w"))
        )


def test_a_gandy_worker_gets_orders() -> None:
    room = a_gandy_room()
    room.submit(env={"A": "1"}, timeout=5.0, has_lines=True)
    ((_, message),) = room.sent()
    assert isinstance(message, Job)
    assert message.tasks[0].orders == Orders(1, "true", {"A": "1"}, 5.0, "a line")


def test_a_time_is_part_of_the_orders() -> None:
    room = a_gandy_room()
    room.foreman.reactor.on_clock(0.0)
    for worker in room.foreman.reactor.workers:
        worker.knows_time = True
    room.submit(at=1.5)
    ((_, message),) = room.sent()
    assert isinstance(message, Job)
    assert message.tasks[0].orders == Orders(1, "true", line="a line", at=1.5)


def python_orders(room: Room) -> list[PythonOrders | None]:
    return [
        task.orders.python
        for _, message in room.sent()
        if isinstance(message, Job)
        for task in message.tasks
        if task.orders is not UNSET
    ]


def test_what_the_tasks_of_a_job_share_is_sent_once_on_a_link() -> None:
    room = a_gandy_room()
    spec = JobSpec(command="f", tasks=3, has_lines=True, python=PythonSpec(shared=b"function", fresh=True))
    _, effects = room.foreman.reactor.control.submit(spec, 0.0)
    room.foreman.batch.add(effects)
    room.inputs = {KEY: b"input"}
    room.work()
    assert python_orders(room) == [PythonOrders(b"input", b"function", True), PythonOrders(b"", None, True)]
    room.receive(3, Ok(0, 2))
    room.receive(8, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, ABOUT))  # it has forgotten everything
    room.work()
    assert [orders and orders.shared for orders in python_orders(room)] == [b"function", None]


def test_jobs_may_be_made_of_one_spec() -> None:
    room = a_gandy_room()
    spec = JobSpec(command="true")
    for _ in range(2):
        room.foreman.batch.add(room.foreman.reactor.control.submit(spec, 0.0)[1])
    room.work()
    ((_, message),) = room.sent()
    assert isinstance(message, Job)
    assert [task.job.job_id for task in message.tasks] == [1, 2]


def test_a_worker_that_refused_is_sent_again_what_tasks_share() -> None:
    room = a_gandy_room()
    spec = JobSpec(command="f", tasks=1, has_lines=True, python=PythonSpec(shared=b"function"))
    _, effects = room.foreman.reactor.control.submit(spec, 0.0)
    room.foreman.batch.add(effects)
    room.work()
    ((number, _),) = room.sent()
    room.receive(number, Error(ErrorCode.ALREADY_RUNNING, 0))
    room.receive(5, Extended(PING, b""))
    room.foreman.on_time(2.0)
    room.work()
    assert [orders and orders.shared for orders in python_orders(room)] == [b"function"]


def test_a_worker_need_not_remember_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.link_tasks.MAX_SHARED_SENT", 1)
    room = a_gandy_room()
    room.submit(tasks=2, python=PythonSpec(shared=b"function"))
    assert [orders and orders.shared for orders in python_orders(room)] == [b"function", None]
    room.receive(3, Ok(0, 2))
    room.receive(
        1, Extended(v2.RESULTS, payloads.encode([TaskResult(JobId(1), TaskNumber(1), True, "", None, Report(1, 0, 0))]))
    )
    room.submit(python=PythonSpec(shared=b"other"))
    room.work()
    assert [orders and orders.shared for orders in python_orders(room)] == [b"other"]


def test_a_plain_worker_gets_what_it_knows() -> None:
    room = Room()
    room.receive(0, Hello(1))
    room.submit(name="hello")
    message = room.sent()[-1][1]
    assert isinstance(message, Job)
    assert message.tasks[0].orders is UNSET


def test_an_argument_vector_is_quoted_for_a_plain_worker() -> None:
    room = Room()
    room.receive(0, Hello(1))
    _, effects = room.foreman.reactor.control.submit(JobSpec(command=("echo", "a b")), 0.0)
    room.foreman.batch.add(effects)
    room.work()
    message = room.sent()[-1][1]
    assert isinstance(message, Job)
    assert message.tasks[0].job.command == "echo 'a b'"


def test_a_report_becomes_an_ending_and_is_acknowledged_when_performed() -> None:
    room = a_gandy_room()
    room.submit()
    room.sent()
    room.receive(3, Ok(1, 1))
    report = Report(1, int(Cause.TIMEOUT), None, 9, 1.0, 2.0, 4096, b"tail", "note")
    room.receive(4, Update(TaskResult(KEY.job, KEY.task, False, "", None, report)))
    assert room.sent() == []
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    ending = record.ending
    assert (ending.cause, ending.signal, ending.tail, ending.note) == (Cause.TIMEOUT, 9, b"tail", "note")
    assert room.sent() == [(4, Ok(2))]


def test_an_unknown_cause_is_an_exit() -> None:
    room = a_gandy_room()
    room.submit()
    room.sent()
    room.receive(3, Ok(1, 1))
    room.receive(4, Update(TaskResult(KEY.job, KEY.task, False, "", None, Report(1, 99, 3))))
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert (record.ending.cause, record.ending.exit_code) == (Cause.EXIT, 3)


@pytest.mark.parametrize(("success", "state"), [(True, TaskState.FINISHED), (False, TaskState.FAILED)])
def test_a_plain_result_counts_for_the_attempt_that_was_given(success: bool, state: TaskState) -> None:
    room = Room()
    room.receive(0, Hello(1))
    room.submit()
    room.sent()
    room.receive(3, Ok(0, 1))
    room.receive(4, Update(TaskResult(KEY.job, KEY.task, success, "done")))
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert (record.attempt, record.state) == (KEY, state)


def test_an_unknown_result_is_acknowledged_and_nothing_else() -> None:
    room = Room()
    room.receive(0, Hello(1))
    room.sent()
    room.receive(2, Update(TaskResult(JobId(9), TaskNumber(9), True, "done")))
    assert room.work() == []
    assert room.sent() == [(2, Ok(1))]


def test_a_refused_task_waits_again() -> None:
    room = a_gandy_room()
    room.submit()
    room.sent()
    room.receive(3, Error(2, 0))
    assert len(room.work()) >= 1
    job = room.foreman.reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.tasks.counts.waiting == 1


def test_a_worker_that_comes_back_keeps_what_is_its_own() -> None:
    room = a_gandy_room()
    room.submit()
    room.cut("link", 2.0)
    room.side = ForemanSide(offers=FOREMAN_OFFERS)
    room.connect("link2", room.side)
    task = Task(TaskNumber(1), a_job(1), Orders(1))
    stranger = Task(TaskNumber(2), a_job(1), Orders(1))
    room.feed("link2", v2.encode(0, Hello(0, (task, stranger), FOREMAN_OFFERS, ABOUT)), 3.0)
    room.work()
    assert room.sent()[-1] == (3, Cancel((a_pair(1, 2),)))


def test_a_worker_with_a_new_link_is_not_absent_when_the_old_one_ends() -> None:
    room = a_gandy_room()
    room.connect("link2", ForemanSide(offers=FOREMAN_OFFERS))
    room.feed("link2", v2.encode(0, Hello(2, (), FOREMAN_OFFERS, ABOUT)), 3.0)
    room.cut("link", 4.0)
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    assert worker.connected


def test_a_plain_worker_that_comes_back_is_believed() -> None:
    room = Room()
    room.receive(0, Hello(1, (Task(TaskNumber(1), a_job(7)),)))
    room.work()
    assert room.sent()[-1] == (3, Cancel((a_pair(7, 1),)))


def test_a_plain_worker_that_comes_back_with_its_task_is_the_same_worker() -> None:
    room = Room()
    room.receive(0, Hello(1))
    room.submit()
    task = room.sent()[-1][1]
    assert isinstance(task, Job)
    room.cut("link", 2.0)
    room.side = ForemanSide(offers=FOREMAN_OFFERS)
    room.connect("link2", room.side)
    room.feed("link2", v2.encode(0, Hello(0, task.tasks)), 3.0)
    room.work()
    assert room.sent() == [(0, Ok(0, 1))]
    worker = room.foreman.reactor.workers.find("plain-link")
    assert worker is not None
    assert worker.connected


def a_plain_room_with_two_tasks() -> tuple[Room, tuple[Task, ...]]:
    """A plain worker has both, and its link is cut."""
    room = Room()
    room.receive(0, Hello(2))
    room.submit(tasks=2)
    tasks: list[Task] = []
    while jobs := [(number, message) for number, message in room.sent() if isinstance(message, Job)]:
        ((number, job),) = jobs
        tasks += job.tasks
        room.receive(number, Ok(2 - len(tasks), len(tasks)))
    room.cut("link", 2.0)
    return room, tuple(tasks)


def test_a_plain_result_before_hello_counts() -> None:
    room, tasks = a_plain_room_with_two_tasks()
    room.side = ForemanSide(offers=FOREMAN_OFFERS)
    room.connect("link2", room.side)
    update = v2.encode(0, Update(TaskResult(KEY.job, tasks[0].number, True, "done")))
    room.feed("link2", update, 3.0)
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert (record.attempt, record.state) == (KEY, TaskState.FINISHED)
    assert room.sent() == [(0, RESEND_HELLO)]
    room.feed("link2", v2.encode(2, Hello(1, tasks[1:])), 3.0)
    assert room.work() == []
    assert room.sent() == [(2, Ok(1, 1))]  # nothing is given out again
    worker = room.foreman.reactor.workers.find("plain-link")
    assert worker is not None
    assert (worker.connected, set(worker.held)) == (True, {AttemptKey(KEY.job, TaskNumber(2), 1)})


def test_a_first_generation_result_of_an_earlier_link_counts() -> None:
    room, tasks = a_plain_room_with_two_tasks()
    side = V1ForemanSide()
    room.connect("link2", side)
    data = v1.encode(Ok(1)) + v1.encode(Update(TaskResult(KEY.job, tasks[1].number, True, "done")))
    room.feed("link2", data, 3.0)
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert (record.attempt.task, record.state) == (2, TaskState.FINISHED)
    assert side.data_to_send().endswith(v1.encode(Ok(2)))


def test_a_first_generation_worker_has_its_slots_again_when_tasks_of_an_earlier_link_end() -> None:
    room, tasks = a_plain_room_with_two_tasks()
    room.connect("link2", V1ForemanSide())
    room.feed("link2", v1.encode(Ok(1)), 3.0)
    worker = room.foreman.reactor.workers.find("plain-link2")
    assert worker is not None
    assert worker.slots.shared == 1
    room.feed("link2", v1.encode(Update(TaskResult(KEY.job, tasks[1].number, True, "done"))), 4.0)
    assert worker.slots.shared == 2


def test_a_first_generation_worker_that_is_to_leave_uses_no_slot_that_comes_back() -> None:
    room, tasks = a_plain_room_with_two_tasks()
    room.connect("link2", V1ForemanSide())
    room.feed("link2", v1.encode(Ok(1)), 3.0)
    room.foreman.batch.add(room.foreman.reactor.drain("plain-link2"))
    room.work()
    room.foreman.links.flush()
    assert room.port.take().endswith(v1.encode(Stop(1)))
    room.feed("link2", v1.encode(Update(TaskResult(KEY.job, tasks[1].number, True, "done"))), 4.0)
    assert room.port.take() == v1.encode(Stop(1))


def test_a_first_generation_worker_that_must_leave_at_once_is_not_stopped_twice() -> None:
    room, tasks = a_plain_room_with_two_tasks()
    room.connect("link2", V1ForemanSide())
    room.feed("link2", v1.encode(Ok(1)), 3.0)
    room.foreman.batch.add(room.foreman.reactor.drain("plain-link2", immediate=True))
    room.work()
    room.foreman.links.flush()
    assert room.port.take()
    room.feed("link2", v1.encode(Update(TaskResult(KEY.job, tasks[1].number, True, "done"))), 4.0)
    assert room.port.take() == b""


def test_a_plain_peer_cannot_report_for_a_named_worker() -> None:
    room = a_gandy_room()
    room.submit()
    room.cut("link", 2.0)
    room.side = ForemanSide(offers=FOREMAN_OFFERS)
    room.connect("link2", room.side)
    room.feed("link2", v2.encode(0, Update(TaskResult(KEY.job, KEY.task, True, "done"))), 3.0)
    assert room.work() == []
    assert room.sent() == [(0, RESEND_HELLO)]
    task = Task(KEY.task, a_job(1))
    room.feed("link2", v2.encode(2, Hello(0, (task,))), 3.0)
    room.work()
    assert room.sent()[-1][1] == Cancel((a_pair(),))


def test_a_plain_peer_cannot_report_for_a_plain_worker_with_another_key() -> None:
    room = Room()
    room.connect("link", room.side, "one key")
    room.receive(0, Hello(1))
    room.submit()
    room.cut("link", 2.0)
    room.side = ForemanSide(offers=FOREMAN_OFFERS)
    room.connect("link2", room.side, "another key")
    room.feed("link2", v2.encode(0, Update(TaskResult(KEY.job, KEY.task, True, "done"))), 3.0)
    assert room.work() == []


def test_kill_dismiss_and_pings_go_out() -> None:
    room = a_gandy_room()
    room.submit(tasks=2)
    room.sent()
    room.receive(3, Ok(0, 2))
    room.foreman.perform(KillAttempts("id1", (KEY,)), {}, 1.0)
    assert room.sent() == [(5, Cancel((a_pair(1, 1),)))]
    room.receive(5, Ok(1))
    room.foreman.perform(Dismiss("id1", immediate=False), {}, 1.0)
    assert room.sent() == [(7, Stop(2))]
    room.receive(7, Ok(0, 2))
    room.foreman.perform(Dismiss("id1", immediate=True), {}, 1.0)
    assert room.sent() == [(9, Stop(0xFFFF_FFFF))]
    room.receive(5, Extended(PING, b""))
    assert room.sent() == [(5, Extended(PONG, b""))]


def test_worker_says_how_many_slots_it_can_use() -> None:
    room = a_gandy_room()
    room.receive(0, Extended(CAPACITY, encode(Capacity(1, 0, "open files"))))
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    assert (worker.info.slots, worker.problem) == (1, "open files")
    assert room.sent() == []


def test_worker_says_how_busy_its_machine_is() -> None:
    room = a_gandy_room()
    busy = MachineLoad(3.5, 8, 1 << 30, 1 << 34)
    room.receive(0, Extended(LOAD, encode(busy)))
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    assert worker.machine_now == busy
    assert room.sent() == []
    room.foreman.on_cut(room.foreman.links.by_name["link"], 2.0)
    assert worker.machine_now is None  # it is not known any more


def test_load_of_a_worker_that_is_forgotten_is_dropped() -> None:
    room = a_gandy_room()
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    room.foreman.reactor.workers.remove(worker)
    room.receive(0, Extended(LOAD, encode(MachineLoad(3.5))))
    assert worker.machine is None


@pytest.mark.parametrize(
    "payload",
    [
        MachineLoad(-0.1),
        MachineLoad(float("nan")),
        MachineLoad(float("inf")),
        MachineLoad(1.0, -1),
        MachineLoad(1.0, MAX_CORES + 1),
        MachineLoad(1.0, 1, -1),
        MachineLoad(1.0, 1, 0, 1 << 63),
        [],
        {},
    ],
    ids=str,
)
def test_an_invalid_load_is_an_error(payload: object) -> None:
    room = a_gandy_room()
    with pytest.raises(RemoteProtocolError):
        room.receive(0, Extended(LOAD, encode(payload)))


def test_load_that_was_not_agreed_on_is_an_error() -> None:
    room = Room()
    room.receive(0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT & ~Extension.LOAD, ABOUT))
    with pytest.raises(RemoteProtocolError):
        room.receive(0, Extended(LOAD, encode(MachineLoad(1.0))))


def test_worker_says_what_it_runs() -> None:
    room = a_gandy_room()
    room.submit(tasks=3)
    room.sent()
    room.receive(0, Extended(BEGUN, encode(Begun((KEY,)))))
    assert room.work() == [Began("id1", (KEY,), 1.0)]
    assert room.sent() == []


@pytest.mark.parametrize(
    "payload", [Begun((KEY,) * (MAX_BEGUN + 1)), Begun((AttemptKey(JobId(-1), TaskNumber(1), 1),)), {}]
)
def test_invalid_begun_tasks_are_an_error(payload: object) -> None:
    room = a_gandy_room()
    with pytest.raises(RemoteProtocolError):
        room.receive(0, Extended(BEGUN, encode(payload)))


def test_on_a_worker_that_does_not_say_what_it_runs_nothing_waits() -> None:
    room = Room()
    offers = FOREMAN_OFFERS & ~Extension.CLIENT & ~Extension.BEGUN
    room.receive(0, Hello(1, (), offers, About("id1", "anna", 1, ahead=2)))
    room.receive(0, Extended(CAPACITY, encode(Capacity(1, 2))))
    room.submit(tasks=3)
    job = room.foreman.reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.tasks.counts == Counts(running=1, waiting=2)


@pytest.mark.parametrize(
    "payload",
    [Capacity(-1), Capacity(MAX_SLOTS + 1), Capacity(1, MAX_AHEAD + 1), Capacity(1, 0, "two\nlines"), {}],
    ids=["negative", "many slots", "many waiting", "newline", "nothing"],
)
def test_an_invalid_capacity_is_an_error(payload: object) -> None:
    room = a_gandy_room()
    with pytest.raises(RemoteProtocolError):
        room.receive(0, Extended(CAPACITY, encode(payload)))


def test_tasks_are_recalled_from_a_worker_that_lets_them_wait() -> None:
    room = Room()
    room.receive(0, Hello(1, (), FOREMAN_OFFERS & ~Extension.CLIENT, About("id1", "anna", 1, ahead=2)))
    room.submit(tasks=3)
    assert len(room.foreman.links.by_name["link"].side.slots.running) == 3
    room.sent()
    room.foreman.perform(Recall("id1", (KEY,)), {}, 1.0)
    ((_, message),) = room.sent()
    assert isinstance(message, Extended)
    assert message.type == v2.RECALL


@pytest.mark.parametrize("effect", [KillAttempts, Recall])
def test_what_was_meant_for_an_older_attempt_does_not_reach_a_newer_one(effect: type[KillAttempts | Recall]) -> None:
    """It was decided before the older one was over, and is sent only once that is on disk."""
    room = a_gandy_room()
    room.submit()
    room.sent()
    room.receive(3, Ok(1, 1))
    room.receive(4, Update(TaskResult(KEY.job, KEY.task, False, "", None, Report(1, int(Cause.RETURNED)))))
    room.work()
    (_, (number, again)) = room.sent()
    assert isinstance(again, Job)
    assert again.tasks[0].orders == Orders(2, "true")
    room.receive(number, Ok(1, 1))
    room.foreman.perform(effect("id1", (KEY,)), {}, 1.0)
    assert room.sent() == []


def test_results_count_before_what_comes_behind_them() -> None:
    room = a_gandy_room()
    room.submit(tasks=2)
    ((number, _),) = room.sent()
    results = [TaskResult(JobId(1), TaskNumber(task), True, "", None, Report(1, Cause.EXIT, 0)) for task in (1, 2)]
    messages = [
        v2.encode(number, Ok(0, 2)),
        v2.encode(1, Extended(v2.RESULTS, payloads.encode(results))),
        v2.encode(5, Extended(PING, b"")),
    ]
    room.feed("link", b"".join(messages), 1.0)
    assert [type(record) for record in room.work()] == [Ended, Ended, JobSet]
    assert [message for _, message in room.sent()] == [Extended(PONG, b""), Extended(v2.RECORDED, b"")]


def test_what_is_for_a_worker_that_is_gone_is_dropped() -> None:
    room = a_gandy_room()
    room.cut("link", 2.0)
    room.work()
    give = Give("id1", (Assignment(KEY, JobSpec(command="true")),))
    for send in (
        give,
        KillAttempts("id1", (KEY,)),
        Recall("id1", (KEY,)),
        Acknowledge("id1", (KEY,)),
        Dismiss("id1", immediate=True),
    ):
        room.foreman.perform(send, {}, 3.0)
    assert not room.foreman.has_work


def test_more_than_a_worker_takes_is_not_sent() -> None:
    room = a_gandy_room()
    room.side.slots.limit = 0
    room.submit()
    assert room.sent() == []


def test_a_worker_with_less_room_than_we_thought_gets_what_it_has_room_for() -> None:
    room = a_gandy_room()
    room.side.slots.limit = 1
    room.submit(tasks=2)
    ((_, message),) = room.sent()
    assert isinstance(message, Job)
    assert [task.pair for task in message.tasks] == [a_pair(1, 1)]
    assert room.foreman.reactor.next_moment() == pytest.approx(1.02)


@pytest.mark.parametrize("text", ["x" * (17 << 20), "no text: \udcff"])
def test_what_fits_no_frame_fails_with_the_reason_and_nothing_else_waits_for_it(text: str) -> None:
    room = a_gandy_room()
    records = []
    for command in (text, "true"):
        room.foreman.batch.add(room.foreman.reactor.control.submit(JobSpec(command=command), 0.0)[1])
    records = room.work()
    ((_, message),) = room.sent()
    assert isinstance(message, Job)
    assert [task.pair for task in message.tasks] == [a_pair(2, 1)]
    (ended,) = [record for record in records if isinstance(record, Ended)]
    assert (ended.attempt, ended.state, ended.ending.cause) == (KEY, TaskState.FAILED, Cause.NOT_STARTED)
    assert "to a worker" in ended.ending.note
    assert room.foreman.reactor.next_deadline() is None


def test_an_acknowledgement_of_nothing_does_nothing() -> None:
    room = a_gandy_room()
    room.foreman.perform(Acknowledge("id1", (KEY,)), {}, 1.0)
    assert room.sent() == []


def test_a_client_is_not_a_worker() -> None:
    room = Room()
    room.receive(0, Hello(0, (), Extension.ATOMIC | Extension.CLIENT))
    room.receive(7, Extended(REQUEST, b"request"))
    link = room.foreman.links.by_name["link"]
    assert link.is_client
    assert len(room.foreman.reactor.workers) == 0
    assert [(message.seq, message.payload) for message in link.inbox] == [(7, b"request")]


def test_after_calls_and_nothing_else_there_is_nothing_to_do() -> None:
    room = a_gandy_room()
    frames: list[Frame] = []
    room.side.framing.on_call = lambda *frame: frames.append(Frame(*frame))  # type: ignore[union-attr]
    room.feed("link", calls.encode(calls.CANCEL, 0, 7), 2.0)
    assert (frames, room.sent()) == ([Frame(calls.CANCEL, 0, 7)], [])
    worker = room.foreman.reactor.workers.find("id1")
    assert worker is not None
    assert worker.last_heard == 2.0  # they are a sign of life too
    ping = v2.encode(5, Extended(PING, b""))
    room.feed("link", calls.encode(calls.CANCEL, 0, 8) + ping, 3.0)
    assert (len(frames), room.sent()) == (2, [(5, Extended(PONG, b""))])


def test_time_and_links_pass_through() -> None:
    room = a_gandy_room()
    room.submit()
    room.cut("link", 2.0)
    room.foreman.on_time(12.0)
    assert room.foreman.has_work
    other = Room()
    with pytest.raises(RemoteProtocolError):
        other.feed("link", b"nonsense that is long enough", 1.0)


def test_what_was_decided_before_nonsense_came_is_done() -> None:
    room = a_gandy_room()
    room.submit()
    ((seq, _),) = room.sent()
    result = TaskResult(KEY.job, KEY.task, success=True, status="", report=Report(1, Cause.EXIT, 0))
    messages: list[tuple[int, Message]] = [(seq, Ok(1, 1)), (seq + 1, Update(result)), (0, Extended(PING, b""))]
    with pytest.raises(RemoteProtocolError, match="magic"):
        room.feed("link", b"".join(v2.encode(*numbered) for numbered in messages) + bytes(16), 2.0)
    room.cut("link", 2.0)
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert room.foreman.reactor.jobs.find(KEY.job) is None


def test_an_error_in_what_was_held_back_is_found_when_it_is_handled() -> None:
    room = Room()
    room.receive(0, Hello(1, ()))
    room.submit()
    *_, (seq, _) = room.sent()
    result = TaskResult(KEY.job, KEY.task, success=True, status="")
    messages: list[tuple[int, Message]] = [(seq, Ok(0, 1)), (seq + 1, Update(result)), (seq + 3, Update(None))]
    room.feed("link", b"".join(v2.encode(*numbered) for numbered in messages), 2.0)
    room.work()
    with pytest.raises(RemoteProtocolError, match="without a result"):
        room.watcher.raise_refusal()
    assert room.port.ends == ["close"]


def test_where_nothing_has_happened_nothing_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    room = a_gandy_room()
    room.work()
    room.foreman.batch.add(room.foreman.reactor.drain("id1"))
    monkeypatch.setattr(room.foreman.reactor, "dispatch", lambda now: pytest.fail(f"dispatched at {now}"))
    assert room.foreman.has_work
    assert room.foreman.take_batch(1.0).sends == [Dismiss("id1", immediate=False)]
    assert not room.foreman.has_work


def test_a_v1_worker_works_too() -> None:
    side = V1ForemanSide()
    room = Room(side)
    room.feed("link", v1.encode(Ok(1)), 1.0)
    room.submit(tasks=2)
    room.foreman.links.flush()
    room.foreman.perform(KillAttempts("plain-link", (KEY,)), {}, 1.0)  # v1 has no message for it
    assert room.foreman.links.by_name["link"].agreed is Extension.NONE
    room.feed("link", v1.encode(Update(TaskResult(KEY.job, KEY.task, True, "done"))), 1.0)
    (record, *_) = room.work()
    assert isinstance(record, Ended)
    assert record.state is TaskState.FINISHED


# Whose id it is


def greet(room: Room, link: str, key: str, worker: str = "id1", seq: int = 0) -> None:
    about = msgspec.structs.replace(ABOUT, id=worker)
    if link not in room.foreman.links.by_name:
        room.connect(link, ForemanSide(offers=FOREMAN_OFFERS), key)
    room.feed(link, v2.encode(seq, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, about)), 1.0)


def test_a_worker_keeps_its_id_as_long_as_its_link() -> None:
    """With two, the first would stay when the link has gone, and the next message to it would end the foreman."""
    room = a_gandy_room()
    with pytest.raises(RemoteProtocolError, match="id1 says that it is id2 now"):
        greet(room, "link", "", "id2", seq=2)
    assert room.foreman.reactor.workers.find("id2") is None
    room.cut("link", 2.0)
    room.submit()
    assert room.foreman.links.find("id1") is None


def test_a_link_whose_hello_came_in_pieces_leaves_nothing_behind() -> None:
    room = Room()
    hello = v2.encode(0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, ABOUT))
    room.feed("link", hello[:20], 1.0)
    room.feed("link", hello[20:], 1.0)
    assert room.foreman.links.find("id1") is room.foreman.links.by_name["link"]
    room.cut("link", 2.0)
    assert room.foreman.links.find("plain-link") is room.foreman.links.find("id1") is None


def test_an_id_belongs_to_the_key_that_it_came_with() -> None:
    room = Room()
    greet(room, "a", "key a")
    room.connect("b", ForemanSide(offers=FOREMAN_OFFERS), "key b")
    with pytest.raises(RemoteProtocolError, match="belongs to another key") as caught:
        greet(room, "b", "key b")
    assert caught.value.code is ErrorCode.WRONG_ROLE
    assert room.port.take()[-16:] == v2.encode(1, Error(ErrorCode.WRONG_ROLE))
    assert room.foreman.links.find("id1") is room.foreman.links.by_name["a"]
    greet(room, "c", "key a")  # the same worker, on a new link
    assert room.foreman.links.find("id1") is room.foreman.links.by_name["c"]


@pytest.mark.parametrize(("key", "is_taken"), [("key a", True), ("key b", False)])
def test_a_worker_reports_for_a_former_one_only_with_its_key(key: str, is_taken: bool) -> None:
    room = Room()
    greet(room, "a", "key a")
    room.submit()
    room.foreman.take_batch(1.0)
    room.cut("a", 2.0)
    room.connect("b", ForemanSide(offers=FOREMAN_OFFERS), key)
    about = msgspec.structs.replace(ABOUT, id="id2", former=("id1",), folder="/home/hut")
    room.feed("b", v2.encode(0, Hello(2, (), FOREMAN_OFFERS & ~Extension.CLIENT, about)), 3.0)
    assert (room.foreman.reactor.workers.find("id1") is None) == is_taken
    found = room.foreman.reactor.workers.find("id2")
    assert found is not None
    assert found.info.folder == "/home/hut"


def test_an_id_is_free_again_when_its_worker_is_forgotten() -> None:
    room = Room()
    greet(room, "a", "key a")
    room.cut("a", 2.0)
    greet(room, "b", "key b")
    assert room.foreman.links.find("id1") is room.foreman.links.by_name["b"]


def test_a_worker_of_an_earlier_foreman_comes_back_with_any_key() -> None:
    room = Room()
    room.submit()
    room.foreman.reactor.restore_attempt(KEY, "id1", 1.0)
    greet(room, "a", "key a")
    assert room.foreman.links.find("id1") is room.foreman.links.by_name["a"]


@pytest.mark.parametrize(("key", "is_taken"), [("key a", True), ("key b", False)])
def test_a_plain_peer_is_the_absent_worker_only_with_its_key(key: str, is_taken: bool) -> None:
    room = Room()
    room.connect("a", ForemanSide(offers=FOREMAN_OFFERS), "key a")
    room.feed("a", v2.encode(0, Hello(1)), 1.0)
    room.submit()
    room.cut("a", 2.0)
    room.connect("b", ForemanSide(offers=FOREMAN_OFFERS), key)
    room.feed("b", v2.encode(0, Hello(0, (Task(KEY.task, a_job(1)),))), 3.0)
    assert room.foreman.links.by_name["b"].worker == ("plain-a" if is_taken else "plain-b")
    room.feed("b", v2.encode(2, Hello(0, (Task(KEY.task, a_job(1)),))), 3.0)
    assert room.foreman.links.by_name["b"].worker == ("plain-a" if is_taken else "plain-b")


def report_end(room: Room, seq: int, identity: int) -> list[object]:
    """The worker reports that task 1 of job 1 ended. Gives what is recorded of it."""
    report = Report(1, int(Cause.EXIT), 0, identity=identity)
    room.receive(seq, Update(TaskResult(KEY.job, KEY.task, True, "", report=report)))
    return [record for record in room.work() if isinstance(record, Ended)]


@pytest.mark.parametrize("identity", [7, 0])
def test_a_result_counts_for_the_job_that_its_worker_was_given(identity: int) -> None:
    room = a_gandy_room()
    room.submit(identity=7)
    ((seq, _),) = room.sent()
    room.receive(seq, Ok(1, 1))
    assert len(report_end(room, seq + 1, identity)) == 1


def test_a_result_does_not_count_for_another_job_that_has_the_number_now() -> None:
    """Where a backup of the store was restored, numbers of jobs are given again."""
    room = a_gandy_room()
    room.submit(identity=7)
    ((seq, _),) = room.sent()
    room.receive(seq, Ok(1, 1))
    assert report_end(room, seq + 1, 8) == []
    assert [type(message) for _, message in room.sent()] == [Ok]  # the worker may forget it all the same
    assert len(report_end(room, seq + 3, 7)) == 1
