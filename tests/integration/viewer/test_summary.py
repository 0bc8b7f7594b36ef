"""A summary of a job of a real crew, over its wire."""

from pathlib import Path

import pytest
from tests.integration.local_crews import a_foreman, a_worker, run

from gandy.core import rows
from gandy.errors import JobNotFound
from gandy.ids import JobId
from gandy.viewer import summary


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_summary_of_a_job(tmp_path: Path, store: str) -> None:
    async def check() -> None:
        where = store if store == "memory:" else f"sqlite:{tmp_path / 'jobs.db'}"
        async with a_foreman(tmp_path, where) as client, a_worker(tmp_path):
            job = await client.submit("echo no planet {task} >&2; [ {task} -gt 3 ]", tasks=10)
            await job.wait()
            found = await summary.summarise(client, job.id)
            assert (found.sampled, found.of, found.failures_sampled, found.failures_of) == (10, 10, 3, 3)
            (group,) = found.failures
            assert (group.words, group.cause, group.tasks) == ("no planet <n>", "exit code 1", (1, 2, 3))
            assert sum(count for _, _, count in found.durations.bars) == 10
            assert {each.task for each in found.timeline} == set(range(1, 11))
            assert {each.worker for each in found.timeline} == {"hut-1"}

    run(check())


def test_large_job_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "SAMPLED_TASKS", 5)

    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await client.submit("false", tasks=21)
            await job.wait()
            sample = await summary.read_sample(client, job.id)
            assert [row.task for row in sample.tasks] == [1, 6, 11, 16, 21]
            assert [row.task for row in sample.failed] == [1, 2, 3, 4, 5]
            found = summary.make_summary(sample)
            assert (found.sampled, found.of, found.failures_sampled, found.failures_of) == (5, 21, 5, 21)

    run(check())


def test_long_tails_come_in_several_answers_and_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_PAGE_BYTES", 3_000)
    monkeypatch.setattr(summary, "KEPT_TAIL_BYTES", 10)

    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await client.submit("head -c 999 /dev/zero | tr '\\0' x >&2; echo {task} >&2; exit 1", tasks=12)
            await job.wait()
            sample = await summary.read_sample(client, job.id)
            assert [row.task for row in sample.tasks] == [row.task for row in sample.failed] == list(range(1, 13))
            tails = [row.ending.tail for row in sample.list_all() if row.ending is not None]
            assert tails[8:10] == [b"xxxxxxxx9\n", b"xxxxxxx10\n"]

    run(check())


def test_job_that_has_not_begun_has_an_empty_summary(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_foreman(tmp_path) as client:
            job = await client.submit("true", tasks=3)
            found = await summary.summarise(client, job.id)
            assert (found.sampled, found.of, found.failures, found.timeline) == (3, 3, (), ())

    run(check())


def test_unknown_job_has_no_summary(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_foreman(tmp_path) as client:
            with pytest.raises(JobNotFound):
                await summary.summarise(client, JobId(9))

    run(check())
