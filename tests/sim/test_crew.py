"""Workers, a foreman and bad weather on simulated time: many seeds, each of which replays exactly."""

import os
from random import Random
from typing import Any

import pytest
from tests.builders import a_pair, some_tasks

from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.worker import V1WorkerSide
from gandy.talk.foreman import ForemanSide
from gandy.talk.numbers import Numbers
from gandy.talk.worker import WorkerSide
from gandy.testing import ForemanEnd, Ledger, Referee, Simulation, Weather, WeatheredLink, WorkerEnd
from gandy.wire.messages import Extension, Task, TaskPair

SEEDS = int(os.environ.get("GANDY_SIM_SEEDS", "200"))


class Machine:
    """One worker with its links, one after another. It connects again when a link breaks."""

    def __init__(self, crew: "Crew", name: str) -> None:
        chance = crew.simulation.random
        self.crew = crew
        self.name = name
        self.slots = chance.randint(1, 4)
        self.options: dict[str, Any] = {
            "last_number": 2 * chance.choice([4, 6, 10, 50, 1_000_000]) + 1,
            "held_limit": chance.choice([0, 1, 2, 4]),
            "offers": chance.choice([Extension.NONE, Extension.ATOMIC, Extension.ATOMIC | Extension.UPDATES]),
        }
        self.begin()

    def begin(self) -> None:
        self.side = WorkerSide(self.slots, **self.options)
        self.worker = WorkerEnd(self.side, on_start=self.run_task)
        self.connect()

    def connect(self) -> None:
        self.foreman_side = ForemanSide(**self.options)
        foreman = ForemanEnd(self.foreman_side, self.crew.ledger, self.name)
        self.referee = Referee()
        self.link = WeatheredLink(self.crew.simulation, self.crew.weather, self.worker, foreman, (self.referee, self))
        self.foreman = foreman
        self.worker.connect()
        self.link.flush()

    def on_sent(self, sender: object, data: bytes) -> None:
        pass

    def on_delivered(self, sender: object, data: bytes) -> None:
        """After each step: the account is never below zero and never above what the machine has."""
        for slots in (self.side.slots, self.foreman_side.slots):
            assert 0 <= slots.free <= slots.limit <= self.slots

    def run_task(self, task: Task) -> None:
        worker = self.worker
        self.crew.simulation.call_later(
            self.crew.simulation.random.expovariate(30), lambda: self.end_task(worker, task.pair)
        )

    def end_task(self, worker: WorkerEnd, pair: TaskPair) -> None:
        worker.end(pair, success=self.crew.simulation.random.random() < 0.9)
        self.link.flush()

    def look_after(self) -> None:
        """What an operator and a supervisor would do: stop, cancel, reset, connect again, begin again."""
        if self.worker.has_left:
            self.link.cut()
            self.begin()
        elif not self.link.is_up:
            self.connect()
        elif self.crew.simulation.random.random() < self.crew.trouble:
            self.disturb()
        self.foreman.work()
        self.link.flush()

    def disturb(self) -> None:
        chance = self.crew.simulation.random
        match chance.randrange(12):
            case 0:
                self.foreman_side.stop(chance.randint(1, 4))
            case 1:
                self.foreman_side.stop_immediately()
            case 2 | 3:
                self.foreman_side.cancel([a_pair(1, chance.randint(-1, 60))])
            case 4 | 5 | 6:
                self.foreman_side.reset()
            case 7 | 8 | 9:
                if self.side.exchange.outstanding is None and self.side.state.value == "open":
                    self.side.reset()
            case _:
                self.link.cut()


class Crew:
    """A foreman's ledger and its machines, until every task has its result."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        chance = self.simulation.random
        self.ledger = Ledger(some_tasks(chance.randint(1, 60)))
        self.tasks = [task.pair for task in self.ledger.waiting]
        self.weather = Weather(max_delay=chance.choice([0.001, 0.02]), tear=0.5, cut=chance.choice([0, 0, 0.002, 0.05]))
        self.machines = [Machine(self, f"worker{number}") for number in range(chance.randint(1, 5))]
        self.trouble = 0.3  # the chance that somebody interferes with a machine; it fades
        self.simulation.call_later(0.01, self.tick)

    def tick(self) -> None:
        self.trouble *= 0.99
        if len(self.ledger.results) < len(self.tasks):
            for machine in self.machines:
                machine.look_after()
            self.simulation.call_later(0.01, self.tick)

    def check(self) -> None:
        assert sorted(self.ledger.results, key=repr) == sorted(self.tasks, key=repr)
        assert not self.ledger.given
        assert not self.ledger.waiting
        for machine in self.machines:
            if machine.link.is_up and not machine.worker.has_left:
                assert machine.referee.owed == []


def skip_numbers(monkeypatch: pytest.MonkeyPatch, chance: Random) -> None:
    """Peers may leave numbers out; then a request can be lower than one that crosses it, whoever sent it."""
    on_request = Numbers.on_request

    def skip(self: Numbers, seq: int, is_reset: bool) -> None:
        on_request(self, seq, is_reset)
        self._next_pair = min(self._next_pair + chance.choice([0, 0, 1, 2]), max(self._next_pair, self._last_pair))

    monkeypatch.setattr(Numbers, "on_request", skip)


def test_peers_that_leave_numbers_out_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_numbers(monkeypatch, Random(1))
    for seed in range(SEEDS // 2):
        crew = Crew(seed)
        crew.simulation.run()
        crew.check()


@pytest.mark.parametrize("seed", range(20))
def test_the_first_generation_in_bad_weather(seed: int) -> None:
    simulation = Simulation(seed)
    ledger = Ledger(some_tasks(30))
    worker = WorkerEnd(V1WorkerSide(simulation.random.randint(1, 4)), lambda task: run_later(task))
    foreman = ForemanEnd(V1ForemanSide(), ledger)
    link = WeatheredLink(simulation, Weather(tear=0.8), worker, foreman)

    def run_later(task: Task) -> None:
        simulation.call_later(simulation.random.expovariate(100), lambda: end(task.pair))

    def end(pair: TaskPair) -> None:
        worker.end(pair)
        link.flush()

    worker.connect()
    link.flush()
    simulation.run()
    foreman.side.stop_all()
    link.flush()
    simulation.run()
    assert worker.has_left
    assert len(ledger.results) == 30
    assert set(worker.runs.values()) == {1}
    assert foreman.refusals == 0


@pytest.mark.parametrize("block", range(10))
def test_no_seed_breaks_the_law_or_loses_a_task(block: int) -> None:
    steps = 0
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        crew = Crew(seed)
        steps += crew.simulation.run()
        crew.check()
    assert steps > 5 * SEEDS


def test_a_seed_replays_exactly() -> None:
    first, second = Crew(7), Crew(7)
    assert first.simulation.run() == second.simulation.run()
    assert first.simulation.now == second.simulation.now
    assert list(first.ledger.results.items()) == list(second.ledger.results.items())
