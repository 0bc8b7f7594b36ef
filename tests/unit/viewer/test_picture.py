"""One picture of a crew, put together from the updates of its shards."""

import pytest
from msgspec.structs import replace
from tests.unit.viewer.updates import a_call, a_command, a_job, a_span, a_whole, a_worker, an_update

from gandy.core.extensions import MachineLoad
from gandy.core.model import JobState
from gandy.core.views import Totals
from gandy.ids import JobId
from gandy.viewer import picture as subject
from gandy.viewer.picture import Picture

ONE, TWO, THREE = map(JobId, (1, 2, 3))


@pytest.fixture
def picture() -> Picture:
    picture = Picture()
    picture.apply(a_whole(jobs=(a_job(1), a_job(2)), workers=(a_worker(),), commands=(a_command(),), waiting=20), 0.0)
    picture.take_changes()
    return picture


def test_changes_replace_what_was_known(picture: Picture) -> None:
    picture.apply(an_update(jobs=(a_job(1, finished=3),), workers=(a_worker(used=4),), waiting=17), 1.0)
    assert (picture.jobs[ONE].counts.finished, picture.jobs[TWO].counts.finished) == (3, 0)
    assert list(picture.jobs) == [2, 1]  # the one that changed last comes last
    assert [worker.used for worker in picture.list_workers()] == [4]
    assert (picture.count("waiting"), picture.rates.jobs[ONE].per_second(1.0)) == (17, 3.0)


def test_changes_can_be_passed_on(picture: Picture) -> None:
    span = a_span()
    update = an_update(jobs=(a_job(3),), forgotten=(TWO,), workers=(a_worker("v"),), spans=(span,), skipped=5)
    picture.apply(update, 1.0)
    changes = picture.take_changes()
    assert (changes.jobs, changes.forgotten, changes.workers, changes.is_new) == ({3}, {2}, {"v-1"}, False)
    assert [(placed.span, placed.lane) for placed in changes.spans] == [(span, 0)]
    assert (picture.skipped, picture.take_changes().jobs) == (5, set())


def test_a_program_that_takes_no_changes_is_not_filled_with_them(
    picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "KEPT_CHANGES", 3)
    for task in range(4):
        picture.apply(an_update(spans=(a_span(task),)), 1.0)
    assert picture.take_changes().is_new


def test_what_is_gone_is_not_shown(picture: Picture) -> None:
    picture.apply(an_update(left=("w-1", "other"), gone=("ping", "other"), forgotten=(ONE, THREE)), 1.0)
    assert (list(picture.list_workers()), picture.list_commands(), list(picture.jobs)) == ([], [], [2])
    assert (picture.find_worker("w-1"), picture.find_command("ping")) == (None, None)
    changes = picture.take_changes()
    assert {"w-1"} < changes.workers
    assert {"ping"} < changes.commands


def test_a_shard_that_starts_anew_replaces_all_that_it_said(picture: Picture) -> None:
    picture.apply(an_update(spans=(a_span(1), a_span(2)), calls=(a_call(1), a_call(2))), 1.0)
    whole = a_whole(jobs=(a_job(2),), workers=(a_worker("v"),), spans=(a_span(2),), calls=(a_call(2),))
    picture.apply(whole, 2.0)
    assert [placed.call.number for placed in picture.lanes.list_calls()] == [2]
    assert picture.take_changes().is_new
    assert ([worker.name for worker in picture.list_workers()], picture.list_commands()) == (["v"], [])
    assert [placed.span.task for placed in picture.lanes] == [2]


def test_a_job_that_is_missing_is_looked_up(picture: Picture) -> None:
    """It ended or was forgotten while its foreman was away, or there are too many jobs."""
    picture.note_job(a_job(3, JobState.FAILED), 0.0)
    picture.apply(a_whole(jobs=(a_job(2),)), 1.0)
    assert picture.unsure == {1}
    picture.note_job(a_job(1, JobState.FINISHED, finished=10), 2.0)
    assert picture.unsure == set()
    assert picture.jobs[ONE].state is JobState.FINISHED


def test_a_missing_job_that_does_not_exist_is_forgotten(picture: Picture) -> None:
    picture.apply(a_whole(), 1.0)
    assert picture.unsure == {1, 2}
    picture.on_forgotten(ONE)
    picture.on_forgotten(THREE)
    assert (picture.unsure, list(picture.jobs)) == ({2}, [2])


def test_old_jobs_are_dropped_if_they_are_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "KEPT_JOBS", 2)
    picture = Picture()
    picture.apply(a_whole(jobs=(a_job(1), *(a_job(number, JobState.FINISHED) for number in range(2, 6)))), 0.0)
    assert list(picture.jobs) == [1, 4, 5]
    assert picture.rates.jobs.keys() == picture.jobs.keys()
    picture.apply(an_update(jobs=tuple(a_job(number) for number in range(6, 20))), 0.0)
    assert len(picture.jobs) == 17


# Totals and time


def test_totals_count_what_happens_while_the_picture_is_there() -> None:
    picture = Picture()
    picture.apply(a_whole(totals=Totals(finished=100)), 0.0)
    picture.apply(an_update(totals=Totals(finished=130, failed=2)), 1.0)
    assert picture.totals == Totals(finished=30, failed=2)
    picture.apply(a_whole(totals=Totals(finished=5)), 2.0)  # the foreman was started again
    assert picture.totals == Totals(finished=35, failed=2)


def test_totals_of_all_shards_add_up() -> None:
    picture = Picture()
    for shard in (1, 2):
        picture.apply(a_whole(shard), 0.0)
        picture.apply(an_update(shard, totals=Totals(calls=7)), 1.0)
    assert picture.totals.calls == 14


def test_a_point_has_rates_and_what_there_is(picture: Picture) -> None:
    picture.tick(0.0)
    workers = (a_worker("v", used=4), a_worker("u", connected=False))
    picture.apply(an_update(totals=Totals(finished=10, failed=1, calls=4), workers=workers, waiting=9, running=2), 1.0)
    picture.tick(1.0)
    point = picture.series.points[-1]
    assert (point.at, point.finished, point.failed, point.calls) == (1.0, 10.0, 1.0, 4.0)
    assert (point.used, point.slots, point.waiting, point.running) == (6, 8, 9, 2)
    picture.tick(1.2)  # too soon for another one
    assert picture.take_changes().points == [*picture.series.points]


def test_what_happens_before_the_first_second_is_over_counts() -> None:
    picture = Picture()
    picture.apply(a_whole(), 0.0)
    picture.apply(an_update(totals=Totals(finished=30), jobs=(a_job(finished=8),)), 0.5)
    picture.tick(1.0)
    assert picture.series.points[0].finished == 30.0
    assert picture.rates.jobs[ONE].per_second(1.0) == 8.0


def test_a_job_that_is_older_has_no_rate_at_first() -> None:
    picture = Picture()
    picture.apply(replace(a_whole(jobs=(a_job(finished=8),)), at=60.0), 0.0)
    assert picture.rates.jobs[ONE].per_second(1.0) == 0.0


# Several shards


def test_a_worker_does_something_for_each_shard() -> None:
    picture = Picture()
    picture.apply(a_whole(1, workers=(a_worker(used=1, connected=False, silent_seconds=9.0),)), 0.0)
    machine = MachineLoad(1.5)
    picture.apply(
        a_whole(2, workers=(a_worker(used=2, problem="memory", calls=3, machine=machine), a_worker("v"))), 0.0
    )
    first, second = picture.list_workers()
    assert (first.name, first.slots, first.used, first.calls, first.running) == ("v", 4, 1, 0, 1)
    assert (second.used, second.calls, second.connected, second.problem) == (3, 3, True, "memory")
    assert (second.silent_seconds, second.machine) == (0.0, machine)


def test_a_worker_that_left_one_shard_is_still_there() -> None:
    picture = Picture()
    for shard in (1, 2):
        picture.apply(a_whole(shard, workers=(a_worker(),), commands=(a_command(),)), 0.0)
    picture.apply(an_update(1, spans=(a_span(),), left=("w-1",), gone=("ping",)), 1.0)
    assert len(list(picture.list_workers())) == len(picture.list_commands()) == 1
    picture.apply(an_update(1, spans=(a_span(2),)), 1.0)
    assert [placed.lane for placed in picture.lanes] == [0, 1]


def test_calls_of_all_shards_add_up() -> None:
    picture = Picture()
    picture.apply(a_whole(1, commands=(a_command(ended=3, buckets=(1, 2)), a_command("echo"))), 0.0)
    picture.apply(a_whole(2, commands=(a_command(ended=4, buckets=(0, 0, 4), workers=2),)), 0.0)
    assert [command.name for command in picture.list_commands()] == ["echo", "ping"]
    found = picture.find_command("ping")
    assert found is not None
    assert (found.workers, found.waiting, found.ended, found.buckets) == (2, 4, 7, (1, 2, 4))
    picture.apply(an_update(2, commands=(a_command(ended=9),)), 1.0)
    assert picture.rates.commands["ping"].per_second(1.0) == 5 + 4  # the second shard came with four


def test_jobs_of_other_shards_are_not_missing() -> None:
    picture = Picture()
    picture.apply(a_whole(1, jobs=(a_job(1),)), 0.0)
    picture.apply(a_whole(2, jobs=(a_job(2),)), 0.0)
    picture.apply(a_whole(2, jobs=()), 1.0)
    assert picture.unsure == {2}


def test_a_shard_that_is_lost_takes_its_part_along() -> None:
    picture = Picture()
    picture.apply(a_whole(1, workers=(a_worker(),), commands=(a_command(),), spans=(a_span(),), trouble="full"), 0.0)
    picture.apply(a_whole(2, waiting=5), 0.0)
    assert picture.troubles == {1: "full"}
    picture.on_lost((1, 9))
    assert (list(picture.shards), list(picture.list_workers()), list(picture.lanes)) == ([2], [], [])
    assert (picture.count("waiting"), picture.troubles, picture.list_commands()) == (5, {}, [])


def test_unfinished_jobs_of_a_shard_that_is_lost_are_looked_up() -> None:
    """Before it was retired, its jobs ended, perhaps at a foreman that the viewer never heard of."""
    picture = Picture()
    picture.apply(a_whole(1, jobs=(a_job(1), a_job(2, JobState.FAILED))), 0.0)
    picture.apply(a_whole(2, jobs=(a_job(3),)), 0.0)
    picture.on_lost((1,))
    assert picture.unsure == {1}


def test_everything_is_new_if_the_clock_was_set_back() -> None:
    """The times of all points are others then."""
    picture = Picture()
    picture.apply(a_whole(), 0.0)
    picture.tick(100.0)
    picture.take_changes()
    picture.tick(50.0)
    changes = picture.take_changes()
    assert (changes.is_new, changes.points) == (True, [])
    picture.tick(51.0)
    assert [point.at for point in picture.series.points] == [50.0, 51.0]
