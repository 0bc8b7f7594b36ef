"""Requests that a client sends again, because the link broke before the answer: what is done already is a success."""

import pytest
from tests.served import ServedForeman

from gandy.core import requests as ask
from gandy.core.answers import Answers
from gandy.core.intake import Submissions
from gandy.core.model import JobSpec, JobState, PythonSpec
from gandy.core.records import LinesDropped
from gandy.core.refusal import Refusal
from gandy.core.steps import DrawIdentity, Look, Step
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId, TaskNumber

KEY = 2**63 - 1
ONE = JobId(1)
TRUE = JobSpec(command="true")
OPEN = JobSpec(command="true", tasks=0, is_open=True, python=PythonSpec(shared=b"f"))


@pytest.fixture
def crew() -> ServedForeman:
    return ServedForeman()


def restart(crew: ServedForeman) -> None:
    """Another foreman has the store; all that the last one had in memory is lost, but for the jobs."""
    crew.answers = Answers(crew.foreman, crew.standing)


def count_jobs(crew: ServedForeman) -> int:
    return len(crew.ask(ask.ListJobs()).rows)


# Submit


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_job_that_is_submitted_again_is_the_same_job(crew: ServedForeman, is_restarted: bool) -> None:
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(ONE)
    if is_restarted:
        restart(crew)
    assert crew.ask(ask.Submit(TRUE, key=KEY, again=True)) == ask.Submitted(ONE)
    assert crew.ask(ask.Submit(TRUE, key=KEY - 1, again=True)) == ask.Submitted(JobId(2))
    assert count_jobs(crew) == 2
    assert [what for what, _ in crew.notes] == ["submitted", "submitted"]


def test_the_first_of_two_requests_may_be_read_last(crew: ServedForeman) -> None:
    """The client came back over another link before the foreman had read the first one to its end."""
    assert crew.ask(ask.Submit(TRUE, key=KEY, again=True)) == ask.Submitted(ONE)
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(ONE)
    assert count_jobs(crew) == 1


def test_two_requests_that_are_handled_at_the_same_time_add_one_job(crew: ServedForeman) -> None:
    def interrupt(step: Step) -> None:
        if isinstance(step, DrawIdentity):
            crew.before_step = lambda _step: None
            assert crew.ask(ask.Submit(TRUE, key=KEY, again=True)) == ask.Submitted(ONE)

    crew.before_step = interrupt
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(ONE)
    assert count_jobs(crew) == 1


def test_the_store_is_asked_about_a_key_only_if_the_request_comes_again(crew: ServedForeman) -> None:
    crew.ask(ask.Submit(TRUE, key=KEY))
    assert not any(isinstance(step, Look) for step in crew.steps)
    crew.ask(ask.Submit(TRUE, again=True))
    assert not any(isinstance(step, Look) for step in crew.steps)
    assert count_jobs(crew) == 2


def test_requests_without_a_key_are_never_the_same(crew: ServedForeman) -> None:
    assert [crew.ask(ask.Submit(TRUE)).job for _ in range(2)] == [1, 2]


def test_lines_that_come_again_for_a_known_job_are_dropped(crew: ServedForeman) -> None:
    spec = JobSpec(command="echo {line}")
    for again in (False, True):
        client = crew.connect()
        crew.ask(ask.AddLines(7, ("a", "b")), client)
        assert crew.ask(ask.Submit(spec, upload=7, key=KEY, again=again), client) == ask.Submitted(ONE)
        assert list(crew.answers.intake.on_gone(client, 100.0)) == []
    (step,) = (step for step in crew.steps if not isinstance(step, Look))
    assert any(isinstance(effect, LinesDropped) for effect in step.effects)  # type: ignore[union-attr]
    assert count_jobs(crew) == 1


def test_an_open_job_belongs_to_the_link_over_which_it_was_submitted_again(crew: ServedForeman) -> None:
    first, second = crew.connect(), crew.connect()
    crew.ask(ask.Submit(OPEN, key=KEY), first)
    crew.ask(ask.Submit(OPEN, key=KEY, again=True), second)
    intake = crew.answers.intake
    assert list(intake.on_gone(first, 100.0)) == []
    assert list(intake.on_time(200.0)) == []
    assert list(intake.on_gone(second, 200.0)) == []
    assert list(intake.on_time(300.0))


def test_a_known_job_is_found_while_the_store_takes_no_new_work(crew: ServedForeman) -> None:
    crew.ask(ask.Submit(TRUE, key=KEY))
    crew.standing.trouble = "the disk is full"
    assert crew.ask(ask.Submit(TRUE, key=KEY, again=True)) == ask.Submitted(ONE)


def test_a_job_that_the_store_could_not_keep_is_submitted_anew(crew: ServedForeman) -> None:
    crew.ask(ask.Submit(TRUE, key=KEY))
    crew.ask(ask.CancelJob(ONE))
    crew.ask(ask.ForgetJobs((ONE,)))  # now the store has no such job
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(ONE)
    new = Withdrawal()
    new.jobs.add(ONE)
    crew.answers.intake.on_withdrawal(new)
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(JobId(2))


def test_a_request_that_another_foreman_took_first_finds_its_job_from_then_on(crew: ServedForeman) -> None:
    crew.ask(ask.Submit(TRUE, key=KEY))
    crew.answers.intake.on_withdrawal(Withdrawal(jobs={ONE}, earlier={ONE: JobId(9)}))
    assert crew.ask(ask.Submit(TRUE, key=KEY)) == ask.Submitted(JobId(9))


def test_keys_in_memory_are_bounded() -> None:
    known = Submissions(most=2)
    for key in (5, 6, 7):
        known.add(key, JobId(key))
    known.add(0, JobId(8))
    assert [known.get(key) for key in (0, 5, 6, 7)] == [None, None, 6, 7]


# Changes


@pytest.mark.parametrize("kind", [ask.CancelJob, ask.HoldJob, ask.ReleaseJob])
def test_a_change_that_was_made_before_is_a_success(crew: ServedForeman, kind: type[ask.CancelJob]) -> None:
    crew.ask(ask.Submit(TRUE))
    crew.ask(ask.CancelJob(ONE))
    with pytest.raises(Refusal, match="job 1 is cancelled already"):
        crew.ask(kind(ONE))
    assert crew.ask(kind(ONE, again=True)).row.state is JobState.CANCELLED


def test_a_job_that_finished_before_it_was_cancelled_was_not_cancelled(crew: ServedForeman) -> None:
    crew.worker()
    crew.ask(ask.Submit(TRUE))
    crew.end(1)
    with pytest.raises(Refusal, match="job 1 is finished already"):
        crew.ask(ask.CancelJob(ONE, again=True))
    assert crew.ask(ask.CancelJob(ONE, (TaskNumber(1),), again=True)).row.state is JobState.FINISHED
    assert crew.ask(ask.ReleaseJob(ONE, again=True)).row.state is JobState.FINISHED


def test_a_retry_that_was_made_before_is_a_success(crew: ServedForeman) -> None:
    crew.ask(ask.Submit(TRUE))
    crew.ask(ask.CancelJob(ONE))
    crew.ask(ask.RetryJob(ONE))
    with pytest.raises(Refusal, match="nothing to retry"):
        crew.ask(ask.RetryJob(ONE))
    assert crew.ask(ask.RetryJob(ONE, again=True)).row.state is JobState.WAITING


def test_jobs_that_were_forgotten_before_are_forgotten(crew: ServedForeman) -> None:
    jobs = tuple(crew.ask(ask.Submit(TRUE)).job for _ in range(2))
    crew.ask(ask.CancelJob(ONE))
    for again in (False, True):
        kept = crew.ask(ask.ForgetJobs(jobs, again=again)).kept
        assert [each.job for each in kept] == [jobs[1]]
    assert crew.ask(ask.ForgetJobs(jobs)).kept[0].is_unknown


def test_tasks_that_were_retracted_before_are_retracted(crew: ServedForeman) -> None:
    crew.worker(slots=1)
    crew.ask(ask.Submit(JobSpec(command="true", tasks=5)))
    two, three, five = (TaskNumber(number) for number in (2, 3, 5))
    crew.ask(ask.RetractTasks(ONE, (two, five)))
    assert crew.ask(ask.RetractTasks(ONE, (two, three, five))).tasks == (three,)
    assert crew.ask(ask.RetractTasks(ONE, (five, TaskNumber(1), two), again=True)).tasks == (two, five)
    assert crew.ask(ask.RetractTasks(ONE, (TaskNumber(9),), again=True)).tasks == ()
    assert crew.ask(ask.RetractTasks(ONE, (), again=True)).tasks == ()


def test_a_worker_that_has_left_was_stopped(crew: ServedForeman) -> None:
    assert crew.ask(ask.StopWorker("w", again=True)) == ask.Done()


# A foreman with a store of its own


def test_a_single_foreman_lists_itself(crew: ServedForeman) -> None:
    crew.standing.id, crew.standing.name, crew.standing.listening = "f1", "hut", ["unix:/a"]
    crew.ask(ask.Submit(TRUE))
    row = ask.ForemanRow("f1", "hut", "1", ("unix:/a",), (), 1, 0.0, 0.0, is_here=True)
    assert crew.ask(ask.ListForemen()) == ask.ForemanList((row,))


def test_a_single_foreman_has_no_heir(crew: ServedForeman) -> None:
    with pytest.raises(Refusal, match="in a store of its own") as caught:
        crew.ask(ask.DrainForeman("f1"))
    assert caught.value.kind == "refused"
