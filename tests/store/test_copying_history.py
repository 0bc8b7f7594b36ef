"""A copy of a store has its history, too, and every job of the crew is in it once."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.postgres_stores import make_schema, shared_postgres
from tests.samples import a_sample
from tests.store.builders import added, blocking
from tests.store.histories import BlockingHistory, chain

from gandy.core.model import JobState
from gandy.core.past_crew import CrewThen, merge_shards, rebuild
from gandy.core.samples import ALWAYS, Level, SampledJob, SampleHead, ShardSample, StoredSample
from gandy.ids import JobId
from gandy.store import copying_history, make_lone_store
from gandy.store.copying import Progress, copy_store

SAMPLE, KEYFRAME, HOURLY = Level
NOW = 9_000.0

KINDS: dict[str, Callable[[Path, int], str]] = {
    "sqlite": lambda folder, number: f"sqlite:{folder}/jobs-{number}.db",
    "postgres": lambda folder, number: shared_postgres().url(make_schema()),
}
PAIRS = list(itertools.product(KINDS, KINDS))


def copy(*urls: str, tell: Callable[[Progress], None] = lambda progress: None) -> Progress:
    source, target = map(make_lone_store, urls)
    return asyncio.run(copy_store(source, target, tell, lambda: NOW))


@contextmanager
def opened(url: str) -> Iterator[BlockingHistory]:
    with blocking(make_lone_store(url)) as face:
        yield BlockingHistory(face)


def fill(url: str, *samples: StoredSample) -> None:
    with opened(url) as history:
        history.face.commit(added(1), added(2))
        history.add(*samples)


def look_back(history: BlockingHistory, at: float) -> CrewThen:
    return merge_shards(rebuild(history.find(at)), {})


def a_job(number: int, running: int = 1) -> SampledJob:
    return SampledJob(JobId(number), JobState.RUNNING, 0, 3, running, 0, 0, 0, 0)


def with_job(shard: int, number: int = 1, at: float = 100.0, jobs: int = 1) -> StoredSample:
    """A keyframe of a shard with one job, of which it has finished tasks before."""
    head = SampleHead(finished=40, unfinished=jobs, waiting=3, running=1, workers=2, slots=4, used=1)
    return a_sample(number, at, HOURLY, shard, sample=ShardSample(head, (a_job(shard or 7),)))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_all_samples_are_copied_as_they_are(
    tmp_path: Path, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying_history, "PAGE", 3)
    urls = KINDS[first](tmp_path, 1), KINDS[second](tmp_path, 2)
    samples = [*chain(shard=3), *chain(6, begin=500.0, shard=3), a_sample(11, 900.0, KEYFRAME, 3)]
    fill(urls[0], *samples)
    done = copy(*urls)
    assert (done.samples, done.history_problem) == (len(samples), "")
    with opened(urls[0]) as source, opened(urls[1]) as target:
        for level in Level:
            before = [sample for sample in target.read(level) if sample.at < NOW]
            assert before == source.read(level)
        assert target.find(505.0) == source.find(505.0)
        assert target.get_extent().since == (ALWAYS, ALWAYS, ALWAYS)


def test_a_file_that_is_copied_to_a_file_goes_on_where_it_was(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["sqlite"](tmp_path, 2)
    fill(urls[0], with_job(0))
    copy(*urls)
    with opened(urls[1]) as target:
        assert target.find(1e9) == [with_job(0)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_jobs_are_counted_once_after_the_move(tmp_path: Path, first: str, second: str) -> None:
    urls = KINDS[first](tmp_path, 1), KINDS[second](tmp_path, 2)
    fill(urls[0], with_job(4), with_job(5, at=200.0, jobs=120))
    copy(*urls)
    with opened(urls[1]) as target:
        before, after = look_back(target, NOW - 1), look_back(target, NOW)
        assert (before.unfinished, before.waiting, before.slots, before.is_stopped) == (121, 6, 4, False)
        assert (after.unfinished, after.waiting, after.running, after.slots) == (121, 6, 2, 0)
        assert after.is_stopped
        assert [job.job for job in before.jobs] == [job.job for job in after.jobs] == [5, 4]
        shard = target.face.find_shard(2)
        assert shard not in (None, 4, 5)
        assert [(sample.shard, sample.number) for sample in target.find(NOW)] == sorted([(shard, 1), (4, 2), (5, 2)])
        # The foreman that starts with the target goes on with this shard alone.
        target.add(a_sample(2, NOW + 10, HOURLY, shard or 0, unfinished=1, waiting=1))
        assert (look_back(target, NOW + 20).unfinished, look_back(target, NOW + 20).waiting) == (1, 1)


def test_a_move_back_ends_what_the_first_move_began(tmp_path: Path) -> None:
    urls = [KINDS[kind](tmp_path, number) for number, kind in enumerate(("sqlite", "postgres", "sqlite"))]
    fill(urls[0], with_job(0))
    copy(*urls[:2])
    copy(*urls[1:])
    with opened(urls[2]) as target:
        after = look_back(target, NOW)
        assert (after.unfinished, after.waiting, [job.job for job in after.jobs]) == (1, 3, [7])
        found = target.find_last(0)
        assert found is not None
        assert found.sample.number == 3


def test_what_was_dropped_from_the_source_is_known_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["sqlite"](tmp_path, 2)
    monkeypatch.setattr("gandy.store.history_tables.KEPT", {SAMPLE: 3, KEYFRAME: 9, HOURLY: 9})
    fill(urls[0], *chain())
    copy(*urls)
    with opened(urls[1]) as target:
        assert target.get_extent().since == (120.0, ALWAYS, ALWAYS)


def test_only_the_newest_samples_are_copied_if_there_are_too_many_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    samples = chain(count=9)
    fill(urls[0], *samples)
    monkeypatch.setattr(copying_history, "MAX_HISTORY_BYTES", 3 * len(samples[1].packed))
    assert copy(*urls).samples == 4
    with opened(urls[1]) as target:
        assert [sample.number for sample in target.read(SAMPLE)] == [7, 8, 9]
        assert target.get_extent().since[SAMPLE] == samples[6].at


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_copy_that_was_interrupted_is_completed_by_the_next(tmp_path: Path, first: str, second: str) -> None:
    urls = KINDS[first](tmp_path, 1), KINDS[second](tmp_path, 2)
    samples = chain()
    fill(urls[0], *samples)
    with opened(urls[1]) as target:
        target.add(samples[0], samples[1])
    done = copy(*urls)
    assert (done.samples, done.history_problem) == (3, "")
    with opened(urls[1]) as target:
        assert target.find(NOW - 1) == samples


def test_a_target_with_a_history_of_its_own_keeps_it(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    fill(urls[0], *chain())
    other = chain(begin=333.0)
    with opened(urls[1]) as target:
        target.add(*other)
    done = copy(*urls)
    assert (done.jobs, done.samples, done.history_problem) == (2, 0, "the target has a history of its own")
    with opened(urls[1]) as target:
        assert target.find(1e9) == other


def test_the_command_says_what_it_copied_of_the_history(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["sqlite"](tmp_path, 2)
    fill(urls[0], *chain())
    command = [sys.executable, "-m", "gandy", "store", "copy", *urls]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert (told["samples"], told["history_problem"]) == (5, "")
    with opened(f"sqlite:{tmp_path}/jobs-3.db") as target:
        target.add(*chain(begin=333.0))
    done = subprocess.run([*command[:-1], f"sqlite:{tmp_path}/jobs-3.db"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (
        0,
        b"gandy: the history was not copied: the target has a history of its own\n",
    )
    assert done.stdout.startswith(b"copied 2 jobs with 6 tasks, and 0 samples of the history, from ")
