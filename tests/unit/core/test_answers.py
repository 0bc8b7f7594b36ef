"""What each role may ask, what each request does, and what is refused: without sockets, on a store in memory."""

import pytest
from msgspec.structs import replace
from tests.served import BAD, IDENTITY, ServedForeman
from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core.extensions import FOREMAN_OFFERS, RETRACT, Retraction, decode_retraction, encode
from gandy.core.model import AttemptKey, Cause, Counts, Ending, JobSpec, JobState, PythonSpec, TaskState
from gandy.core.records import LinesDropped
from gandy.core.refusal import Refusal
from gandy.core.roles import CrewRole
from gandy.core.rows import JobRow
from gandy.core.steps import AskShards, Commit, Forward, Look, ManageCrew, Question, Step
from gandy.core.withdrawal import Withdrawal
from gandy.errors import RemoteProtocolError, StoreError, StoreFull
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall
from gandy.store.memory import MemoryStore
from gandy.wire.messages import Extension

ONE = JobId(1)


@pytest.fixture
def crew() -> ServedForeman:
    return ServedForeman()


def submit(crew: ServedForeman, tasks: int = 1, **changes: object) -> JobId:
    spec = JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]
    answer = crew.ask(ask.Submit(spec))
    assert isinstance(answer, ask.Submitted)
    return answer.job


def refused(crew: ServedForeman, request: ask.Request, role: CrewRole = CrewRole.CLIENT) -> Refusal:
    with pytest.raises(Refusal) as caught:
        crew.ask(request, crew.connect(role=role))
    return caught.value


# Who may ask


def test_an_observer_changes_nothing_and_its_attempt_is_noted(crew: ServedForeman) -> None:
    submit(crew)
    error = refused(crew, ask.CancelJob(ONE), CrewRole.OBSERVER)
    assert (error.kind, "gandy invite --client" in str(error)) == ("not_allowed", True)
    assert crew.notes[-1] == ("refused", {"why": "CancelJob is not for the role observer"})
    assert crew.ask(ask.ShowJob(ONE), crew.connect("o", CrewRole.OBSERVER)).row.state is JobState.WAITING


def test_only_the_owner_has_keys(crew: ServedForeman) -> None:
    assert refused(crew, ask.ListKeys()).kind == "not_allowed"
    owner = crew.connect("owner", CrewRole.OWNER)
    assert crew.ask(ask.RevokeKey("a"), owner) == ask.RevokeKey("a")
    assert crew.ask(ask.ListKeys(), owner) == ask.KeyList(())


def test_nonsense_is_not_a_request(crew: ServedForeman) -> None:
    with pytest.raises(RemoteProtocolError):
        next(crew.answers.answer(b"nonsense", crew.connect(), 1))


# New work


def test_a_job_is_acknowledged_behind_its_record(crew: ServedForeman) -> None:
    job = submit(crew, tasks=3)
    row = crew.ask(ask.ShowJob(job)).row
    assert (row.spec.tasks, row.spec.identity, row.counts) == (3, IDENTITY, Counts(waiting=3))
    assert crew.notes == [("submitted", {"job": 1, "name": "", "tasks": 3})]


@pytest.mark.parametrize(
    ("trouble", "kind"), [(StoreError("it is locked"), "store"), (StoreFull("the disk is full"), "full")]
)
def test_no_new_work_is_taken_while_the_store_has_trouble(crew: ServedForeman, trouble: StoreError, kind: str) -> None:
    crew.standing.note_trouble(trouble)
    for request in (ask.Submit(JobSpec(command="true")), ask.AddLines(1, ("a",)), ask.AddTasks(ONE, TaskNumber(1), ())):
        error = refused(crew, request)
        assert (error.kind, error.retryable) == (kind, True)
        assert str(error) == f"no new work is accepted: {trouble}"


def test_a_change_that_came_before_may_be_done_when_the_store_works_again(crew: ServedForeman) -> None:
    job = submit(crew)
    crew.standing.note_trouble(StoreError("it is away", retryable=True))
    crew.standing.is_stuck = True
    for again, text in ((False, "nothing can be changed now"), (True, "it may be done when the store works again")):
        for request in (
            ask.CancelJob(job, again=again),
            ask.RetractTasks(job, (TaskNumber(1),), again=again),
            ask.ForgetJobs((job,), again=again),
        ):
            assert str(refused(crew, request)) == f"{text}: it is away"


def test_what_does_not_fit_together_is_refused(crew: ServedForeman) -> None:
    cases = {
        "without tasks": JobSpec(command="true", is_open=True, tasks=1),
        "at least one task": JobSpec(command="true", tasks=0),
        "bytes of command": JobSpec(command="true", env={f"X{n}": "y" * 60_000 for n in range(100)}),
        "{line}": JobSpec(command='rm "{line}"'),
    }
    for text, spec in cases.items():
        assert text in str(refused(crew, ask.Submit(spec)))
    first = submit(crew, held=True)
    follows = JobSpec(command="true", is_open=True, tasks=0, after_each=(first,))
    assert "open job cannot follow" in str(refused(crew, ask.Submit(follows)))
    submit(crew, python=PythonSpec(shared=b"f"))  # whose command is only for people to read


def test_a_job_may_come_after_others_however_those_ended(crew: ServedForeman) -> None:
    crew.worker()
    first, second = submit(crew), submit(crew)
    crew.end(first)
    assert crew.ask(ask.ShowJob(submit(crew, after=(first, second)))).row.state is JobState.WAITING
    crew.end(second, ending=BAD)
    assert crew.ask(ask.ShowJob(submit(crew, after=(second,)))).row.state is JobState.CANCELLED
    assert refused(crew, ask.Submit(JobSpec(command="true", after=(JobId(99),)))).kind == "not_found"


def test_a_job_follows_others_task_by_task_also_those_that_have_left_the_memory(crew: ServedForeman) -> None:
    crew.worker()
    first = submit(crew, tasks=2)
    crew.end(first)
    crew.end(first, task=2, ending=BAD)
    second = submit(crew, tasks=2, after_each=(first,))
    assert crew.ask(ask.ShowJob(second)).row.counts == Counts(waiting=1, cancelled=1)
    text = str(refused(crew, ask.Submit(JobSpec(command="true", tasks=3, after_each=(first,)))))
    assert text == f"job {first} has 2 tasks and this one 3: jobs that follow others task by task have as many"
    here = submit(crew, tasks=5, held=True)
    assert "has 5 tasks" in str(refused(crew, ask.Submit(JobSpec(command="true", tasks=3, after_each=(here,)))))
    growing = submit(crew, tasks=0, is_open=True)
    assert crew.ask(ask.ShowJob(submit(crew, tasks=3, after_each=(growing,)))).row.counts == Counts(waiting=3)
    twice = submit(crew, tasks=5, after_each=(here, here))
    assert crew.ask(ask.ShowJob(twice)).row.spec.after_each == (here,)
    gone = ask.Submit(JobSpec(command="true", tasks=2, after_each=(JobId(99),)))
    assert refused(crew, gone).kind == "not_found"


def test_tasks_that_need_others_are_retried_after_those(crew: ServedForeman) -> None:
    crew.worker()
    first = submit(crew, tasks=1)
    crew.end(first, ending=BAD)
    second = submit(crew, after_each=(first,))
    third = submit(crew, tasks=1, after_each=(second,))
    crew.ask(ask.ForgetJobs((third,)))
    for request in (ask.RetryJob(second), ask.RetryJob(second, (TaskNumber(1),))):
        text = str(refused(crew, request))
        assert text == f"tasks that those of job {second} need have not finished: retry those of job {first} first"
    crew.worker("x")
    crew.ask(ask.RetryJob(first))
    crew.ask(ask.RetryJob(second))
    assert crew.ask(ask.ExplainJob(second)).lines[1:] == (
        f"1 of its tasks waits for the task with the same number in job {first}.",
    )
    for job in (first, second):
        attempt = crew.foreman.reactor.current_attempt(JobId(job), TaskNumber(1)).attempt
        crew.end(job, attempt=attempt, worker="x-1")
    assert crew.ask(ask.ShowJob(second)).row.state is JobState.FINISHED


def test_tasks_of_a_job_in_memory_are_retried_if_the_store_says_that_they_may(crew: ServedForeman) -> None:
    crew.worker()
    first = submit(crew, tasks=2)
    crew.end(first)
    crew.end(first, task=2)
    second = submit(crew, tasks=2, after_each=(first,), held=True)
    crew.ask(ask.CancelJob(second, (TaskNumber(1),)))
    crew.ask(ask.RetryJob(second, (TaskNumber(1),)))
    assert crew.ask(ask.ShowJob(second)).row.counts == Counts(waiting=2)
    crew.ask(ask.CancelJob(second, (TaskNumber(1),)))
    crew.ask(ask.ForgetJobs((first,)))
    assert "retry those" in str(refused(crew, ask.RetryJob(second, (TaskNumber(1),))))  # it is not known how it ended


def test_the_chain_of_what_a_task_needs_is_explained(crew: ServedForeman) -> None:
    crew.worker()
    first = submit(crew, tasks=2, held=True)
    second = submit(crew, tasks=2, after_each=(first,))
    done = submit(crew, tasks=2)
    crew.end(done)
    crew.end(done, task=2)
    third = submit(crew, tasks=2, after_each=(done, second), after_any=(first,))
    lines = crew.ask(ask.ExplainJob(third, TaskNumber(2))).lines
    assert lines[1:] == (
        f"It waits for job {first} to end.",
        f"2 of its tasks wait for the task with the same number in job {done}, {second}.",
        f"Task 2 of job {third} needs task 2 of job {second}: waiting.",
        f"Task 2 of job {second} needs task 2 of job {first}: waiting.",
    )
    crew.worker("x")
    crew.ask(ask.ReleaseJob(first))
    crew.end(first, task=2, ending=BAD, worker="x-1")
    assert crew.ask(ask.ExplainJob(third)).lines[3:5] == (
        f"Task 2 of job {third} needs task 2 of job {second}: cancelled.",
        f"Task 2 of job {second} needs task 2 of job {first}: attempt 1 on x-1: exit code 1",
    )


def test_a_time_must_be_known_near_and_not_over(crew: ServedForeman) -> None:
    at = JobSpec(command="true", at=1_000.0)
    assert refused(crew, ask.Submit(at)).kind == "no_clock"
    for crew.shared, text in ((1_002.0, "2.0 s ago"), (-1e9, "ten years")):
        assert text in str(refused(crew, ask.Submit(at)))
    crew.shared, crew.foreman.reactor.clocks.wall_ahead = 900.0, 5_000.0
    spec = crew.ask(ask.ShowJob(crew.ask(ask.Submit(at)).job)).row.spec
    assert (spec.boot_ahead, spec.clock_ahead) == (800.0, 900.0 - 5_100.0)
    assert crew.ask(ask.GetTime()) == ask.Time(900.0)


def test_what_a_slow_store_takes_does_not_move_the_shared_clock(crew: ServedForeman) -> None:
    crew.worker()
    first = submit(crew)
    crew.end(first)
    crew.shared = 900.0

    def pass_time(step: Step) -> None:
        if isinstance(step, Commit | Look):
            crew.now += 20.0

    crew.before_step = pass_time
    job = crew.ask(ask.Submit(JobSpec(command="true", at=1_000.0, after=(first,)))).job
    assert crew.ask(ask.ShowJob(job)).row.spec.boot_ahead == 800.0
    assert crew.foreman.reactor.clocks.shared_ahead == 800.0


def test_lines_may_come_in_parts_before_their_job(crew: ServedForeman) -> None:
    client = crew.connect()
    for lines in (("a", "b"), ("c",)):
        assert crew.ask(ask.AddLines(7, lines), client) == ask.Done()
    job = crew.ask(ask.Submit(JobSpec(command="echo {line}"), upload=7), client).job
    assert crew.ask(ask.ShowJob(job)).row.spec.tasks == 3
    for upload in (7, 8):
        assert "no lines came" in str(refused(crew, ask.Submit(JobSpec(command="echo {line}"), upload=upload)))


def test_uploads_are_bounded(crew: ServedForeman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.intake.MAX_UPLOADS", 1)
    monkeypatch.setattr("gandy.core.intake.MAX_TASKS", 3)
    client = crew.connect()
    crew.ask(ask.AddLines(1, ("a", "b")), client)
    with pytest.raises(Refusal, match="at most 3 tasks"):
        crew.ask(ask.AddLines(1, ("c", "d")), client)
    with pytest.raises(Refusal, match="only 1 jobs"):
        crew.ask(ask.AddLines(2, ("c",)), client)
    intake = crew.answers.intake
    assert [type(effect) for effect in intake.on_gone(client, 100.0)] == [LinesDropped]


def test_lines_that_the_store_could_not_keep_can_be_sent_again(crew: ServedForeman) -> None:
    client, other = crew.connect(), crew.connect("other")
    crew.ask(ask.AddLines(1, ("a", "b")), client)
    crew.ask(ask.AddLines(1, ("x",)), other)
    new = Withdrawal()
    new.uploads[1] = TaskNumber(2)
    new.jobs.add(JobId(5))
    crew.answers.intake.on_withdrawal(new)
    crew.ask(ask.AddLines(1, ("b", "c")), client)
    job = crew.ask(ask.Submit(JobSpec(command="echo {line}"), upload=1), client).job
    assert crew.ask(ask.ShowJob(job)).row.spec.tasks == 3


def test_an_open_job_takes_tasks_until_it_is_closed(crew: ServedForeman, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(crew, tasks=0, is_open=True, python=PythonSpec(shared=b"f"))
    crew.ask(ask.AddTasks(job, TaskNumber(1), (b"1", b"2")))
    assert refused(crew, ask.AddTasks(job, TaskNumber(9), (b"9",))).kind == "bad_request"
    monkeypatch.setattr("gandy.core.intake.MAX_TASKS", 2)
    assert "at most 2 tasks" in str(refused(crew, ask.AddTasks(job, TaskNumber(3), (b"3",))))
    assert crew.ask(ask.CloseJob(job)) == ask.Done()
    assert refused(crew, ask.AddTasks(job, TaskNumber(3), (b"3",))).kind == "closed"


def test_open_jobs_of_a_client_that_is_gone_are_closed_after_a_while(crew: ServedForeman) -> None:
    client, intake = crew.connect(), crew.answers.intake
    spec = JobSpec(command="true", tasks=0, is_open=True, python=PythonSpec(shared=b"f"))
    jobs = [crew.ask(ask.Submit(spec), client).job for _ in range(3)]
    assert list(intake.on_gone(client, 100.0)) == []
    crew.ask(ask.AddTasks(jobs[1], TaskNumber(1), (b"x",)))  # another client goes on with this one
    crew.ask(ask.CloseJob(jobs[2]), client)
    assert list(intake.on_time(159.0)) == []
    crew.foreman.batch.add(list(intake.on_time(161.0)))
    crew.pump()
    states = [crew.ask(ask.ShowJob(job)).row.state for job in jobs]
    assert states == [JobState.FINISHED, JobState.WAITING, JobState.FINISHED]


def test_open_jobs_of_an_earlier_foreman_wait_for_their_clients(crew: ServedForeman) -> None:
    spec = JobSpec(command="true", tasks=0, is_open=True, python=PythonSpec(shared=b"f"))
    crew.ask(ask.Submit(spec))
    submit(crew)
    crew.answers.intake.on_start(100.0)
    crew.foreman.batch.add(list(crew.answers.intake.on_time(161.0)))
    crew.pump()
    assert crew.ask(ask.ShowJob(ONE)).row.state is JobState.FINISHED


def test_large_arguments_are_kept_elsewhere(crew: ServedForeman) -> None:
    put = ask.PutArguments("0f" * 16, 0, b"abc", is_last=True)
    assert (crew.ask(put), crew.kept) == (ask.Done(), [put])


# Changes


def test_jobs_are_held_released_cancelled_and_retried(crew: ServedForeman) -> None:
    job = submit(crew, tasks=2)
    changes = (ask.HoldJob(job), ask.ReleaseJob(job), ask.CancelJob(job), ask.RetryJob(job))
    states = [crew.ask(request).row.state for request in changes]
    assert states == [JobState.PAUSED, JobState.WAITING, JobState.CANCELLED, JobState.WAITING]
    assert [what for what, _ in crew.notes[1:]] == ["held", "released", "cancelled", "retried"]


def test_a_change_that_makes_no_sense_is_refused(crew: ServedForeman) -> None:
    crew.worker()
    job = submit(crew)
    assert "no task failed" in str(refused(crew, ask.RetryJob(job)))
    crew.end(job)
    assert "finished already" in str(refused(crew, ask.CancelJob(job)))
    assert "none of these tasks" in str(refused(crew, ask.RetryJob(job, (TaskNumber(1),))))
    assert refused(crew, ask.HoldJob(JobId(9))).kind == "not_found"
    crew.standing.is_stuck = True
    for request in (ask.CancelJob(job), ask.RetractTasks(job, ()), ask.ForgetJobs((job,))):
        assert refused(crew, request).kind == "store"


def test_two_clients_may_retry_a_final_job_at_the_same_moment(crew: ServedForeman) -> None:
    crew.worker()
    job = submit(crew)
    crew.end(job, ending=BAD)

    def interrupt(step: Step) -> None:
        if isinstance(step, Commit):
            crew.before_step = lambda _step: None
            crew.ask(ask.RetryJob(job))

    crew.before_step = interrupt
    with pytest.raises(Refusal, match="nothing to retry"):
        crew.ask(ask.RetryJob(job))
    assert crew.ask(ask.ShowJob(job)).row.counts.failed == 0


def test_a_job_that_was_forgotten_meanwhile_has_nothing_to_retry(crew: ServedForeman) -> None:
    crew.worker()
    job = submit(crew)
    crew.end(job, ending=BAD)

    def interrupt(step: Step) -> None:
        if isinstance(step, Commit):
            crew.before_step = lambda _step: None
            crew.ask(ask.ForgetJobs((job,)))

    crew.before_step = interrupt
    with pytest.raises(Refusal, match="nothing to retry"):
        crew.ask(ask.RetryJob(job))


def test_jobs_that_are_over_can_be_forgotten_and_others_not(crew: ServedForeman) -> None:
    crew.worker(slots=1)
    jobs = [submit(crew) for _ in range(3)]
    crew.end(jobs[0])
    answer = crew.ask(ask.ForgetJobs((jobs[0], jobs[1], JobId(9), jobs[0])))
    assert [(each.job, each.is_unknown) for each in answer.kept] == [(jobs[1], False), (JobId(9), True)]
    assert crew.notes[-1] == ("forgot", {"job": jobs[0]})
    crew.ask(ask.CancelJob(jobs[1]))
    crew.ask(ask.CancelJob(jobs[2]))
    assert crew.ask(ask.ForgetJobs((jobs[1], jobs[2]))).kept == ()
    assert crew.notes[-1] == ("forgot", {"jobs": [jobs[1], jobs[2]]})
    assert crew.ask(ask.ForgetJobs((JobId(9),))).kept[0].is_unknown


def test_tasks_that_have_not_begun_are_retracted_and_others_not(crew: ServedForeman) -> None:
    crew.worker(slots=2)
    job = submit(crew, tasks=4)
    dropped = AttemptKey(job, TaskNumber(2), 1)
    asked: list[Question] = []

    def answer(question: Question) -> bytes:
        asked.append(question)
        return encode(Retraction((dropped, AttemptKey(job, TaskNumber(4), 1))))  # the last it was not asked for

    crew.on_question = answer
    wanted = tuple(map(TaskNumber, (1, 2, 3, 3)))
    assert crew.ask(ask.RetractTasks(job, wanted)).tasks == (3, 2)
    assert [question.kind for question in asked] == [RETRACT]
    assert decode_retraction(asked[0].payload).attempts == (AttemptKey(job, TaskNumber(1), 1), dropped)
    crew.on_question = lambda _question: b"nonsense"
    assert crew.ask(ask.RetractTasks(job, (TaskNumber(1),))).tasks == ()
    crew.on_question = lambda _question: None
    assert crew.ask(ask.RetractTasks(job, (TaskNumber(1),))).tasks == ()
    crew.foreman.on_cut(crew.foreman.links.by_name["link of w"], crew.now)
    assert crew.ask(ask.RetractTasks(job, (TaskNumber(1),))).tasks == ()


def test_workers_and_the_foreman_are_stopped(crew: ServedForeman) -> None:
    assert refused(crew, ask.StopWorker("nobody")).kind == "not_found"
    crew.worker("w")
    assert crew.ask(ask.StopWorker("w")) == ask.Done()
    (row,) = crew.ask(ask.ListWorkers()).rows
    assert row.draining
    for drain in (True, False):
        assert crew.ask(ask.StopForeman(drain)) == ask.Done()
    assert (crew.stops, crew.notes[-1][0]) == ([True, False], "stopped the foreman")


# Looks


def test_jobs_tasks_attempts_and_results_are_listed(crew: ServedForeman) -> None:
    crew.worker()
    job = submit(crew, tasks=2, retries=1)
    crew.end(job, ending=BAD)
    crew.end(job, 2, Ending(cause=Cause.EXIT, exit_code=0, result=b"value"))
    crew.ask(ask.CancelJob(job, (TaskNumber(1),)))
    assert [row.job for row in crew.ask(ask.ListJobs()).rows] == [job]
    assert crew.ask(ask.ListJobs(states=(JobState.PAUSED,))).rows == ()
    assert [row.task for row in crew.ask(ask.ListTasks(job, (TaskState.FINISHED,))).rows] == [2]
    assert [row.attempt for row in crew.ask(ask.ListAttempts(job, TaskNumber(1))).rows] == [1]
    results = crew.ask(ask.ListResults(job))
    assert [(row.task, row.cause, row.result) for row in results.rows] == [
        (1, Cause.EXIT, b""),
        (2, Cause.EXIT, b"value"),
    ]
    assert refused(crew, ask.ListAttempts(job, TaskNumber(3))).kind == "not_found"


def test_a_task_that_was_cancelled_before_it_began_has_a_result(crew: ServedForeman) -> None:
    job = submit(crew)
    crew.ask(ask.CancelJob(job))
    (row,) = crew.ask(ask.ListResults(job)).rows
    assert (row.state, row.cause) == (TaskState.CANCELLED, Cause.CANCELLED)


def test_a_job_can_be_followed(crew: ServedForeman) -> None:
    job = submit(crew)
    for request in (ask.WatchJob(job), ask.WatchResults(job)):
        assert crew.ask(request).row.job == job
        assert len(crew.steps) == 1
    assert refused(crew, ask.WatchJob(JobId(9))).kind == "not_found"


def test_an_explanation_says_why_something_waits_failed_or_was_cancelled(crew: ServedForeman) -> None:
    first = submit(crew)
    after = submit(crew, after=(first,))
    assert any("no worker" in line.lower() for line in crew.ask(ask.ExplainJob(first)).lines)
    crew.standing.trouble = "the disk is full"
    assert "The store has a problem: the disk is full" in crew.ask(ask.ExplainJob(first)).lines
    crew.standing.trouble = ""
    crew.worker()
    crew.end(first, ending=BAD)
    lines = crew.ask(ask.ExplainJob(after)).lines
    assert f"It was to run after job {first}, which is failed." in lines
    assert any("exit code 1" in line for line in crew.ask(ask.ExplainJob(first)).lines)
    assert crew.ask(ask.ExplainJob(first, TaskNumber(1))).lines[0].startswith("Job 1 is failed")
    crew.ask(ask.ForgetJobs((first,)))
    assert f"It was to run after job {first}, which is forgotten." in crew.ask(ask.ExplainJob(after)).lines


def test_the_status_counts_what_there_is(crew: ServedForeman) -> None:
    crew.worker(slots=2)
    submit(crew, tasks=5)
    crew.standing.listening, crew.standing.insecure_doors = ["unix:x", "plain://y"], ["plain://y"]
    status = crew.ask(ask.GetStatus())
    assert (status.uptime_seconds, status.workers, status.slots, status.used) == (60.0, 1, 2, 2)
    assert (status.jobs, status.waiting, status.assigned, status.running) == (1, 3, 2, 0)
    assert (status.insecure, status.insecure_doors) == (True, ("plain://y",))
    assert status.versions == ("1",)


def test_status_names_the_versions_of_those_that_are_here(crew: ServedForeman) -> None:
    crew.worker("a", version="2")
    link = crew.worker("b", version="3")
    assert crew.ask(ask.GetStatus()).versions == ("1", "2", "3")
    crew.foreman.on_cut(link, crew.now)
    assert crew.ask(ask.GetStatus()).versions == ("1", "2")


def test_workers_are_listed_page_by_page(crew: ServedForeman) -> None:
    for name in ("b", "a"):
        crew.worker(name)
    rows = crew.ask(ask.ListWorkers()).rows
    assert [(row.id, row.slots, row.connected) for row in rows] == [("a-1", 2, True), ("b-1", 2, True)]
    assert [row.id for row in crew.ask(ask.ListWorkers("a-1")).rows] == ["b-1"]


def test_a_job_that_cannot_be_read_is_explained_and_left_alone(
    crew: ServedForeman, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(crew)
    find = crew.store.find_job

    async def find_damaged(number: JobId) -> JobRow:
        row = await find(number)
        assert row is not None
        return replace(row, problem="damaged")

    monkeypatch.setattr(crew.store, "find_job", find_damaged)
    assert any("set aside: damaged" in line for line in crew.ask(ask.ExplainJob(job)).lines)
    crew.foreman.reactor.jobs.remove(crew.foreman.reactor.jobs.find(job))  # type: ignore[arg-type]
    after = ask.Submit(JobSpec(command="true", after=(job,)))
    for request in (ask.CancelJob(job), ask.WatchJob(job), after):
        assert "cannot be read" in str(refused(crew, request))


def test_trouble_with_the_store_reaches_the_client(crew: ServedForeman) -> None:
    job = submit(crew)
    crew.full = "the disk is full"
    with pytest.raises(StoreError, match="full"):
        crew.ask(ask.HoldJob(job))


def test_a_request_that_no_part_knows_is_refused(crew: ServedForeman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.looking.ask.GetTime", type("Other", (), {"__match_args__": ()}))
    assert "cannot GetTime" in str(refused(crew, ask.decode_request(ask.encode(TIME))))


TIME = ask.GetTime()


def test_a_spec_that_cannot_be_read_again_is_refused(crew: ServedForeman, monkeypatch: pytest.MonkeyPatch) -> None:
    other = JobSpec(command="false")
    monkeypatch.setattr("gandy.core.intake.msgspec.json.decode", lambda _kept, **_type: other)
    assert "could not be read again" in str(refused(crew, ask.Submit(JobSpec(command="true"))))


# Shards


class SharedStore(MemoryStore):
    """A store that foremen share: job 7 belongs to another shard, and the next job is 50."""

    async def find_shard(self, job: JobId) -> int | None:
        return 2 if job == 7 else None if job > 60 else 1

    async def draw_number(self) -> JobId:
        return JobId(50)


@pytest.fixture
def shard() -> ServedForeman:
    crew = ServedForeman()
    crew.store = SharedStore()
    run_sync(crew.store.open())
    crew.foreman.shard = 1
    return crew


@pytest.mark.parametrize(
    "request_",
    [
        ask.CancelJob(JobId(7)),
        ask.ExplainJob(JobId(7)),
        ask.WatchJob(JobId(7)),
        ask.AddTasks(JobId(7), TaskNumber(1), ()),
    ],
)
def test_a_request_about_a_job_of_another_shard_goes_there(shard: ServedForeman, request_: ask.Request) -> None:
    assert shard.ask(request_) == request_
    assert shard.steps[-1] == Forward(2, request_)


def test_the_role_is_checked_before_a_request_goes_elsewhere(shard: ServedForeman) -> None:
    assert refused(shard, ask.CancelJob(JobId(7)), CrewRole.OBSERVER).kind == "not_allowed"


def test_a_job_of_this_shard_is_numbered_by_the_store_and_changed_here(shard: ServedForeman) -> None:
    job = submit(shard)
    assert job == 50
    assert shard.ask(ask.HoldJob(job)).row.held
    assert not any(isinstance(step, Forward) for step in shard.steps)
    assert refused(shard, ask.CancelJob(JobId(99))).kind == "not_found"


def test_a_final_job_of_this_shard_is_found_in_the_store(shard: ServedForeman) -> None:
    job = submit(shard)
    shard.ask(ask.CancelJob(job))
    assert shard.ask(ask.RetryJob(job)).row.state is JobState.WAITING


def test_workers_and_status_are_those_of_the_whole_crew(shard: ServedForeman) -> None:
    shard.worker(slots=3, extensions=FOREMAN_OFFERS | Extension.SHARDS)
    submit(shard)
    own = shard.ask(ask.ListWorkers(is_local=True))
    status = shard.ask(ask.GetStatus(is_local=True))
    shard.other_shards = [own, status]
    assert shard.ask(ask.ListWorkers()).rows[0].used == 2 * own.rows[0].used == 2
    assert shard.ask(ask.GetStatus()).jobs == 2 * status.jobs == 2
    shard.foreman.reactor.on_capacity("w-1", 1, 0, "")
    assert shard.ask(ask.ListWorkers(is_local=True)).rows[0].slots == 3
    shard.foreman.reactor.on_capacity("w-1", 1, 0, "files")
    assert shard.ask(ask.ListWorkers(is_local=True)).rows[0].slots == 1


def test_links_of_keys_are_those_of_the_whole_crew(shard: ServedForeman) -> None:
    owner = shard.connect("owner", CrewRole.OWNER)
    row = ask.KeyRow("1", "anna", "client", "good", Wall(0.0), None, "invitation", 1)
    shard.keys = ask.KeyList((row,))
    shard.other_shards = [ask.KeyList((row,)), ask.Done()]
    assert shard.ask(ask.ListKeys(), owner).rows[0].links == 2
    assert shard.steps[-1] == AskShards(ask.ListKeys(is_local=True))
    assert shard.ask(ask.ListKeys(is_local=True), owner).rows[0].links == 1


def test_requests_about_foremen_are_for_the_program_around(shard: ServedForeman) -> None:
    for request in (ask.ListForemen(), ask.DrainForeman("a")):
        assert shard.ask(request) == request
        assert shard.steps == [ManageCrew(request)]
