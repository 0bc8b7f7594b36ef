"""Clients of a crew with many foremen: each talks to any foreman, and goes on with another one when its link breaks.

What has no answer is sent again, and says so. A job has a key, so that it is never added twice.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from tests.sim.clients import JobClient, OnAnswer, Submission
from tests.sim.laws import Law, Laws, require
from tests.sim.network import End, Wire
from tests.sim.processes import Refused, Unreachable
from tests.sim.shared_clock import NoClock

from gandy.client.conversation import Happened
from gandy.core import requests as ask
from gandy.core.model import FINAL_JOB_STATES, JobSpec
from gandy.core.requests import Answer, Request
from gandy.ids import JobId
from gandy.testing.simulation import Simulation

PATIENCE: Final = 4.0  # seconds without an answer, after which a client tries another foreman


class Choice(Protocol):
    """The foremen, as a client knows them."""

    def connect(self, origin: str, end: End) -> Wire:
        """Raises: Unreachable, Refused."""


class AnyForeman:
    """Implements `clients.Gate`."""

    def __init__(self, foremen: Choice, origin: str) -> None:
        self._foremen = foremen
        self._origin = origin

    def connect(self, peer: End) -> Wire | None:
        try:
            return self._foremen.connect(self._origin, peer)
        except (Refused, Unreachable):
            return None


class CrewClient(JobClient):
    """Its submissions keep their names and keys until they are acknowledged."""

    def __init__(self, simulation: Simulation, foremen: Choice, laws: Laws, name: str) -> None:
        super().__init__(simulation, AnyForeman(foremen, name), laws, name, NoClock())
        self.waits: set[JobId] = set()  # for jobs to end
        self._heard = 0.0
        self._watched: dict[int, JobId] = {}  # by the number of the request

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting or bool(self.waits)

    def start(self) -> None:
        super().start()
        self._watch_link()

    def _watch_link(self) -> None:
        """Leave a foreman that does not answer."""
        self.call_later(PATIENCE / 4, self._watch_link)
        if self._asked and self.simulation.now - self._heard > PATIENCE:
            self.laws.seen["client gives up"] += 1
            self.cut()

    def on_data(self, data: bytes) -> None:
        self._heard = self.simulation.now
        super().on_data(data)

    def ask(self, request: Request, on_answer: OnAnswer, on_lost: Callable[[], None]) -> None:
        if not self._asked:
            self._heard = self.simulation.now
        super().ask(request, on_answer, on_lost)

    # Jobs

    def submit(self, spec: JobSpec, lines: tuple[str, ...] = (), tries: int = 0) -> None:
        name = f"{self.name}.{len(self.submissions) + 1}"
        submission = Submission(msgspec.structs.replace(spec, name=name), lines)
        self.submissions.append(submission)
        self._submit(submission, 1 + self.random.getrandbits(60), again=False)

    def _submit(self, submission: Submission, key: int, again: bool) -> None:
        state = {"is_heard": False}

        def on_answer(answer: Answer) -> None:
            state["is_heard"] = True
            if isinstance(answer, ask.Submitted):
                submission.job = answer.job
                self.laws.on_submitted(answer.job)
                self.on_submitted(submission)
                return
            assert isinstance(answer, ask.RequestFailure)
            self.laws.seen["refused job"] += 1
            if answer.retryable:
                self._try_later(lambda: self._submit(submission, key, again=True))
            else:
                submission.is_refused = not again

        def on_lost() -> None:
            if not state["is_heard"]:
                self.laws.seen["submitted again"] += 1
                self._try_later(lambda: self._submit(submission, key, again=True))

        if self.is_welcome:
            self.ask(ask.Submit(submission.spec, submission.lines, key=key, again=again), on_answer, on_lost)
        else:
            self._try_later(lambda: self._submit(submission, key, again))

    def change(self, request: Request, on_done: Callable[[], None] = lambda: None) -> None:
        """Ask again until a foreman confirms the change, or refuses it for good."""
        state = {"is_heard": False}

        def on_answer(answer: Answer) -> None:
            state["is_heard"] = True
            if isinstance(answer, ask.RequestFailure) and answer.retryable:
                self._try_later(lambda: self.change(_say_again(request), on_done))
            elif isinstance(answer, ask.RequestFailure):
                self.laws.seen["refused change"] += 1
            else:
                on_done()

        def on_lost() -> None:
            if not state["is_heard"]:
                self._try_later(lambda: self.change(_say_again(request), on_done))

        if self.is_welcome:
            self.ask(request, on_answer, on_lost)
        else:
            self._try_later(lambda: self.change(request, on_done))

    def drain(self, foreman: str) -> None:
        """Ask once: a foreman whose machine is dead can be asked for ever."""
        if self.is_welcome:
            self.ask(ask.DrainForeman(foreman), lambda _answer: None, lambda: None)

    # Waiting

    def wait(self, job: JobId) -> None:
        """Until the job is final, whatever happens to foremen."""
        if job not in self.waits:
            self.waits.add(job)
            self._wait(job)

    def _wait(self, job: JobId) -> None:
        if job not in self.waits:
            return
        if not self.is_welcome:
            self._try_later(lambda: self._wait(job))
            return
        self.ask(ask.WatchJob(job), lambda answer: self._on_watched(number, answer), lambda: self._watch_again(number))
        number = max(self._asked)
        self._watched[number] = job

    def _watch_again(self, number: int) -> None:
        job = self._watched.pop(number, None)
        if job is not None:
            self._try_later(lambda: self._wait(job))

    def on_event(self, event: Happened) -> None:
        self._on_watched(event.number, event.answer)

    def _on_watched(self, number: int, answer: Answer) -> None:
        job = self._watched.get(number)
        if job is None:
            return
        if isinstance(answer, ask.RequestFailure):
            require(answer.retryable, Law.KEPT, f"{self.name} cannot wait for job {job}: {answer.message}")
            self._watch_again(number)
        elif isinstance(answer, ask.JobFound) and answer.row.state in FINAL_JOB_STATES:
            del self._watched[number]
            self.waits.discard(job)
            self.laws.seen["waited"] += 1


def _say_again(request: Request) -> Request:
    return msgspec.structs.replace(request, again=True)
