"""A foreman and a worker at work over a simulated link: watch the native protocol, message by message.

Run it with another seed for other delays: `python examples/simulated_crew.py 7`.
"""

import sys

from gandy.ids import JobId, TaskNumber
from gandy.talk.foreman import ForemanSide
from gandy.talk.worker import WorkerSide
from gandy.testing import (
    ForemanEnd,
    Ledger,
    Referee,
    SimulatedLink,
    Simulation,
    Transcript,
    Weather,
    WeatheredLink,
    WorkerEnd,
)
from gandy.wire.messages import JobDescription, Status, Task, TaskPair


def make_tasks(count: int) -> list[Task]:
    job = JobDescription(JobId(1), "render", count, "/tmp", "/tmp", "/bin/true", Status.RUNNING)  # noqa: S108
    return [Task(TaskNumber(number), job) for number in range(1, count + 1)]


class Demo:
    """One worker with two slots, eight tasks, and a network that fails once in the middle."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.ledger = Ledger(make_tasks(8))
        # Sequence numbers run out after a dozen here, to show RESET; in real life that takes years.
        self.worker = WorkerEnd(WorkerSide(2, last_number=15), on_start=self.run_task)
        self.foreman = ForemanEnd(ForemanSide(last_number=15), self.ledger)
        self.link: SimulatedLink
        self.connect()

    def connect(self) -> None:
        self.foreman = ForemanEnd(ForemanSide(last_number=15), self.ledger)
        transcript = Transcript(print, lambda: self.simulation.now)
        self.link = WeatheredLink(self.simulation, Weather(), self.worker, self.foreman, (transcript, Referee()))
        self.worker.connect()
        self.link.flush()

    def run_task(self, task: Task) -> None:
        self.simulation.call_later(self.simulation.random.uniform(0.02, 0.06), lambda: self.end_task(task.pair))

    def end_task(self, pair: TaskPair) -> None:
        self.worker.end(pair)
        self.link.flush()

    def cut(self) -> None:
        print(f"{self.simulation.now * 1000:9.2f} ms  ── the link is cut; the worker goes on ──")
        self.link.cut()
        self.simulation.call_later(0.05, self.reconnect)

    def reconnect(self) -> None:
        print(f"{self.simulation.now * 1000:9.2f} ms  ── a new link: HELLO lists what still runs ──")
        self.connect()

    def stop(self) -> None:
        if self.ledger.waiting or self.ledger.given:
            self.simulation.call_later(0.02, self.stop)
            return
        self.foreman.side.stop_all()
        self.link.flush()

    def run(self) -> None:
        print(f"gandy: the native wire on simulated time, seed {self.simulation.seed}")
        print("    time        sender     number  message")
        self.simulation.call_later(0.07, self.cut)
        self.simulation.call_later(0.2, self.stop)
        self.simulation.run()
        runs = sum(self.worker.runs.values())
        print(
            f"\n{len(self.ledger.results)} tasks done in {runs} runs, {len(self.ledger.late)} recorded twice, 0 lost;"
        )
        print("the worker has left." if self.worker.has_left else "the worker is still there.")


if __name__ == "__main__":
    Demo(int(sys.argv[1]) if len(sys.argv) > 1 else 1).run()
