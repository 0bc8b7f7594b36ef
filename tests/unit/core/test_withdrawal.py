"""What a foreman takes back when its store could not keep a batch, and what stays in it."""

from gandy.core.effects import Acknowledge, Effect, Give, Reply
from gandy.core.foreman import Batch, Foreman
from gandy.core.model import AttemptKey, Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.records import (
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    ResultsDropped,
    TasksAdded,
    TasksSet,
)
from gandy.core.requests import Submitted
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

OK = Ending(cause=Cause.EXIT, exit_code=0)


def key(task: int = 1, attempt: int = 1, job: int = 1) -> AttemptKey:
    return AttemptKey(JobId(job), TaskNumber(task), attempt)


class Disk:
    """A foreman with one worker, whose store takes a batch or does not."""

    def __init__(self, slots: int = 2) -> None:
        self.reactor = Reactor(Policy(grace=10.0, first_pace=0.0))
        self.foreman = Foreman(self.reactor, 0.0)
        self.decide(self.reactor.on_hello(WorkerInfo("w", "w", slots), [], 0.0))

    def decide(self, effects: list[Effect]) -> None:
        self.foreman.batch.add(effects)

    def submit(self, tasks: int = 1, token: str = "", **changes: object) -> JobId:
        spec = JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]
        job, effects = self.reactor.control.submit(spec, 0.0)
        self.decide([*effects, Reply(token, job, takes_work=True)])
        return job

    def commit(self) -> Batch:
        """The store takes all that was decided, and it is done."""
        batch = self.foreman.take_batch(0.0)
        for send in batch.sends:
            self.foreman.perform(send, {}, 0.0)
        self.reactor.check()
        return batch

    def fail(self, batch: Batch | None = None) -> tuple[Batch, list[object]]:
        """The store does not take it. Gives what is left, and those who are refused."""
        batch = batch or self.foreman.take_batch(0.0)
        new = self.foreman.on_commit_failed(batch, 1.0)
        self.reactor.check()
        return batch, [reply.token for reply in new.replies]

    def counts(self, job: JobId) -> Counts:
        found = self.reactor.jobs.find(job)
        assert found is not None
        return found.tasks.counts


def test_a_job_that_cannot_be_kept_never_was() -> None:
    disk = Disk()
    job = disk.submit(token="client")
    batch, refused = disk.fail()
    assert (batch.records, batch.sends, refused) == ([], [], ["client"])
    assert disk.reactor.jobs.find(job) is None
    assert disk.reactor.workers.find("w").slots.by_tasks == 0  # type: ignore[union-attr]
    assert disk.submit() == job + 1


def test_a_new_task_that_was_cancelled_before_it_was_sent_holds_no_slot() -> None:
    disk = Disk()
    job = disk.submit(tasks=2)
    batch = disk.foreman.take_batch(0.0)
    disk.decide(disk.reactor.control.cancel(job, [TaskNumber(1)], 0.0))
    batch, _ = disk.fail(batch)
    assert disk.reactor.workers.find("w").slots.by_tasks == 0  # type: ignore[union-attr]
    assert (batch.records, disk.reactor.jobs.find(job)) == ([], None)


def test_what_was_decided_since_is_withdrawn_too() -> None:
    disk = Disk()
    disk.submit(token="first")
    batch = disk.foreman.take_batch(0.0)
    disk.submit(token="second")
    batch, refused = disk.fail(batch)
    assert (batch.records, refused) == ([], ["first", "second"])
    assert not disk.foreman.has_work


def test_nothing_begins_until_the_store_is_ready() -> None:
    disk = Disk()
    job = disk.submit(held=True)
    disk.commit()
    disk.decide(disk.reactor.control.release(job, 0.0))
    batch, _ = disk.fail()
    assert [type(record) for record in batch.records] == [JobSet, JobSet, JobSet]  # released, running, waiting again
    assert batch.records[-1] == JobSet(job, JobState.WAITING, False, 1.0)
    assert not any(isinstance(send, Give) for send in batch.sends)
    assert not disk.foreman.has_work
    assert not disk.foreman.take_batch(1.0)
    disk.foreman.on_store_ready(2.0)
    assert disk.foreman.has_work
    assert (
        Claimed("w", (key(),), 0.0, TaskState.RUNNING) in disk.commit().records
    )  # the number of the attempt was not used up


def test_results_stay_in_the_batch() -> None:
    disk = Disk(slots=1)
    job = disk.submit(tasks=2)
    disk.commit()
    disk.decide(disk.reactor.on_results("w", [(key(), OK)], 0.0))
    batch, _ = disk.fail()
    assert [record.attempt for record in batch.records if isinstance(record, Ended)] == [key()]
    assert not any(isinstance(record, Claimed) for record in batch.records)
    assert Acknowledge("w", (key(),)) in batch.sends
    assert disk.counts(job) == Counts(waiting=1, finished=1)


def test_a_second_failure_finds_nothing_to_withdraw() -> None:
    disk = Disk()
    disk.decide([ResultsDropped(0.0), JobForgotten(JobId(9))])
    for _ in range(2):
        batch, refused = disk.fail(disk.foreman.take_batch(0.0))
        assert not refused
    new = disk.foreman.on_commit_failed(batch, 1.0)
    assert not new


def test_tasks_that_cannot_be_kept_are_taken_from_their_job() -> None:
    disk = Disk(slots=3)
    job = disk.submit(tasks=0, is_open=True, has_lines=True)
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(1), (b"a",), 0.0))
    disk.commit()
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(2), (b"b", b"c"), 0.0))
    disk.decide([Reply("adder", None, takes_work=True)])
    batch, refused = disk.fail()
    assert (batch.records, refused) == ([], ["adder"])
    assert disk.counts(job) == Counts(running=1)
    disk.foreman.on_store_ready(2.0)
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(2), (b"b", b"c"), 0.0))
    assert TasksAdded(job, TaskNumber(2), (b"b", b"c"), 0.0) in disk.commit().records
    assert disk.counts(job) == Counts(running=3)


def test_what_happened_to_withdrawn_tasks_is_withdrawn_too() -> None:
    """Their worker died and people cancelled some, while the store was at work."""
    disk = Disk(slots=2)
    job = disk.submit(tasks=1, is_open=True, has_lines=True)
    disk.commit()
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(2), (b"b", b"c", b"d"), 0.0))
    new = disk.submit(tasks=1)
    batch = disk.foreman.take_batch(0.0)
    disk.decide(disk.reactor.control.cancel(job, (TaskNumber(1), TaskNumber(3)), 0.0))
    disk.decide(disk.reactor.control.cancel(job, (TaskNumber(4),), 0.0))
    disk.decide(disk.reactor.on_gone("w", 0.0))
    batch, _ = disk.fail(batch)
    assert [record.attempt for record in batch.records if isinstance(record, Ended)] == [key(1)]
    assert not any(isinstance(record, TasksSet | Claimed | JobAdded | TasksAdded) for record in batch.records)
    assert disk.reactor.jobs.find(new) is None
    assert disk.counts(job) == Counts(cancelled=1)


def test_a_claim_that_was_lost_with_its_worker_stays_with_its_end() -> None:
    disk = Disk()
    job = disk.submit(held=True, tasks=2)
    disk.commit()
    disk.decide(disk.reactor.control.release(job, 0.0))
    batch = disk.foreman.take_batch(0.0)
    disk.decide(disk.reactor.control.cancel(job, (TaskNumber(1),), 0.0))
    batch, _ = disk.fail(batch)
    kept = Claimed("w", (key(1),), 0.0, TaskState.RUNNING)
    assert [record for record in batch.records if isinstance(record, Claimed)] == [kept]
    assert [record.attempt for record in batch.records if isinstance(record, Ended)] == [key(1)]
    gifts = [each.attempt for send in batch.sends if isinstance(send, Give) for each in send.assignments]
    assert gifts == [key(1)]  # which tells the worker's account that it is over
    for send in batch.sends:
        disk.foreman.perform(send, {}, 1.0)
    disk.reactor.check()
    assert disk.reactor.workers.find("w").slots.by_tasks == 0  # type: ignore[union-attr]
    assert disk.counts(job) == Counts(waiting=1, cancelled=1)


def test_a_cancel_of_older_tasks_stays() -> None:
    disk = Disk()
    job = disk.submit(tasks=1, is_open=True, has_lines=True, held=True)
    disk.commit()
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(2), (b"b",), 0.0))
    disk.decide(disk.reactor.control.cancel(job, (TaskNumber(1), TaskNumber(2)), 0.0))
    batch, _ = disk.fail()
    assert TasksSet(job, TaskState.CANCELLED, (TaskNumber(1),), 0.0) in batch.records
    assert disk.counts(job) == Counts(cancelled=1)


def test_a_job_that_was_cancelled_meanwhile_loses_only_its_new_tasks() -> None:
    disk = Disk()
    job = disk.submit(tasks=1, is_open=True, has_lines=True, held=True)
    disk.commit()
    disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(2), (b"b",), 0.0))
    disk.decide(disk.reactor.control.cancel(job, None, 0.0))
    batch, _ = disk.fail()
    assert TasksSet(job, TaskState.CANCELLED, None, 0.0) in batch.records
    assert not any(isinstance(record, TasksAdded) for record in batch.records)
    assert disk.reactor.jobs.find(job) is None


def test_a_job_after_one_that_failed_is_withdrawn_though_it_ended_at_once() -> None:
    disk = Disk()
    spec = JobSpec(command="true", after=(JobId(7),))
    _, effects = disk.reactor.control.submit(spec, 0.0, past={JobId(7): JobState.FAILED})
    disk.decide(effects)
    assert any(isinstance(effect, JobSet) for effect in effects)
    batch, _ = disk.fail()
    assert (batch.records, batch.sends) == ([], [])


def test_answers_about_other_things_stay() -> None:
    disk = Disk()
    answer = Reply("token", "forgotten")
    disk.decide([JobForgotten(JobId(6)), answer])
    assert disk.fail()[0].sends == [answer]


def test_lines_are_withdrawn_and_those_of_a_withdrawn_job_are_dropped() -> None:
    disk = Disk()
    disk.decide([LinesAdded(3, TaskNumber(11), ("a",)), LinesAdded(3, TaskNumber(12), ("b",))])
    batch = disk.foreman.take_batch(0.0)
    new = disk.foreman.on_commit_failed(batch, 1.0)
    assert (batch.records, new.uploads) == ([], {3: 11})
    _, effects = disk.reactor.control.submit(JobSpec(command="true", tasks=2), 0.0, upload=4)
    disk.decide(effects)
    assert disk.fail()[0].records == [LinesDropped(4)]


# Jobs that were submitted before


class Repeats(Disk):
    """A foreman whose store finds that jobs were submitted before, at another foreman."""

    def submit(self, tasks: int = 1, token: str = "", **changes: object) -> JobId:
        spec = JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]
        job, effects = self.reactor.control.submit(spec, 0.0)
        self.decide([*effects, Reply(token, Submitted(job), takes_work=True)])
        return job

    def recognise(self, earlier: dict[JobId, JobId]) -> tuple[Batch, Withdrawal | None]:
        batch = self.foreman.take_batch(0.0)
        new = self.foreman.on_submitted_before(batch, earlier, 1.0)
        self.reactor.check()
        return batch, new


def test_a_job_that_was_submitted_before_is_answered_with_the_earlier_one() -> None:
    disk = Repeats(slots=3)
    job, other = disk.submit(tasks=2, token="again"), disk.submit(token="other")
    batch, new = disk.recognise({job: JobId(77)})
    assert new is not None
    assert (new.jobs, new.earlier, new.replies) == ({job}, {job: 77}, [])
    assert [record.job for record in batch.records if isinstance(record, JobAdded)] == [other]
    claims = [each.job for record in batch.records if isinstance(record, Claimed) for each in record.attempts]
    assert claims == [other]
    answers = {send.token: send.value for send in batch.sends if isinstance(send, Reply)}
    assert answers == {"again": Submitted(JobId(77)), "other": Submitted(other)}
    assert (disk.reactor.jobs.find(job), disk.counts(other)) == (None, Counts(running=1))
    assert not disk.foreman.is_paused


def test_what_was_decided_since_about_a_repeated_job_goes_with_it() -> None:
    disk = Repeats()
    job = disk.submit(held=True)
    batch = disk.foreman.take_batch(0.0)
    disk.decide(disk.reactor.control.cancel(job, None, 0.0))
    disk.submit(token="since")
    new = disk.foreman.on_submitted_before(batch, {job: JobId(77)}, 1.0)
    assert new is not None
    assert not any(isinstance(record, TasksSet | JobSet) for record in batch.records)
    assert [send.token for send in batch.sends if isinstance(send, Reply)] == ["", "since"]


def test_lines_and_tasks_of_other_jobs_stay_beside_a_repeated_one() -> None:
    disk = Repeats(slots=1)
    opened = disk.submit(tasks=0, is_open=True, has_lines=True)
    disk.commit()
    disk.decide([LinesAdded(3, TaskNumber(1), ("a",)), LinesAdded(4, TaskNumber(1), ("b",))])
    disk.decide(disk.reactor.control.add_tasks(opened, TaskNumber(1), (b"x",), 0.0))
    job, effects = disk.reactor.control.submit(JobSpec(command="true"), 0.0, upload=4)
    disk.decide(effects)
    batch, _ = disk.recognise({job: JobId(77)})
    lines, more, tasks, dropped = batch.records[:4]
    assert [lines, more] == [LinesAdded(3, TaskNumber(1), ("a",)), LinesAdded(4, TaskNumber(1), ("b",))]
    assert (type(tasks), dropped) == (TasksAdded, LinesDropped(4))


def test_a_repeated_job_on_which_other_new_work_builds_is_not_recognised() -> None:
    """Only clients that guess numbers ask for that, and they are refused with all other new work."""
    for build in ("after", "tasks"):
        disk = Repeats()
        job = disk.submit(tasks=0, is_open=True, has_lines=True)
        if build == "after":
            disk.submit(after=(job,))
        else:
            disk.decide(disk.reactor.control.add_tasks(job, TaskNumber(1), (b"x",), 0.0))
        batch, new = disk.recognise({job: JobId(77)})
        assert new is None
        batch, refused = disk.fail(batch)
        assert (batch.records, len(refused)) == ([], 1 + (build == "after"))


def test_a_worker_that_is_gone_needs_no_account() -> None:
    disk = Disk(slots=1)
    job = disk.submit(tasks=1)
    batch = disk.foreman.take_batch(0.0)
    disk.decide(disk.reactor.on_gone("w", 0.0))
    batch, _ = disk.fail(batch)
    assert batch.records == []
    assert disk.reactor.jobs.find(job) is None


def test_what_the_store_cannot_read_is_not_given_and_ends() -> None:
    disk = Disk(slots=3)
    job = disk.submit(tasks=2, has_lines=True)
    batch = disk.foreman.take_batch(0.0)
    news = Reply("token", job)
    left = disk.foreman.fail_unreadable([*batch.sends, news], {key(1): "damaged"}, 1.0)
    gifts = [each.attempt for send in left if isinstance(send, Give) for each in send.assignments]
    assert (gifts, left[-1]) == ([key(2)], news)
    disk.reactor.check()
    (end,) = [record for record in disk.foreman.batch.records if isinstance(record, Ended)]
    assert (end.attempt, end.state, end.ending.cause) == (key(1), TaskState.FAILED, Cause.NOT_STARTED)
    assert end.ending.note == "its line or arguments cannot be read: damaged"
    assert disk.reactor.workers.find("w").slots.by_tasks == 1  # type: ignore[union-attr]
