"""How fast a job goes, and when it will have ended. Pure."""

from typing import Final

from msgspec import Struct

from gandy.core.model import FINAL_JOB_STATES, Counts, JobState
from gandy.ids import JobId
from gandy.viewer.picture import Picture
from gandy.viewer.series import PERIOD, RATE_SECONDS, Rate

ENOUGH: Final = 10  # tasks that ended; fewer say little about the others


class ProgressEstimate(Struct, frozen=True):
    """Tasks that end per second, and the seconds until the last one has, if that can be said."""

    rate: float = 0.0
    left_seconds: float | None = None


def find_progress(picture: Picture, job: JobId, now: float, began: float | None = None) -> ProgressEstimate:
    """Of a job of the picture. `began`: when its first task did, if that is known."""
    glance = picture.jobs[job]
    if glance.state in FINAL_JOB_STATES or glance.state is JobState.PAUSED:
        return ProgressEstimate()
    begin = float(glance.submitted) if began is None else began
    progress = estimate_progress(glance.counts, begin, now, picture.rates.jobs.get(job))
    return ProgressEstimate(progress.rate) if glance.is_open else progress  # more tasks may come


def estimate_progress(counts: Counts, begin: float, now: float, seen: Rate | None = None) -> ProgressEstimate:
    """Estimate it from the tasks that ended lately; from those that ended while we looked; or from all since `begin`.

    The first of these that are enough count.
    """
    left = counts.waiting + counts.assigned + counts.running
    rate = _find_rate(counts, begin, now, seen or Rate())
    if not left:
        return ProgressEstimate(rate, 0.0)
    return ProgressEstimate(rate, left / rate if rate else None)


def _find_rate(counts: Counts, begin: float, now: float, seen: Rate) -> float:
    recent = seen.per_second(now)
    if recent * RATE_SECONDS >= ENOUGH or not (recent or counts.running or counts.assigned):
        return recent
    if seen.growth >= ENOUGH:
        return seen.per_second_on_average(now)
    return (counts.finished + counts.failed) / max(now - begin, PERIOD)
