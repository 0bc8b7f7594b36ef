"""Crews with many foremen on simulated time: foremen die, stop, and lose the database, and every law is kept.

A seed that breaks a law is in the error's note, and `python -m tests.sim.many_foremen SEED` replays it.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.sim.crew import SEEDS
from tests.sim.many_foremen import ManyForemenCrew, ManyPlan, run_many, write_many_transcript

BLOCKS = 10
VIEWED_SEED = 29  # has a viewer
# What happens in about a hundred crews. If it does not, the laws hold only because nothing was tried.
TRIED = {
    "answer lost",
    "call",
    "call lost",
    "cancelled job",
    "cancelled with its source",
    "client gives up",
    "cut off",
    "database crash",
    "foreman killed",
    "foreman stopped",
    "foreman stopped for a while",
    "late statement",
    "linked task",
    "own shard lost",
    "refused job",
    "shard retired",
    "submitted again",
    "task EXIT",
    "task RETURNED",
    "task WORKER_LOST",
    "task begun",
    "taken over",
    "tasks viewed",
    "view anew",
    "view left",
    "viewer slow",
    "waited",
    "worker killed",
}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_seed_breaks_a_law(block: int) -> None:
    seeds = range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS)
    seen = run_many(seeds)
    assert len(seeds) < 100 or seen.keys() >= TRIED


@pytest.mark.parametrize("seed", [0, 1, 2, VIEWED_SEED])
def test_a_seed_replays_exactly(seed: int) -> None:
    assert write_many_transcript(seed) == write_many_transcript(seed)


def test_a_seed_replays_exactly_in_another_process() -> None:
    """Sets of names are in another order there."""
    code = f"from tests.sim.many_foremen import write_many_transcript; print(write_many_transcript({VIEWED_SEED}))"
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == write_many_transcript(VIEWED_SEED)


@pytest.mark.parametrize("seed", range(SEEDS // 50))
def test_without_bad_luck_everything_ends_well_and_runs_once(seed: int) -> None:
    crew = ManyForemenCrew(seed, ManyPlan(foremen=2 + seed % 3, workers=1 + seed % 3, is_calm=True))
    crew.run()
    assert set(crew.laws.runs.values()) <= {1}
    bad = {name for name in crew.laws.seen if name.startswith(("call ", "task ", "client", "refused"))}
    assert bad <= {"task EXIT", "task RETURNED", "task begun", "call failed", "call unknown", "call without a link"}
    begun = Counter(note.begun for note in crew.laws.calls.values())
    assert begun[1] + crew.laws.seen["call unknown"] == len(crew.laws.calls)
