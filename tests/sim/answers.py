"""What a simulated foreman answers to its clients' requests, as `foreman/clerk.py` and `foreman/intake.py` would."""

from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.sim.disk import run_sync

from gandy.core import requests as ask
from gandy.core.effects import Effect, Reply
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.links import Link
from gandy.core.model import JobSpec
from gandy.core.snapshot import make_job
from gandy.ids import JobId, TaskNumber
from gandy.talk.events import ExtensionReceived

if TYPE_CHECKING:
    from tests.sim.foreman import ForemanProgram


class Refusal(Exception):
    """A request that is answered with a failure."""

    def __init__(self, kind: str, is_retryable: bool = False) -> None:
        super().__init__(kind)
        self.answer = ask.make_failure(kind, kind, is_retryable)


class Answers:
    """One for each life of a foreman."""

    def __init__(self, program: "ForemanProgram") -> None:
        self._program = program
        self._reactor = program.foreman.reactor

    def on_message(self, link: Link, message: ExtensionReceived) -> None:
        if message.type != ask.REQUEST:
            return
        token = (link, message.seq)
        try:
            answer = self._serve(ask.decode_request(message.payload), token)
        except Refusal as refusal:
            answer = refusal.answer
        if answer is not None:
            self._program.answer(*token, answer)

    def _serve(self, request: ask.Request, token: tuple[Link, int]) -> ask.Answer | None:
        """The answer, or None where it comes behind the records that make it true. Raises: Refusal."""
        match request:
            case ask.Submit(spec, lines):
                job, effects = self._submit(spec, lines)
                self._decide([*effects, Reply(token, ask.Submitted(job), takes_work=True)])
            case ask.AddTasks(number, first, inputs):
                effects = self._add_tasks(number, first, inputs)
                self._decide([*effects, Reply(token, ask.Done(), takes_work=True)])
            case ask.CloseJob(number):
                self._decide([*self._reactor.close(number, self._program.now), Reply(token, ask.Done())])
            case ask.CancelJob() | ask.HoldJob() | ask.ReleaseJob():
                self._decide([*self._change(request), Reply(token, ask.Done())])
            case ask.RetryJob(number, tasks):
                self._retry(number, tasks, token)
            case ask.StopWorker(worker, immediate):
                self._decide(self._reactor.drain(worker, immediate))
                return ask.Done()
            case ask.GetTime():
                return ask.Time(self._get_shared())
            case _:
                raise Refusal("bad_request")
        return None

    def _decide(self, effects: list[Effect]) -> None:
        self._program.decide(effects)

    def _submit(self, spec: JobSpec, lines: tuple[str, ...]) -> tuple[JobId, list[Effect]]:
        self._refuse_in_trouble()
        has_lines = bool(lines) or spec.is_open
        spec = replace(spec, has_lines=has_lines, tasks=len(lines) or spec.tasks)
        if spec.at is not None:
            spec = self._note_clock(spec)
        missing = [job for job in spec.after if self._reactor.jobs.find(job) is None]
        past = run_sync(self._program.disk.store.find_states(missing))
        if not set(missing) <= {job for job, state in past.items() if state in FINAL_JOB_STATES}:
            raise Refusal("not_found", is_retryable=True)  # the store is about to hear that it is final
        return self._reactor.submit(spec, self._program.now, lines, past)

    def _note_clock(self, spec: JobSpec) -> JobSpec:
        shared = self._get_shared()
        program = self._program
        program.look_at_clock()
        wall = program.simulation.now + program.wall_ahead
        return replace(spec, clock_ahead=shared - wall, boot=program.boot, boot_ahead=shared - program.now)

    def _get_shared(self) -> float:
        shared = self._program.read_shared()
        if shared is None:
            raise Refusal("no_clock", is_retryable=True)
        return shared

    def _add_tasks(self, number: JobId, first: TaskNumber, inputs: tuple[bytes, ...]) -> list[Effect]:
        self._refuse_in_trouble()
        job = self._reactor.jobs.find(number)
        if job is None or not job.is_open:
            raise Refusal("closed")
        if first > job.tasks.count + 1:
            raise Refusal("bad_request")
        return self._reactor.add_tasks(number, first, inputs, self._program.now)

    def _change(self, request: ask.CancelJob | ask.HoldJob | ask.ReleaseJob) -> list[Effect]:
        self._refuse_if_stuck()
        now = self._program.now
        match request:
            case ask.CancelJob(number, tasks):
                return self._reactor.cancel(number, tasks, now)
            case ask.HoldJob(number):
                return self._reactor.hold(number, now)
            case ask.ReleaseJob(number):
                return self._reactor.release(number, now)

    def _retry(self, number: JobId, tasks: tuple[TaskNumber, ...] | None, token: tuple[Link, int]) -> None:
        """A final job is brought back from the store, as soon as that has all that was decided before."""
        self._refuse_if_stuck()
        if self._reactor.jobs.find(number) is not None:
            effects = self._reactor.retry(number, tasks, self._program.now)
            self._decide([*effects, Reply(token, ask.Done())])
            return

        def revive(is_committed: bool) -> None:
            if not is_committed:
                self._program.answer(*token, ask.make_failure("store", "it is full", retryable=True))
                return
            now = self._program.now
            found = run_sync(self._program.disk.store.load_job(number))
            effects = self._reactor.retry(number, tasks, now)
            if found is not None and self._reactor.jobs.find(number) is None:
                unfinished = {job for job in found.row.spec.after if self._reactor.jobs.find(job) is not None}
                effects = self._reactor.revive(make_job(found, unfinished, now), tasks, now)
            self._decide([*effects, Reply(token, ask.Done())])

        self._decide([Reply(revive, None)])

    def _refuse_in_trouble(self) -> None:
        if self._program.trouble:
            raise Refusal("store", is_retryable=True)

    def _refuse_if_stuck(self) -> None:
        if self._program.is_stuck:
            raise Refusal("store", is_retryable=True)
