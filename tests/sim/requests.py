"""Serves the clients of a simulated foreman: performs the steps that the real `core.answers` asks for.

It decides nothing, like `foreman/requests.py`, which it stands for. What a request waits for is lost with the
foreman's life, and with the client's link.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core.answers import Answers
from gandy.core.effects import Reply
from gandy.core.extensions import RETRACTED
from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.core.steps import Ask, Commit, CompareClocks, Decide, DrawIdentity, Look, Note, Question, Step, Steps
from gandy.core.withdrawal import Withdrawal
from gandy.errors import StoreError
from gandy.talk.events import ExtensionReceived

if TYPE_CHECKING:
    from tests.sim.foreman import ForemanProgram

Error = Refusal | StoreError
Resume = Callable[[Any, Error | None], None]  # what a step returned, or why it could not be done


class ClientRequests:
    """One for each life of a foreman."""

    def __init__(self, program: "ForemanProgram") -> None:
        self._program = program
        self._answers = Answers(program.foreman, program.standing)
        self._questions = WorkerQuestions(program)
        self._jobs = 0

    def on_start(self) -> None:
        self._answers.intake.on_start(self._program.now)

    def on_message(self, link: Link, message: ExtensionReceived) -> None:
        if message.type == RETRACTED:
            self._questions.on_answer(link, message.seq, message.payload)
        elif message.type == ask.REQUEST:
            self._go_on(
                self._answers.answer(message.payload, link, (link, message.seq)), (link, message.seq), None, None
            )

    def on_withdrawal(self, new: Withdrawal) -> None:
        self._answers.intake.on_withdrawal(new)

    def on_gone(self, link: Link) -> None:
        self._questions.on_gone(link)
        self._program.decide(list(self._answers.intake.on_gone(link, self._program.now)))

    def on_time(self) -> None:
        now = self._program.standing.now = self._program.now
        self._program.decide(list(self._answers.intake.on_time(now)))

    def _go_on(self, steps: Steps[ask.Answer | None], token: tuple[Link, int], value: Any, error: Error | None) -> None:
        """Perform steps until there is an answer, or until one of them must wait."""
        is_waiting = False

        def resume(value: Any, error: Error | None) -> None:
            if token[0].name in self._program.foreman.links.by_name:
                self._go_on(steps, token, value, error)
            else:
                steps.close()

        while not is_waiting:
            self._program.standing.now = self._program.now
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                self._answer(token, stop.value)
                return
            except Refusal as refusal:
                self._answer(token, ask.make_failure(refusal.kind, str(refusal), refusal.retryable))
                return
            except StoreError as store_error:
                self._answer(token, ask.make_failure("store", str(store_error), store_error.retryable))
                return
            value, error = None, None
            try:
                is_waiting = self._begin(step, resume)
                value = None if is_waiting else self._perform(step)
            except Refusal as refusal:
                error = refusal

    def _answer(self, token: tuple[Link, int], answer: ask.Answer | None) -> None:
        if answer is not None:
            self._program.answer(*token, answer)

    def _begin(self, step: Step, resume: Resume) -> bool:
        """True for a step that takes time: it resumes the request."""
        match step:
            case Commit(effects):
                self._program.decide([*effects, Reply(lambda error: resume(None, error), None)])
            case Ask(questions, seconds):
                self._questions.ask(questions, seconds, resume)
            case _:
                return False
        return True

    def _perform(self, step: Step) -> Any:
        """What the step gives. Raises: Refusal."""
        match step:
            case Look(read):
                return run_sync(read(self._program.disk.store))  # type: ignore[arg-type]  # a coroutine, not any awaitable
            case Decide(effects):
                self._program.decide(effects)
            case CompareClocks():
                return self._compare_clocks()
            case DrawIdentity():
                self._jobs += 1
                return self._jobs
            case Note():
                pass
            case _:
                raise NotImplementedError(f"no simulated client asks for {step}")
        return None

    def _compare_clocks(self) -> float:
        shared = self._program.read_shared()
        if shared is None:
            raise Refusal("no_clock", "the shared time is not known", retryable=True)
        return shared - self._program.now


class WorkerQuestions:
    """Questions to workers, as in `foreman/questions.py`."""

    def __init__(self, program: "ForemanProgram") -> None:
        self._program = program
        self._count = 0
        self._waiting: dict[tuple[Link, int], Callable[[bytes | None], None]] = {}

    def ask(self, questions: tuple[Question, ...], seconds: float, resume: Resume) -> None:
        """Resume with the payload of each answer; None if there is none in time, or if the worker's link breaks."""
        answers: dict[int, bytes | None] = {}

        def note(place: int, answer: bytes | None) -> None:
            answers[place] = answer
            finish()

        def finish() -> None:
            if len(answers) == len(questions):
                resume([answers[place] for place in range(len(questions))], None)

        for place, question in enumerate(questions):
            self._count += 1
            key = (question.link, self._count)
            self._waiting[key] = lambda answer, place=place: note(place, answer)  # type: ignore[misc]
            self._program.foreman.links.send(question.link, question.kind, question.payload, self._count)
            self._program.call_later(seconds, lambda key=key: self._end(key, None))  # type: ignore[misc]
        self._program.foreman.links.flush()
        if not questions:
            finish()

    def on_answer(self, link: Link, number: int, payload: bytes) -> None:
        self._end((link, number), payload)

    def on_gone(self, link: Link) -> None:
        for key in [key for key in self._waiting if key[0] is link]:
            self._end(key, None)

    def _end(self, key: tuple[Link, int], answer: bytes | None) -> None:
        note = self._waiting.pop(key, None)
        if note is not None:
            note(answer)
            self._program.pump()
