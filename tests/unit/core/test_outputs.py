"""Output of tasks is read from the workers that keep it: whole, or refused as missing."""

import pytest
from msgspec.structs import replace
from tests.served import OK, ServedForeman

from gandy.core import requests as ask
from gandy.core.extensions import (
    FOREMAN_OFFERS,
    READ,
    READ_MANY,
    Piece,
    Pieces,
    encode,
    make_problem,
)
from gandy.core.model import MISSING, Cause, Ending, JobSpec
from gandy.core.refusal import Refusal
from gandy.core.rows import TaskRow
from gandy.core.steps import Question
from gandy.ids import JobId, TaskNumber
from gandy.wire.messages import Extension

ONE, FIRST = JobId(1), TaskNumber(1)


class Kept(ServedForeman):
    """One worker, whose answers to questions are given in `pieces`."""

    def __init__(self, tasks: int = 1, extensions: Extension = FOREMAN_OFFERS) -> None:
        super().__init__()
        self.link = self.worker(slots=8, extensions=extensions)
        self.ask(ask.Submit(JobSpec(command="true", tasks=tasks)))
        self.asked: list[Question] = []
        self.pieces: list[bytes | None] = []
        self.on_question = self._answer

    def _answer(self, question: Question) -> bytes | None:
        self.asked.append(question)
        return self.pieces.pop(0)

    def read(self, stream: str = "out", offset: int = 0, task: int = 1, attempt: int = 0) -> ask.Output:
        request = ask.ReadOutput(ONE, TaskNumber(task), stream, attempt, offset)
        answer = super().ask(request)
        assert isinstance(answer, ask.Output)
        return answer

    def fail(self, stream: str = "out") -> str:
        with pytest.raises(Refusal) as caught:
            self.read(stream)
        return str(caught.value)

    def leave(self) -> None:
        self.foreman.on_cut(self.link, self.now)


def wrote(out: int = 0, err: int = 0, tail: bytes = b"", cause: Cause = Cause.EXIT, note: str = "") -> Ending:
    return Ending(cause=cause, exit_code=0, out_bytes=out, err_bytes=err, tail=tail, note=note)


def test_output_of_a_task_that_runs_is_never_the_last() -> None:
    crew = Kept()
    crew.pieces = [encode(Piece(b"abc", is_last=True))]
    assert crew.read() == ask.Output(b"abc", 1, is_last=False)
    (question,) = crew.asked
    assert (question.link, question.kind) == (crew.link, READ)


def test_output_of_a_task_that_never_began_is_empty() -> None:
    crew = Kept()
    assert crew.read(attempt=7) == ask.Output(b"", 0, is_last=False)
    crew.ask(ask.Submit(JobSpec(command="true", held=True)))
    crew.ask(ask.CancelJob(JobId(2)))
    answer = crew.ask(ask.ReadOutput(JobId(2), FIRST))
    assert answer == ask.Output(b"", 0, is_last=True)


def test_the_last_piece_is_where_the_task_stopped_writing() -> None:
    crew = Kept()
    crew.end(1, ending=wrote(out=5))
    for data, is_last in ((b"abc", False), (b"abcde", True)):
        crew.pieces = [encode(Piece(data, is_last=True))]
        assert crew.read() == ask.Output(data, 1, is_last=is_last)
    crew.pieces = [encode(Piece(b"ab", is_last=False))]
    assert not crew.read().is_last
    crew.pieces = [encode(Piece(b"value", is_last=True))]
    assert crew.read("result").is_last


def test_output_that_is_not_complete_is_refused_as_missing() -> None:
    crew = Kept()
    crew.end(1, ending=wrote(out=5))
    answers = {
        "cut short: only 0 of 5": Piece(b"", is_last=True),
        "no longer kept": Piece(b"", is_last=True, is_absent=True),
        "cannot read what task 1 wrote: a bad disk": make_problem("a bad disk"),
    }
    for text, piece in answers.items():
        crew.pieces = [encode(piece)]
        assert text in crew.fail()
    for answer in (None, b"nonsense"):
        crew.pieces = [answer]
        assert "output" in crew.fail()


def test_output_that_a_worker_could_not_keep_is_refused_with_the_reason() -> None:
    crew = Kept()
    crew.end(1, ending=wrote(out=MISSING, note="its output could not be kept"))
    crew.pieces = [encode(Piece(b"", is_last=True))]
    assert crew.fail() == "task 1: its output could not be kept"


def test_output_that_was_lost_with_its_worker_is_refused_as_lost() -> None:
    crew = Kept()
    crew.foreman.batch.add(crew.foreman.reactor.control.cancel(ONE, None, crew.now))
    crew.pump()
    crew.pieces = [encode(Piece(b"", is_last=True, is_absent=True))]
    assert crew.read() == ask.Output(b"", 1, is_last=True)  # it was cancelled, and wrote nothing
    lost = Kept()
    lost.end(1, ending=wrote(cause=Cause.WORKER_LOST))
    lost.foreman.batch.add(lost.foreman.reactor.control.cancel(ONE, None, lost.now))
    lost.pump()
    lost.pieces = [encode(Piece(b"", is_last=True, is_absent=True))]
    request = ask.ReadOutput(ONE, FIRST, "out", 1)
    with pytest.raises(Refusal, match="lost with its worker"):
        lost.ask(request)


def test_a_worker_that_is_away_keeps_its_output_but_for_a_short_standard_error() -> None:
    crew = Kept()
    crew.leave()
    assert crew.read() == ask.Output(b"", 1, is_last=False)  # it may come back
    crew.end(1, ending=wrote(out=3, err=4, tail=b"oops"))
    assert crew.read("err", 1) == ask.Output(b"ops", 1, is_last=True)
    assert "which is not connected" in crew.fail()


def test_a_worker_that_was_started_again_has_the_output_of_its_former_life() -> None:
    crew = Kept()
    crew.end(1, ending=wrote(out=3))
    crew.leave()
    crew.foreman.reactor.on_gone("w-1", crew.now)
    again = crew.worker("w")
    crew.pieces = [encode(Piece(b"abc", is_last=True))]
    assert crew.read().data == b"abc"
    assert crew.asked[-1].link is again


def test_a_plain_worker_cannot_send_output() -> None:
    crew = Kept(extensions=FOREMAN_OFFERS & ~Extension.OUTPUT)
    assert "cannot send it" in crew.fail()


def read_page(crew: Kept, after: int = 0, stream: str = "out") -> ask.OutputPage:
    answer = crew.ask(ask.ReadOutputs(ONE, stream, TaskNumber(after)))
    assert isinstance(answer, ask.OutputPage)
    return answer


def test_a_page_has_what_many_tasks_wrote() -> None:
    crew = Kept(tasks=4)
    for task, ending in ((1, wrote(out=1)), (2, OK), (3, wrote(out=2))):
        crew.end(1, task, ending)
    pieces = (Piece(b"a", is_last=True), Piece(b"bc", is_last=True), Piece(b"so far", is_last=True))
    crew.pieces = [encode(Pieces(pieces))]
    page = read_page(crew)
    assert [(each.task, each.data, each.is_whole) for each in page.rows] == [
        (1, b"a", True),
        (3, b"bc", True),
        (4, b"so far", False),
    ]
    assert (page.after, page.is_last) == (4, True)
    (question,) = crew.asked
    assert question.kind == READ_MANY


def test_a_page_ends_where_a_worker_had_no_room_and_says_what_is_missing() -> None:
    crew = Kept(tasks=3)
    for task in (1, 2, 3):
        crew.end(1, task, wrote(out=1))
    crew.pieces = [encode(Pieces((make_problem("a bad disk"), Piece(b"b", is_last=True))))]
    page = read_page(crew)
    assert [(each.task, each.data, bool(each.problem)) for each in page.rows] == [(1, b"", True), (2, b"b", False)]
    assert (page.after, page.is_last) == (2, False)
    for answer in (None, b"nonsense", encode(Pieces(()))):
        crew.pieces = [answer]
        assert ["does not send" in each.problem for each in read_page(crew).rows] == [True] * 3


def test_a_page_says_which_workers_are_away() -> None:
    crew = Kept(tasks=1)
    crew.end(1, ending=wrote(out=1))
    crew.leave()
    (output,) = read_page(crew).rows
    assert "not connected" in output.problem
    assert read_page(crew, after=1) == ask.OutputPage((), TaskNumber(1), is_last=True)
    assert read_page(crew, stream="err").rows == ()


def test_so_many_workers_are_asked_for_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.outputs.MAX_PAGE_WORKERS", 1)
    crew = Kept(tasks=1)
    crew.worker("v", slots=8)
    crew.ask(ask.Submit(JobSpec(command="true", tasks=2)))
    workers = {row.worker for row in crew.ask(ask.ListTasks(JobId(2))).rows}
    assert len(workers) == 2
    crew.pieces = [encode(Pieces((Piece(b"a", is_last=True),)))]
    page = crew.ask(ask.ReadOutputs(JobId(2)))
    assert ([row.task for row in page.rows], page.after, page.is_last) == ([1], 1, False)


def test_tasks_that_never_began_take_no_place_in_a_page() -> None:
    crew = Kept(tasks=1)
    crew.ask(ask.Submit(JobSpec(command="true", held=True)))
    assert crew.ask(ask.ReadOutputs(JobId(2))) == ask.OutputPage((), FIRST, is_last=True)


def test_an_attempt_without_an_ending_is_taken_as_its_worker_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Kept()
    crew.end(1, ending=wrote(out=9))
    list_attempts = crew.store.list_attempts

    async def without_endings(job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return [replace(row, ending=None) for row in await list_attempts(job, task, after)]

    monkeypatch.setattr(crew.store, "list_attempts", without_endings)
    crew.pieces = [encode(Piece(b"abc", is_last=True))]
    assert crew.read() == ask.Output(b"abc", 1, is_last=True)
