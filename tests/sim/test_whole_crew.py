"""Whole crews on simulated time: jobs and calls share slots while everything fails, and every law is kept.

A seed that breaks a law is in the error's note, and `python -m tests.sim SEED` replays it.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.sim.crew import SEEDS, Crew, run_seeds, write_transcript
from tests.sim.laws import CLOCK_ERROR
from tests.sim.network import LinkFaults
from tests.sim.plan import Plan, draw_plan
from tests.sim.workers import WorkerLuck

from gandy.core.model import JobSpec
from gandy.talk.numbers import Numbers

BLOCKS = 20
LUCKY = WorkerLuck(call_failure=0.0)
# What happens in about a hundred crews. If it does not, the laws hold only because nothing was tried.
TRIED = {
    "call",
    "call lost",
    "call expired",
    "call failed",
    "call without a link",
    "cancelled call",
    "cancelled job",
    "disk error",
    "foreman crash",
    "frontend renewed",
    "left",
    "left at once",
    "linked task",
    "refused job",
    "retracted task",
    "round-robin failure",
    "round-robin stream",
    "round-robin value",
    "stream",
    "task EXIT",
    "task RETURNED",
    "task WORKER_LOST",
    "task begun",
    "yielded",
}

TRIED_AT_DOORS = {
    "call",
    "call lost",
    "foreman crash",
    "frontend renewed",
    "ping-pong exit",
    "round-robin call dropped",
    "round-robin client gone",
    "round-robin failure",
    "round-robin stream",
    "round-robin stream aborted",
    "round-robin value",
    "round-robin worker hangs",
    "stream",
}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_seed_breaks_a_law(block: int) -> None:
    seeds = range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS)
    seen = run_seeds(seeds)
    assert len(seeds) < 50 or seen.keys() >= TRIED


@pytest.mark.parametrize("block", range(2))
def test_at_the_doors_every_call_ends_once_and_every_worker_comes_back(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * SEEDS // 20, (block + 1) * SEEDS // 20):
        chance = Random(seed)
        plan = Plan(
            grace=1.0,
            trouble=chance.choice([0.05, 0.15]),
            crash=chance.choice([0.0, 0.05]),
            drops=chance.choice([0.0, 0.1]),
            gandy=2,
            roundrobin=3,
            pingpong=4,
            clients=2,
            jobs=3,
            calls=40,
        )
        crew = Crew(seed, plan)
        crew.run()
        seen.update(crew.laws.seen)
    assert SEEDS < 1_000 or seen.keys() >= TRIED_AT_DOORS


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_replays_exactly(seed: int) -> None:
    assert write_transcript(seed) == write_transcript(seed)


def test_a_seed_replays_exactly_in_another_process() -> None:
    """Sets of names are in another order there."""
    code = "from tests.sim.crew import write_transcript; print(write_transcript(2))"
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == write_transcript(2)


def test_peers_that_leave_numbers_out_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a request can be lower than one that crosses it, whichever side sent it."""
    on_request, chance = Numbers.on_request, Random(1)

    def skip(self: Numbers, seq: int, is_reset: bool) -> None:
        on_request(self, seq, is_reset)
        self._next_pair = min(self._next_pair + chance.choice([0, 0, 1, 2]), max(self._next_pair, self._last_pair))

    monkeypatch.setattr(Numbers, "on_request", skip)
    for seed in range(SEEDS // 20):
        plan = draw_plan(seed)
        plan.is_watched = True
        Crew(seed, plan).run()


@pytest.mark.parametrize("seed", range(2))
def test_a_large_crew(seed: int) -> None:
    plan = Plan(
        faults=LinkFaults(cut=0.001),
        trouble=0.01,
        crash=0.01,
        gandy=40,
        plain=5,
        first_generation=5,
        roundrobin=5,
        pingpong=5,
        clients=5,
        jobs=5,
        tasks=400,
        calls=200,
    )
    crew = Crew(seed, plan)
    crew.program.after_step = lambda: None  # checking all of it after each step takes minutes
    crew.run()


@pytest.mark.parametrize("seed", range(SEEDS // 25))
def test_without_bad_luck_everything_ends_well_and_runs_once(seed: int) -> None:
    """Some ping-pong jobs take longer than the door waits for a message, and some workers do not read then."""
    chance = Random(seed)
    plan = Plan(
        faults=LinkFaults(tear=chance.choice([0.3, 0.8])),
        luck=LUCKY,
        plain=chance.randint(0, 1),
        first_generation=chance.randint(0, 1),
        roundrobin=chance.randint(0, 3),
        pingpong=chance.randint(0, 3),
        gandy=chance.randint(0, 3),
        clients=2,
        jobs=2,
        calls=10,
        is_calm=True,
    )
    crew = Crew(seed, plan)
    crew.run()
    bad = {name for name in crew.laws.seen if name.startswith(("call ", "task ", "round-robin", "frontend", "silent"))}
    fine = {"task EXIT", "task RETURNED", "task begun", "round-robin value", "round-robin stream", "call unknown"}
    assert bad <= fine, crew.laws.seen
    assert set(crew.laws.runs.values()) <= {1}
    begun = Counter(note.begun for note in crew.laws.calls.values())
    assert begun[1] + crew.laws.seen["call unknown"] == len(crew.laws.calls)


@pytest.mark.parametrize("seed", range(SEEDS // 50))
def test_tasks_with_a_time_begin_together(seed: int) -> None:
    """Also if the foreman is started again before, and its wall clock steps."""
    plan = Plan(has_clock=True, gandy=3, jobs=0, calls=0, is_calm=True, steps=0.3, crash=0.05 * (seed % 2))
    plan.down = (0.0,)  # else the foreman may be down at that time
    crew = Crew(seed, plan)
    client, tasks = crew.clients[0], sum(worker.slots for worker in crew.workers)

    def submit() -> None:
        now = client.clock.read()
        assert now is not None
        client.submit(JobSpec(command="true", tasks=tasks, at=now + 4.0))

    client.call_later(0.2, submit)
    crew.run()
    (times,) = crew.laws.begun_at.values()
    assert len(times) == tasks
    assert max(times) - min(times) < CLOCK_ERROR
