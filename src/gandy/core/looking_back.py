"""Answers requests about the past, from the samples in the store: those of all shards, at any foreman."""

from typing import assert_never

from gandy.core import requests as ask
from gandy.core.foreman import Foreman
from gandy.core.past_crew import CrewThen, ShardThen, merge_shards, rebuild
from gandy.core.past_points import make_grid, make_points
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow
from gandy.core.samples import Extent, StoredSample
from gandy.core.standing import Standing
from gandy.core.steps import Look, Steps
from gandy.ids import JobId
from gandy.moments import Wall


class LookingBack:
    """Reads the history in the store. Raises: Refusal."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing

    def answer(self, request: ask.ListSamples | ask.ReadSample) -> Steps[ask.Answer]:
        match request:
            case ask.ListSamples():
                return (yield from self._list_points(request))
            case ask.ReadSample(at):
                return (yield from self._find_crew(at))
            case _:
                assert_never(request)

    def _list_points(self, request: ask.ListSamples) -> Steps[ask.Points]:
        extent: Extent = yield Look(lambda store: store.history.get_extent())
        now = self._foreman.reactor.clocks.stamp(self._standing.now)
        grid = make_grid(extent, request.begin, min(request.end, now), request.most)
        if not grid.size:
            return ask.Points(())
        samples = yield Look(lambda store: store.history.list_samples(*grid))
        return ask.Points(make_points(grid, samples))

    def _find_crew(self, at: Wall) -> Steps[CrewThen]:
        samples: list[StoredSample] = yield Look(lambda store: store.history.find_samples(at))
        shards = rebuild(samples)
        if not shards:
            raise Refusal("not_found", "no history is kept of that time")
        return merge_shards(shards, (yield from self._find_jobs(shards)))

    def _find_jobs(self, shards: list[ShardThen]) -> Steps[dict[JobId, JobRow]]:
        """The jobs that had not ended then, as they are now. Those that were forgotten are missing."""
        rows: dict[JobId, JobRow] = {}
        for job in (job.job for shard in shards for job in shard.jobs):
            row: JobRow | None = yield Look(lambda store, job=job: store.find_job(job))  # type: ignore[misc]
            if row is not None:
                rows[job] = row
        return rows
