"""How fast a job goes, and when it will have ended."""

from gandy.core.model import Counts, JobState
from gandy.core.views import JobGlance
from gandy.ids import JobId
from gandy.viewer.picture import Picture
from gandy.viewer.progress import ProgressEstimate, estimate_progress, find_progress
from gandy.viewer.series import Rate

JOB = JobId(7)


def a_rate(*notes: tuple[float, int]) -> Rate:
    rate = Rate()
    for note in notes:
        rate.note(*note)
    return rate


def find(
    state: JobState, *, now: float, began: float | None = None, is_open: bool = False, **counts: int
) -> ProgressEstimate:
    """The progress of a job that was submitted at 100."""
    picture = Picture()
    picture.note_job(JobGlance(JOB, "x", state, False, 100.0, Counts(**counts), is_open=is_open), now)
    return find_progress(picture, JOB, now, began)


def test_tasks_that_ended_lately_count_most() -> None:
    seen = a_rate((0.0, 0), (95.0, 10), (100.0, 50))
    counts = Counts(finished=50, waiting=19, running=1)
    assert estimate_progress(counts, 0.0, 100.0, seen) == ProgressEstimate(8.0, 2.5)


def test_few_that_ended_lately_count_less_than_all_that_were_seen_to_end() -> None:
    seen = a_rate((0.0, 100), (95.0, 119), (99.0, 120))
    counts = Counts(finished=120, waiting=9, running=1)
    assert estimate_progress(counts, -10_000.0, 100.0, seen) == ProgressEstimate(0.2, 50.0)


def test_job_that_was_not_watched_is_judged_by_all_that_ended() -> None:
    counts = Counts(finished=30, failed=10, cancelled=1_000, waiting=7, assigned=2, running=1)
    assert estimate_progress(counts, 0.0, 20.0) == ProgressEstimate(2.0, 5.0)


def test_job_of_which_nothing_runs_or_ends_has_no_rate() -> None:
    assert estimate_progress(Counts(finished=30, waiting=10), 0.0, 20.0) == ProgressEstimate(0.0, None)


def test_job_of_which_nothing_has_ended_has_no_time_left() -> None:
    assert estimate_progress(Counts(running=1, waiting=10), 0.0, 20.0) == ProgressEstimate(0.0, None)


def test_job_without_a_task_left_has_no_time_left() -> None:
    assert estimate_progress(Counts(finished=30), 0.0, 20.0, a_rate((15.0, 0), (20.0, 30))) == ProgressEstimate(
        6.0, 0.0
    )


def test_numbers_that_began_anew_are_not_a_rate() -> None:
    seen = a_rate((0.0, 1_000), (10.0, 0), (15.0, 10))
    assert (seen.growth, seen.per_second(15.0), seen.per_second_on_average(20.0)) == (10, 2.0, 1.0)
    assert (Rate().growth, Rate().per_second_on_average(5.0)) == (0, 0.0)


def test_job_of_a_picture_is_judged_since_it_was_submitted_or_began() -> None:
    assert find(JobState.RUNNING, now=120.0, finished=10, running=5) == ProgressEstimate(0.5, 10.0)
    assert find(JobState.RUNNING, now=120.0, began=110.0, finished=10, running=5) == ProgressEstimate(1.0, 5.0)


def test_job_that_may_get_more_tasks_has_no_time_left() -> None:
    assert find(JobState.RUNNING, now=120.0, is_open=True, finished=10, running=5) == ProgressEstimate(0.5, None)


def test_job_that_is_held_or_over_has_no_progress() -> None:
    assert find(JobState.PAUSED, now=120.0, finished=10, running=5) == ProgressEstimate()
    assert find(JobState.FAILED, now=120.0, finished=10, failed=5) == ProgressEstimate()
