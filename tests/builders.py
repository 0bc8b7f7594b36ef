"""Short ways to make the values that tests use."""

from gandy.ids import JobId, TaskNumber
from gandy.talk.foreman import ForemanSide
from gandy.talk.worker import WorkerSide
from gandy.testing import ForemanEnd, Ledger, Referee, SimulatedLink, WorkerEnd
from gandy.wire import v2
from gandy.wire.messages import JobDescription, Message, Status, Task, TaskPair, TaskResult


def a_pair(job: int = 1, task: int = 1) -> TaskPair:
    return TaskPair(JobId(job), TaskNumber(task))


def a_job(job: int = 1, tasks: int = 10) -> JobDescription:
    return JobDescription(JobId(job), f"job{job}", tasks, "/tmp", "/tmp", "/bin/true", Status.RUNNING)


def a_task(number: int = 1, job: int = 1) -> Task:
    return Task(TaskNumber(number), a_job(job))


def some_tasks(count: int, job: int = 1) -> tuple[Task, ...]:
    return tuple(a_task(number, job) for number in range(1, count + 1))


def a_result(task: int = 1, job: int = 1, success: bool = True, status: str = "done") -> TaskResult:
    return TaskResult(JobId(job), TaskNumber(task), success, status)


def decode_all(data: bytes) -> list[tuple[int, Message]]:
    """Every message in the bytes, which hold whole frames and nothing else."""
    decoder = v2.V2Decoder()
    decoder.receive_data(data)
    messages = []
    while (numbered := decoder.next_message()) is not None:
        messages.append(numbered)
    assert decoder.unread == 0
    return messages


class Pair:
    """A v2 worker and a v2 foreman on one link, watched by a referee."""

    def __init__(self, slots: int = 2, tasks: int = 0, last_number: int = 0xFFFF_FFFF, patient: bool = False) -> None:
        self.last_number = last_number
        self.patient = patient
        self.ledger = Ledger(some_tasks(tasks))
        self.worker_side = WorkerSide(slots, last_number=last_number)
        self.worker = WorkerEnd(self.worker_side)
        self.connect()

    def connect(self) -> None:
        self.foreman_side = ForemanSide(last_number=self.last_number)
        self.foreman = ForemanEnd(self.foreman_side, self.ledger, patient=self.patient)
        self.referee = Referee()
        self.link = SimulatedLink(self.worker, self.foreman, (self.referee,))
        self.worker.connect()
        self.link.flush()
