"""What every store does, whatever it is made of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.store.builders import (
    BADLY,
    MAKERS,
    WELL,
    Blocking,
    a_spec,
    added,
    as_submitted,
    attempt_key,
    began,
    blocking,
    claimed,
    closed,
    ended,
    find_recovered,
    forgotten,
    job_set,
    opened,
    tasks_added,
    tasks_set,
)

from gandy.core.model import Counts, JobState, TaskState
from gandy.core.records import JobAdded, LinesAdded, LinesDropped, Record, ResultsDropped
from gandy.core.rows import TaskRow
from gandy.errors import StoreError, SubmittedBefore
from gandy.ids import JobId, TaskNumber
from gandy.store import make_store
from gandy.store.memory import MemoryStore
from gandy.store.sqlite import SqliteStore

WAITING, RUNNING, FINISHED, FAILED, CANCELLED, ASSIGNED = TaskState
MILLION = 1_000_000


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blocking]:
    with blocking(MAKERS[request.param](tmp_path)) as face:
        yield face


# Jobs


def test_new_store_is_empty(store: Blocking) -> None:
    assert store.list_jobs() == []
    recovered = store.reopen()
    assert (recovered.jobs, recovered.next_job) == ((), 1)


def test_added_job_is_listed_with_all_its_tasks_waiting(store: Blocking) -> None:
    store.commit(added(tasks=3, at=7.0))
    row = store.get_job()
    assert (row.state, row.held, row.submitted, row.changed) == (JobState.WAITING, False, 7.0, 7.0)
    assert row.counts == Counts(waiting=3)
    assert store.list_tasks() == as_submitted(1, 2, 3)


def test_spec_comes_back_as_it_was_given(store: Blocking) -> None:
    spec = a_spec(
        name="ä",
        cwd="/tmp",
        env={"K": "v"},
        retries=2,
        timeout=1.5,
        priority=-1,
        slots=2,
        tags=("gpu",),
        limit=4,
        after=(JobId(1),),
        after_any=(JobId(1),),
        after_each=(JobId(1),),
    )
    store.commit(JobAdded(JobId(2), spec, 1.0))
    store.commit(JobAdded(JobId(3), a_spec(), 1.0))
    assert [row.spec for row in store.list_jobs()] == [a_spec(), spec]


def test_held_job_is_paused_from_the_start(store: Blocking) -> None:
    store.commit(JobAdded(JobId(1), a_spec(held=True), 1.0))
    assert (store.get_job().state, store.get_job().held) == (JobState.PAUSED, True)


def test_job_set_changes_state_and_hold(store: Blocking) -> None:
    store.commit(added())
    store.commit(job_set(JobState.PAUSED, held=True, at=9.0))
    row = store.get_job()
    assert (row.state, row.held, row.changed) == (JobState.PAUSED, True, 9.0)


def test_a_job_number_cannot_be_used_twice(store: Blocking) -> None:
    store.commit(added())
    with pytest.raises(StoreError) as caught:
        store.commit(claimed(), added())
    assert not caught.value.retryable
    assert store.get_counts() == Counts(waiting=3)


def test_jobs_are_listed_newest_first_in_pages(store: Blocking) -> None:
    store.commit(*(added(job) for job in (1, 2, 3, 5)))
    assert [row.job for row in store.list_jobs(limit=2)] == [5, 3]
    assert [row.job for row in store.list_jobs(limit=2, before=3)] == [2, 1]
    assert store.list_jobs(before=1) == []


def test_states_of_many_jobs_are_found_at_once(store: Blocking) -> None:
    store.commit(*(added(job) for job in (1, 2, 3)), job_set(JobState.FAILED, 2))
    assert store.find_states([3, 2, 9]) == {3: JobState.WAITING, 2: JobState.FAILED}
    assert store.find_states([]) == {}


def test_jobs_are_listed_by_state(store: Blocking) -> None:
    store.commit(*(added(job) for job in (1, 2, 3)), job_set(JobState.FAILED, 2))
    assert [row.job for row in store.list_jobs([JobState.FAILED])] == [2]
    assert [row.job for row in store.list_jobs([JobState.WAITING, JobState.FAILED], limit=2)] == [3, 2]
    assert store.list_jobs([]) == []


def test_a_listed_job_does_not_change_afterwards(store: Blocking) -> None:
    store.commit(added())
    row = store.get_job()
    store.commit(claimed())
    assert row.counts == Counts(waiting=3)


def test_unknown_job_is_nowhere(store: Blocking) -> None:
    assert store.find_job() is None
    assert store.load_job() is None
    assert store.list_tasks() == []
    assert store.list_attempts() == []
    assert store.read_lines(1, 1) == []


def test_records_of_an_unknown_job_have_no_effect(store: Blocking) -> None:
    records = ended(), tasks_set(CANCELLED), tasks_set(CANCELLED, 1), job_set(JobState.FAILED), forgotten()
    assert store.commit(*records, claimed()) == {attempt_key()}
    assert store.list_jobs() == []


def test_forgotten_job_leaves_nothing(store: Blocking) -> None:
    store.commit(added(lines=("a", "b")), claimed(), ended(WAITING), claimed(attempt=2))
    store.commit(forgotten())
    test_unknown_job_is_nowhere(store)
    store.commit(added(tasks=2))
    assert store.list_tasks() == as_submitted(1, 2)
    assert (store.list_attempts(), store.read_lines(1, 2)) == ([], [])


def test_records_before_a_job_do_not_mean_it(store: Blocking) -> None:
    store.commit(claimed(), tasks_set(CANCELLED, at=9.0), job_set(JobState.FAILED, at=9.0), added(at=1.0))
    row = store.get_job()
    assert (row.state, row.changed, row.counts) == (JobState.WAITING, 1.0, Counts(waiting=3))


def test_the_number_of_a_forgotten_job_is_not_given_again(store: Blocking) -> None:
    store.commit(added(4), added(7))
    store.commit(forgotten(7))
    assert store.reopen().next_job == 8


# Submissions and shards


def test_a_job_is_found_by_the_key_of_its_request(store: Blocking) -> None:
    store.commit(added(1, key=77), added(2), added(3, key=2**62))
    assert [store.find_submission(key) for key in (77, 2**62, 78)] == [1, 3, None]
    assert store.find_submission(0) is None  # it means that there is none
    store.reopen()
    assert store.find_submission(77) == 1


def test_the_key_of_a_job_is_known(store: Blocking) -> None:
    store.commit(added(1, key=77), added(2))
    assert [store.get_submission(job) for job in (1, 2, 3)] == [77, 0, 0]


def test_two_jobs_cannot_have_the_same_key(store: Blocking) -> None:
    store.commit(added(1, key=77))
    with pytest.raises(SubmittedBefore) as caught:
        store.commit(added(2, key=77), added(6, key=78))
    assert (caught.value.jobs, caught.value.retryable) == ({2: 1}, True)
    with pytest.raises(StoreError, match="submitted already"):
        store.commit(added(3, key=5), added(4, key=5))
    assert [row.job for row in store.list_jobs()] == [1]
    store.commit(added(6, key=78))
    assert store.find_submission(78) == 6


def test_the_key_of_a_forgotten_job_can_be_used_again(store: Blocking) -> None:
    store.commit(added(1, key=77))
    store.commit(forgotten(1))
    assert store.find_submission(77) is None
    store.commit(added(2, key=77), forgotten(2), added(3, key=77))
    assert store.find_submission(77) == 3


def test_a_job_belongs_to_a_shard(store: Blocking) -> None:
    assert store.find_shard() is None
    store.commit(added())
    assert store.find_shard() == store.find_shard() is not None


def test_numbers_that_are_drawn_are_new(store: Blocking) -> None:
    store.commit(added(4))
    drawn = [store.draw_number() for _ in range(3)]
    assert drawn in ([None] * 3, [5, 6, 7])
    assert store.reopen().next_job == (8 if drawn[0] else 5)


# Attempts


def test_claim_assigns_a_task(store: Blocking) -> None:
    store.commit(added())
    assert store.commit(claimed(2, worker="anna", at=2.0)) == frozenset()
    assert store.get_task(2) == TaskRow(attempt_key(2).task, ASSIGNED, 1, "anna", 2.0)
    assert store.get_counts() == Counts(waiting=2, assigned=1)
    assert store.get_job().changed == 2.0


def test_claim_of_a_task_that_a_worker_has_is_lost(store: Blocking) -> None:
    store.commit(added(), claimed(worker="first"))
    for attempt in (1, 2):
        assert store.commit(claimed(attempt=attempt, worker="second")) == {attempt_key(attempt=attempt)}
    assert store.get_task().worker == "first"
    assert len(store.list_attempts()) == 1


@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_claim_of_any_but_the_next_attempt_is_lost(store: Blocking, attempt: int) -> None:
    store.commit(added(), claimed(), ended(WAITING))
    assert store.commit(claimed(attempt=attempt)) == {attempt_key(attempt=attempt)}
    assert store.get_task().state is WAITING


@pytest.mark.parametrize("state", [FINISHED, FAILED, CANCELLED])
def test_claim_of_a_task_that_does_not_wait_is_lost(store: Blocking, state: TaskState) -> None:
    store.commit(added(), claimed(), ended(state), tasks_set(state, 2))
    assert store.commit(claimed(1, 2), claimed(2, 1)) == {attempt_key(1, 2), attempt_key(2, 1)}
    assert store.list_states() == [state, state, WAITING]


@pytest.mark.parametrize("task", [0, 4])
def test_claim_of_a_task_that_the_job_does_not_have_is_lost(store: Blocking, task: int) -> None:
    store.commit(added(tasks=3))
    assert store.commit(claimed(task)) == {attempt_key(task)}
    assert store.get_counts() == Counts(waiting=3)


def test_a_lost_claim_does_not_stop_the_rest_of_the_batch(store: Blocking) -> None:
    store.commit(added(), claimed(1))
    assert store.commit(claimed(2), claimed(1), claimed(3)) == {attempt_key(1)}
    assert store.list_states() == [ASSIGNED, ASSIGNED, ASSIGNED]


def test_a_claim_that_never_can_be_is_lost_beside_good_ones(store: Blocking) -> None:
    store.commit(added())
    assert store.commit(claimed(1), claimed(2, attempt=0)) == {attempt_key(2, 0)}


def test_a_job_is_as_old_as_the_last_of_its_claims(store: Blocking) -> None:
    store.commit(added(), claimed(1), ended(WAITING, 1))
    store.commit(claimed(1, attempt=2, at=6.0), claimed(2, at=7.0))
    assert store.get_job().changed == 7.0


def test_end_is_recorded_with_the_attempt(store: Blocking) -> None:
    store.commit(added(), claimed(at=2.0), ended(FAILED, at=3.0, due=4.0, failures=1, crashes=2))
    row = store.get_task()
    assert (row.state, row.ended, row.due, row.failures, row.crashes) == (FAILED, 3.0, 4.0, 1, 2)
    assert (row.attempt, row.claimed, row.ending) == (1, 2.0, BADLY)
    assert store.get_counts() == Counts(waiting=2, failed=1)
    assert store.get_job().changed == 3.0


def test_only_the_first_end_of_an_attempt_counts(store: Blocking) -> None:
    store.commit(added(), claimed(), ended(FINISHED, at=3.0))
    store.commit(ended(FAILED, at=9.0))
    assert (store.get_task().state, store.get_task().ended, store.get_task().ending) == (FINISHED, 3.0, WELL)
    assert store.get_job().changed == 3.0


def test_the_end_of_an_earlier_attempt_is_fenced(store: Blocking) -> None:
    store.commit(added(), claimed(), ended(WAITING), claimed(attempt=2))
    store.commit(ended(FINISHED, attempt=1), ended(FINISHED, attempt=3))
    assert (store.get_task().state, store.get_task().attempt) == (ASSIGNED, 2)
    assert store.get_counts() == Counts(waiting=2, assigned=1)


def test_the_end_of_a_cancelled_attempt_is_fenced(store: Blocking) -> None:
    store.commit(added(), claimed(), tasks_set(CANCELLED, 1, at=4.0))
    store.commit(ended(FINISHED))
    row = store.get_task()
    assert (row.state, row.attempt, row.ended, row.ending) == (CANCELLED, 1, 4.0, None)


def test_the_next_attempt_keeps_the_account_and_nothing_else(store: Blocking) -> None:
    store.commit(added(), claimed(), ended(WAITING, due=8.0, failures=1, crashes=2))
    store.commit(claimed(attempt=2, worker="berta", at=9.0))
    row = store.get_task()
    assert row == TaskRow(attempt_key().task, ASSIGNED, 2, "berta", 9.0, failures=1, crashes=2)


def test_every_attempt_is_kept_with_what_it_led_to(store: Blocking) -> None:
    store.commit(added(), claimed(worker="a"), ended(WAITING, failures=1, due=5.0))
    store.commit(claimed(attempt=2, worker="b"), ended(FAILED, attempt=2, failures=2))
    store.commit(tasks_set(WAITING, 1), claimed(attempt=3, worker="c"))
    attempts = store.list_attempts()
    assert [(row.attempt, row.worker, row.state) for row in attempts] == [
        (1, "a", WAITING),
        (2, "b", FAILED),
        (3, "c", ASSIGNED),
    ]
    assert [(row.ending, row.due) for row in attempts] == [(BADLY, 5.0), (BADLY, 0.0), (None, 0.0)]


def test_an_attempt_that_people_ended_led_to_what_they_set(store: Blocking) -> None:
    store.commit(added(), claimed(), tasks_set(CANCELLED, 1, at=4.0))
    store.commit(tasks_set(WAITING, 1), claimed(attempt=2))
    first = store.list_attempts()[0]
    assert (first.state, first.ended) == (CANCELLED, 4.0)


def test_a_task_that_never_started_has_no_attempts(store: Blocking) -> None:
    store.commit(added(), tasks_set(CANCELLED, 1))
    assert store.list_attempts(1) == store.list_attempts(2) == []


@pytest.mark.parametrize("state", [ASSIGNED, RUNNING])
@pytest.mark.parametrize("make", [ended, tasks_set, lambda state: tasks_set(state, 1)], ids=["end", "all", "one"])
def test_only_a_claim_gives_a_task_to_a_worker(
    store: Blocking, make: Callable[[TaskState], Record], state: TaskState
) -> None:
    store.commit(added())
    with pytest.raises(StoreError, match="only a claim"):
        store.commit(claimed(), make(state))
    assert store.get_counts() == Counts(waiting=3)


# What has begun


def test_an_assigned_task_runs_when_its_worker_said_so(store: Blocking) -> None:
    store.commit(added(), claimed(1, worker="anna"), claimed(2))
    store.commit(began(1, at=2.5))
    assert store.get_task(1) == TaskRow(attempt_key(1).task, RUNNING, 1, "anna", 2.0)
    assert store.list_states() == [RUNNING, ASSIGNED, WAITING]
    assert store.get_counts() == Counts(running=1, assigned=1, waiting=1)
    assert store.get_job().changed == 2.5
    assert store.list_attempts(1)[0].state is RUNNING
    store.commit(ended(before=RUNNING), ended(task=2))
    assert store.get_counts() == Counts(finished=2, waiting=1)


def test_a_plain_worker_runs_what_it_claims(store: Blocking) -> None:
    store.commit(added(), claimed(1, state=RUNNING), claimed(2, state=RUNNING), claimed(3))
    assert store.get_counts() == Counts(running=2, assigned=1)
    store.commit(ended(WAITING, before=RUNNING))
    store.commit(claimed(1, 2, state=RUNNING))
    assert store.list_states() == [RUNNING, RUNNING, ASSIGNED]
    assert store.get_counts() == Counts(running=2, assigned=1)


def test_only_the_last_attempt_can_begin_and_only_while_it_is_assigned(store: Blocking) -> None:
    store.commit(added(tasks=4), *(claimed(task) for task in (1, 2, 3)), began(2), ended(WAITING), ended(task=3))
    store.commit(claimed(1, 2))
    before = store.list_tasks(), store.get_job()
    store.commit(*(began(task, at=9.0) for task in (1, 2, 3, 4, 5)), began(1, attempt=3, at=9.0), began(1, job=9))
    assert (store.list_tasks(), store.get_job()) == before
    store.commit(began(1, attempt=2))
    assert store.list_states() == [RUNNING, RUNNING, FINISHED, WAITING]


@pytest.mark.parametrize("state", [WAITING, FINISHED])
def test_only_what_a_worker_has_can_end(store: Blocking, state: TaskState) -> None:
    store.commit(added())
    with pytest.raises(StoreError, match="only an attempt that a worker has"):
        store.commit(claimed(), ended(before=state))
    assert store.get_counts() == Counts(waiting=3)


def test_an_end_counts_only_for_the_state_that_the_attempt_is_in(store: Blocking) -> None:
    store.commit(added(), claimed(1), claimed(2), began(2))
    store.commit(ended(before=RUNNING), ended(task=2, before=ASSIGNED))
    assert store.list_states() == [ASSIGNED, RUNNING, WAITING]
    assert store.get_counts() == Counts(running=1, assigned=1, waiting=1)


def test_an_attempt_that_had_begun_is_over_when_people_end_it(store: Blocking) -> None:
    store.commit(added(), claimed(), began(), tasks_set(CANCELLED, 1, at=4.0))
    row = store.get_task()
    assert (row.state, row.attempt, row.ended) == (CANCELLED, 1, 4.0)
    assert store.get_counts() == Counts(waiting=2, cancelled=1)


def test_a_final_job_with_a_task_that_has_begun_is_recovered(store: Blocking) -> None:
    store.commit(added(), claimed(), began(), job_set(JobState.CANCELLED))
    (found,) = store.reopen().jobs
    assert [row.state for row in found.tasks] == [RUNNING]


# People


def test_people_set_exactly_the_tasks_they_name(store: Blocking) -> None:
    store.commit(added(tasks=5), claimed(1), claimed(2), claimed(3), ended(task=3))
    store.commit(tasks_set(CANCELLED, 1, 4, 99, at=6.0))
    assert store.list_states() == [CANCELLED, ASSIGNED, FINISHED, CANCELLED, WAITING]
    assert store.get_counts() == Counts(waiting=1, assigned=1, finished=1, cancelled=2)
    assert store.get_job().changed == 6.0


def test_cancelling_all_means_those_that_wait(store: Blocking) -> None:
    store.commit(added(tasks=5), claimed(1), claimed(2), ended(task=2), claimed(3), ended(WAITING, 3))
    store.commit(tasks_set(FAILED, 4), tasks_set(CANCELLED))
    assert store.list_states() == [ASSIGNED, FINISHED, CANCELLED, FAILED, CANCELLED]
    assert store.get_counts() == Counts(assigned=1, finished=1, failed=1, cancelled=2)


def test_letting_all_wait_again_means_those_that_failed_or_were_cancelled(store: Blocking) -> None:
    store.commit(added(tasks=5), claimed(1), claimed(2), ended(task=2), claimed(3), ended(FAILED, 3))
    store.commit(tasks_set(CANCELLED))
    store.commit(tasks_set(WAITING))
    assert store.list_states() == [ASSIGNED, FINISHED, WAITING, WAITING, WAITING]
    assert store.get_counts() == Counts(waiting=3, assigned=1, finished=1)
    assert store.commit(claimed(3, 2), claimed(4, 1)) == frozenset()


def test_what_people_decide_opens_a_new_account(store: Blocking) -> None:
    store.commit(added(), *(claimed(task) for task in (1, 2, 3)))
    store.commit(*(ended(FAILED, task, due=9.0, failures=3, crashes=2) for task in (1, 2, 3)))
    store.commit(tasks_set(WAITING, 1))
    store.commit(tasks_set(WAITING))
    assert [(row.due, row.failures, row.crashes) for row in store.list_tasks()] == [(0.0, 0, 0)] * 3
    assert store.list_tasks()[0].ending == BADLY


def test_a_task_can_be_let_wait_alone_after_all_were_cancelled(store: Blocking) -> None:
    store.commit(added(), tasks_set(CANCELLED), tasks_set(WAITING, 2))
    assert store.list_states() == [CANCELLED, WAITING, CANCELLED]
    assert store.commit(claimed(1), claimed(2)) == {attempt_key(1)}


# Arrays


def test_a_million_tasks_are_added_cancelled_and_retried_as_one(store: Blocking) -> None:
    store.commit(added(tasks=MILLION), claimed(5))
    store.commit(tasks_set(CANCELLED))
    assert store.get_counts() == Counts(assigned=1, cancelled=MILLION - 1)
    store.commit(tasks_set(WAITING))
    assert store.get_counts() == Counts(waiting=MILLION - 1, assigned=1)
    recovered = find_recovered(store.reopen())
    assert recovered is not None
    assert len(recovered.tasks) == 1


def test_tasks_are_listed_in_pages_with_those_that_have_no_row(store: Blocking) -> None:
    store.commit(added(tasks=MILLION), claimed(2), claimed(500_000))
    assert [row.task for row in store.list_tasks(limit=3)] == [1, 2, 3]
    assert [row.task for row in store.list_tasks(limit=3, after=499_998)] == [499_999, 500_000, 500_001]
    assert [row.task for row in store.list_tasks(after=MILLION - 2)] == [MILLION - 1, MILLION]
    assert store.list_tasks(after=MILLION) == []


def test_tasks_are_listed_by_state(store: Blocking) -> None:
    store.commit(added(tasks=MILLION), *(claimed(task) for task in (1, 2, 4)), ended(FAILED, 2))
    assert [row.task for row in store.list_tasks(states=[WAITING], limit=3)] == [3, 5, 6]
    assert [row.task for row in store.list_tasks(states=[FAILED, ASSIGNED])] == [1, 2, 4]
    assert [row.task for row in store.list_tasks(states=[FAILED, ASSIGNED], after=1, limit=1)] == [2]
    assert [row.task for row in store.list_tasks(states=[WAITING, ASSIGNED], limit=4)] == [1, 3, 4, 5]
    assert store.list_tasks(states=[FINISHED, CANCELLED]) == store.list_tasks(states=[]) == []


def test_waiting_tasks_are_found_behind_those_that_started(store: Blocking) -> None:
    store.commit(added(tasks=6), *(claimed(task) for task in (1, 2, 3)), ended(WAITING, 2))
    assert [row.task for row in store.list_tasks(states=[WAITING])] == [2, 4, 5, 6]
    assert [row.task for row in store.list_tasks(states=[WAITING], after=4)] == [5, 6]


def test_a_job_without_tasks_has_none(store: Blocking) -> None:
    store.commit(added(tasks=0))
    assert (store.list_tasks(), store.get_counts()) == ([], Counts())


def test_lines_come_back_from_anywhere(store: Blocking) -> None:
    lines = tuple(f"line {number} \t\u00e4" for number in range(1, 2_501))
    store.commit(added(lines=lines))
    for first, count in [(1, 1), (1, 2_500), (1_000, 1), (1_000, 2), (1_001, 1_000), (2_000, 501), (2_500, 9)]:
        assert store.read_lines(first, count) == list(lines[first - 1 : first - 1 + count])
    assert store.read_lines(2_501, 1) == store.read_lines(1, 0) == []


def test_lines_may_come_in_parts_before_their_job(store: Blocking) -> None:
    lines = [f"line {number}" for number in range(1, 2_504)]
    parts = [tuple(lines[:1]), tuple(lines[1:1_500]), tuple(lines[1_500:])]
    store.commit(LinesAdded(7, TaskNumber(1), parts[0]), LinesAdded(7, TaskNumber(2), parts[1]))
    store.commit(LinesAdded(8, TaskNumber(1), ("of another",)))
    store.commit(LinesAdded(7, TaskNumber(1_501), parts[2]), added(tasks=2_503, upload=7))
    for first, count in [(1, 1), (2, 1), (1, 2_503), (1_001, 2), (1_500, 2), (2_501, 9)]:
        assert store.read_lines(first, count) == lines[first - 1 : first - 1 + count]
    store.commit(added(2, tasks=1, upload=7), LinesDropped(8), added(3, tasks=1, upload=8))
    assert store.read_lines(1, 1, job=2) == store.read_lines(1, 1, job=3) == []


def test_lines_whose_job_never_came_are_forgotten(store: Blocking) -> None:
    store.commit(LinesAdded(1, TaskNumber(1), ("a",)))
    store.reopen()
    store.commit(LinesAdded(1, TaskNumber(1), ("b",)), added(tasks=1, upload=1))
    assert store.read_lines(1, 9) == ["b"]


def test_a_line_may_hold_anything(store: Blocking) -> None:
    lines = ("", "a\nb", "\0", "x" * 100_000)
    store.commit(added(lines=lines))
    assert store.read_lines(1, 4) == list(lines)


# Starting again


def test_everything_is_there_after_a_restart(store: Blocking) -> None:
    store.commit(added(lines=("a", "b", "c")), claimed(1), ended(WAITING), claimed(1, 2), claimed(2), ended(task=2))
    before = store.get_job(), store.list_tasks(), store.list_attempts(), store.read_lines(1, 3)
    recovered = store.reopen()
    assert before == (store.get_job(), store.list_tasks(), store.list_attempts(), store.read_lines(1, 3))
    assert recovered.next_job == 2
    (job,) = recovered.jobs
    assert (job.row, job.tasks, job.fresh) == (store.get_job(), (store.get_task(1),), WAITING)
    assert job.finished == ((2, 2),)


def test_tasks_that_finished_at_the_first_attempt_are_recovered_as_runs(store: Blocking) -> None:
    store.commit(added(tasks=9), *(claimed(task) for task in range(1, 9)), *(ended(task=task) for task in (1, 2, 3, 6)))
    store.commit(ended(WAITING, task=4), claimed(4, 2), ended(task=4, attempt=2), ended(FAILED, task=8))
    job = find_recovered(store.reopen())
    assert job is not None
    assert job.finished == ((1, 3), (6, 6))
    assert [row.task for row in job.tasks] == [4, 5, 7, 8]


def test_a_task_that_people_changed_before_it_finished_is_recovered_as_finished(store: Blocking) -> None:
    store.commit(added(tasks=4), tasks_set(CANCELLED, 1, 2), tasks_set(WAITING, 1, 2))
    store.commit(*(claimed(task) for task in (1, 2, 3)), ended(task=1), ended(task=3), tasks_set(FINISHED, 2))
    job = find_recovered(store.reopen())
    assert job is not None
    assert (job.finished, job.tasks, job.row.counts) == (((1, 3),), (), Counts(finished=3, waiting=1))
    store.commit(tasks_set(WAITING, 3), claimed(3, 2))
    job = find_recovered(store.reopen())
    assert job is not None
    assert (job.finished, [row.task for row in job.tasks]) == (((1, 2),), [3])


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.FAILED, JobState.CANCELLED])
def test_final_jobs_are_not_recovered_unless_a_task_still_runs(store: Blocking, state: JobState) -> None:
    store.commit(added(1), added(2), claimed(job=2), job_set(state, 1), job_set(state, 2))
    assert [job.row.job for job in store.reopen().jobs] == [2]
    store.commit(ended(job=2))
    assert store.reopen().jobs == ()


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.RUNNING, JobState.PAUSED])
def test_jobs_that_are_not_final_are_recovered_oldest_first(store: Blocking, state: JobState) -> None:
    store.commit(added(2), added(1), job_set(state, 1), job_set(state, 2))
    assert [(job.row.job, job.row.state) for job in store.reopen().jobs] == [(1, state), (2, state)]


def test_recovered_job_tells_what_tasks_without_a_row_are(store: Blocking) -> None:
    store.commit(added(), claimed(2), tasks_set(CANCELLED))
    job = find_recovered(store.reopen())
    assert job is not None
    assert (job.fresh, [row.task for row in job.tasks]) == (CANCELLED, [2])


def test_a_final_job_can_be_loaded_whole(store: Blocking) -> None:
    store.commit(added(), claimed(2), ended(task=2), tasks_set(CANCELLED), job_set(JobState.CANCELLED))
    job = store.load_job()
    assert job is not None
    assert (job.row, job.tasks, job.fresh, job.finished) == (store.get_job(), (), CANCELLED, ((2, 2),))


def test_a_job_is_as_old_as_the_last_record_that_changed_it(store: Blocking) -> None:
    store.commit(added(at=1.0), claimed(at=2.0), job_set(JobState.RUNNING, at=3.0))
    assert store.get_job().changed == 3.0
    store.commit(job_set(JobState.RUNNING, at=4.0), tasks_set(CANCELLED, 1, at=5.0), ended(at=6.0))
    assert store.get_job().changed == 5.0


def test_an_empty_batch_is_no_trouble(store: Blocking) -> None:
    assert store.commit() == frozenset()


# Names


def test_stores_are_made_by_url(tmp_path: Path) -> None:
    assert isinstance(make_store("memory:"), MemoryStore)
    made = make_store(f"sqlite:{tmp_path}/jobs.db")
    assert isinstance(made, SqliteStore)
    assert made.path == tmp_path.resolve() / "jobs.db"


@pytest.mark.parametrize("url", ["", "memory:x", "sqlite", "sqlite:", "postgres://x", "jobs.db"])
def test_an_unknown_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="'memory:' or 'sqlite:PATH'"):
        make_store(url)


# Jobs that grow


def test_an_open_job_gets_more_tasks(store: Blocking) -> None:
    store.commit(opened(), tasks_added(1, b"a", b"b"))
    store.commit(tasks_added(3, b"c"), claimed(1), ended(), claimed(3))
    row = store.get_job()
    assert (row.spec.tasks, row.spec.is_open, row.counts) == (3, True, Counts(waiting=1, assigned=1, finished=1))
    assert store.read_lines(1, 9) == [b"a", b"b", b"c"]
    assert [task.task for task in store.list_tasks()] == [1, 2, 3]
    (recovered,) = store.reopen().jobs
    assert (recovered.row, [task.task for task in recovered.tasks]) == (store.get_job(), [3])
    assert recovered.finished == ((1, 1),)


def test_tasks_that_are_not_the_next_are_not_added(store: Blocking) -> None:
    store.commit(opened(), tasks_added(1, b"a"), tasks_added(1, b"again"), tasks_added(3, b"too soon"))
    store.commit(added(2), tasks_added(4, b"not open", job=2), tasks_added(1, b"no such job", job=3))
    assert store.get_counts() == Counts(waiting=1)
    assert store.get_counts(2) == Counts(waiting=3)
    assert store.read_lines(1, 9) == [b"a"]


def test_a_closed_job_grows_no_more(store: Blocking) -> None:
    store.commit(opened(), tasks_added(1, b"a"), closed(at=7.0), tasks_added(2, b"b"), closed(job=9))
    row = store.get_job()
    assert (row.spec.tasks, row.spec.is_open, row.changed) == (1, False, 7.0)


# What functions gave back


def results(store: Blocking, after: int = 0, limit: int = 100) -> dict[int, bytes]:
    return {row.task: row.ending.result for row in store.list_results(1, limit, after) if row.ending is not None}


def test_results_are_listed_apart(store: Blocking) -> None:
    store.commit(added(tasks=5), *(claimed(task) for task in (1, 2, 3, 4)))
    store.commit(
        ended(task=1, result=b"one"), ended(FAILED, 2, result=b"error"), ended(task=3), tasks_set(CANCELLED, 5)
    )
    assert results(store) == {1: b"one", 2: b"error", 3: b""}
    assert [row.task for row in store.list_results()] == [1, 2, 3, 5]
    assert results(store, after=1, limit=1) == {2: b"error"}
    assert store.list_results(9) == []
    assert {row.ending and row.ending.result for row in store.list_tasks()} == {None, b""}
    (recovered,) = store.reopen().jobs
    assert {task.ending and task.ending.result for task in recovered.tasks} == {None, b""}


def test_a_task_that_is_tried_again_does_not_hide_the_results_behind_it(store: Blocking) -> None:
    store.commit(added(tasks=3), *(claimed(task) for task in (1, 2, 3)))
    store.commit(ended(task=1, result=b"one"), ended(WAITING, 2, result=b"error"), ended(task=3, result=b"three"))
    assert results(store) == {1: b"one", 3: b"three"}


def test_only_the_last_attempt_has_a_result(store: Blocking) -> None:
    store.commit(added(tasks=1), claimed(), ended(WAITING, result=b"error"), claimed(attempt=2))
    assert results(store) == {}
    store.commit(ended(attempt=2))
    assert results(store) == {1: b""}
    store.commit(ended(attempt=1, result=b"too late"))
    assert results(store) == {1: b""}


def test_results_are_dropped_by_age(store: Blocking) -> None:
    store.commit(added(tasks=3), *(claimed(task) for task in (1, 2, 3)))
    store.commit(*(ended(task=task, at=10.0 * task, result=b"x") for task in (1, 2, 3)), ResultsDropped(20.0))
    assert results(store) == {1: b"", 2: b"x", 3: b"x"}
    store.commit(ResultsDropped(99.0), forgotten())
    assert results(store) == {}


# Pages


def test_a_page_of_large_rows_ends_early_and_goes_on(store: Blocking) -> None:
    large = a_spec(env={"A": "x" * 900_000})
    store.commit(*(JobAdded(JobId(job), large, 1.0) for job in range(1, 10)))
    found: list[int] = []
    while rows := store.list_jobs(before=found[-1] if found else None):
        assert len(rows) < 9
        found += [row.job for row in rows]
    assert found == list(range(9, 0, -1))


def test_a_page_of_large_results_ends_early_and_goes_on(store: Blocking) -> None:
    store.commit(added(tasks=9))
    for task in range(1, 10):
        store.commit(claimed(task), ended(task=task, result=bytes([task]) * 900_000))
    found: list[TaskRow] = []
    while rows := store.list_results(after=found[-1].task if found else 0):
        assert len(rows) < 9
        found += rows
    assert [row.ending and row.ending.result[:1] for row in found] == [bytes([task]) for task in range(1, 10)]


def test_attempts_go_on_above_a_number(store: Blocking) -> None:
    store.commit(added())
    for attempt in range(1, 5):
        store.commit(claimed(1, attempt), ended(WAITING, 1, attempt))
    every = store.list_attempts()
    assert [row.attempt for row in every] == [1, 2, 3, 4]
    assert store.runner.run(store.store.list_attempts(JobId(1), TaskNumber(1), 2)) == every[2:]
