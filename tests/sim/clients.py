"""Clients of a simulated crew: they submit, cancel and retry jobs, and make calls of every kind, over real links.

A client connects again when its link breaks. Requests without an answer are then lost, and the client knows it.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from tests.sim.actors import Actor
from tests.sim.laws import BrokenLaw, Law, Laws, require
from tests.sim.network import End, LinkEnd, Wire
from tests.sim.serving import STREAMED
from tests.sim.shared_clock import Clock

from gandy.client.conversation import Conversation, ForemanReady, Happened, Replied
from gandy.core import requests as ask
from gandy.core.model import JobSpec
from gandy.errors import GandyError
from gandy.ids import JobId, TaskNumber
from gandy.testing.simulation import Simulation
from gandy.wire import calls
from gandy.wire.calls import AT, CAST, DIRECT, FAILED, FRAME_COST, LAST, MORE, REFUSED, STREAM, WHOLE

RETRY_PAUSE: Final = 0.4  # seconds until a request is made again that could not be served now
NOT_BEGUN: Final = (calls.UNKNOWN, calls.BUSY, calls.EXPIRED, calls.NO_CLOCK)  # codes that promise it
ENDINGS: Final = {
    calls.UNKNOWN: "unknown",
    calls.BUSY: "busy",
    calls.LOST: "lost",
    calls.EXPIRED: "expired",
    calls.NO_CLOCK: "no clock",
}

OnAnswer = Callable[[ask.Answer], None]


class Gate(Protocol):
    """Where a client connects."""

    def connect(self, peer: End) -> Wire | None:
        """A link; None: no foreman answers."""


class PendingCall(Struct):
    """A call that has not ended."""

    token: bytes
    command: str
    flags: int
    rest: bytes = b""  # of the arguments, that is still to be sent
    value: bytes = b""  # of a stream, so far


class Client(Actor):
    """Keeps a link, and knows which answers it waits for."""

    def __init__(self, simulation: Simulation, program: Gate, laws: Laws, name: str, clock: Clock) -> None:
        super().__init__(simulation, name)
        self.laws = laws
        self.clock = clock
        self.end: LinkEnd | None = None
        self.is_welcome = False
        self.calls: dict[int, PendingCall] = {}  # that have not ended
        self._given_up: set[int] = set()  # calls that were cancelled: their end may have crossed the cancel
        self._asked: dict[int, OnAnswer] = {}
        self._lost: list[Callable[[], None]] = []  # what to do about requests without an answer
        self._last_number = 0
        self._program = program
        self._conversation: Conversation

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self._connect()

    @property
    def is_waiting(self) -> bool:
        return bool(self.calls or self._asked)

    # The link

    def _connect(self) -> None:
        end = LinkEnd(self)
        wire = self._program.connect(end)
        if wire is None:
            self.call_later(self.random.uniform(0.02, 0.2), self._connect)
            return
        end.wire = wire
        self.end = end
        self._conversation = Conversation(on_call=self._on_frame)
        self._flush()

    def cut(self) -> None:
        if self.end is not None:
            self.end.wire.abort(by_foreman=False)

    def on_link_cut(self) -> None:
        self.is_welcome = False
        self.laws.seen["call without a link"] += len(self.calls)
        self.calls.clear()
        self._given_up.clear()
        self._asked.clear()
        lost, self._lost = self._lost, []
        for on_lost in lost:
            on_lost()
        self.call_later(self.random.uniform(0.01, 0.2), self._connect)

    def on_data(self, data: bytes) -> None:
        try:
            if not self._conversation.receive_data(data):
                self._pull()
        except GandyError as error:
            raise BrokenLaw(Law.PROTOCOL, f"the foreman is refused by {self.name}: {error}") from error
        self._flush()

    def _pull(self) -> None:
        while (event := self._conversation.next_event()) is not None:
            match event:
                case ForemanReady():
                    self.is_welcome = True
                case Replied(number, answer):
                    require(number in self._asked, Law.ANSWERED, f"request {number} of {self.name} is answered again")
                    self._asked.pop(number)(answer)
                case Happened():
                    self.on_event(event)

    def on_event(self, event: Happened) -> None:
        """An event came that a request asked for."""

    def _flush(self) -> None:
        self._write(self._conversation.data_to_send())

    def _write(self, data: bytes) -> None:
        if self.end is not None:
            self.end.wire.write_up(data)

    # Requests

    def ask(self, request: ask.Request, on_answer: OnAnswer, on_lost: Callable[[], None]) -> None:
        """`on_lost`: the link broke before the answer."""
        self._asked[self._conversation.ask(request)] = on_answer
        self._lost.append(on_lost)
        self._flush()

    # Calls

    def call(
        self,
        command: str,
        *,
        is_cast: bool = False,
        worker: str = "",
        in_seconds: float | None = None,
        left_ms: int = 0,
        is_large: bool = False,
    ) -> int:
        """Gives its number."""
        token = self.laws.make_token(command)
        number = self._last_number = self._last_number + 1
        target = calls.encode_target(command, worker)
        flags = (CAST if is_cast else 0) | (DIRECT if worker else 0)
        flags |= STREAM if command == STREAMED and not is_cast else 0
        shared = self.clock.read() if in_seconds is not None else None
        if in_seconds is not None and shared is not None:
            flags |= AT
            target += calls.encode_time(shared + in_seconds)
        body = msgspec.msgpack.encode([b"60:me", token] if command != "job" else [token])
        call = PendingCall(token, command, flags)
        if is_large and len(body) > 1:
            flags |= MORE
            body, call.rest = body[:1], body[1:]
            self.call_later(self.random.uniform(0.0, 0.05), lambda: self._send_rest(number, call))
        if not is_cast or is_large:
            self.calls[number] = call
        self._write(calls.encode(calls.CALL, flags, number, left_ms, target + body))
        return number

    def _send_rest(self, number: int, call: PendingCall) -> None:
        if self.calls.get(number) is not call:
            return
        piece, call.rest = call.rest[:4], call.rest[4:]
        self._write(calls.encode(calls.BODY, 0 if call.rest else LAST, number, 0, piece))
        if call.rest:
            self.call_later(self.random.uniform(0.0, 0.02), lambda: self._send_rest(number, call))
        elif call.flags & CAST:
            del self.calls[number]
            self._given_up.add(number)  # its refusal may be on its way

    def give_up(self, number: int) -> None:
        if self.calls.pop(number, None) is not None:
            self._given_up.add(number)
            self.laws.seen["cancelled call"] += 1
            self._write(calls.encode(calls.CANCEL, 0, number))

    def _on_frame(self, kind: int, flags: int, number: int, _padding: int, payload: bytes) -> None:
        if kind == calls.CREDIT:
            return
        call = self.calls.get(number)
        if call is None:
            require(number in self._given_up, Law.ANSWERED, f"{self.name} gets a second end of call {number}")
            if flags & LAST:
                self._given_up.remove(number)
            return
        if not flags & LAST:
            call.value += msgspec.msgpack.decode(payload)
            self._write(calls.encode(calls.CREDIT, 0, number, len(payload) + FRAME_COST))
            return
        del self.calls[number]
        self._on_end(call, flags, payload)

    def _on_end(self, call: PendingCall, flags: int, payload: bytes) -> None:
        seen, text = self.laws.seen, f"call {call.token!r} of {call.command} got {payload[:80]!r}"
        if flags & REFUSED:
            code = calls.decode_refusal(payload)[0]
            require(code in ENDINGS, Law.ANSWERED, text)
            begun = self.laws.calls[call.token].begun
            require(code not in NOT_BEGUN or not begun, Law.BEGUN, f"{text}, and has begun")
            seen[f"call {ENDINGS[code]}"] += 1
        elif flags & FAILED:
            seen["call failed"] += 1
        elif call.flags & STREAM:
            require(set(call.value.split(b":")) - {b""} <= {call.token}, Law.ANSWERED, f"{text} in a stream")
            seen["stream"] += 1
        else:
            is_own = bool(flags & WHOLE) and msgspec.msgpack.decode(payload) == call.token
            require(is_own or bool(call.flags & CAST), Law.ANSWERED, text)
            seen["call"] += 1


class Submission(Struct):
    """A job that a client wants done, by a name of its own."""

    spec: JobSpec
    lines: tuple[str, ...] = ()
    job: JobId | None = None  # as soon as the foreman acknowledged it
    is_refused: bool = False
    is_lost: bool = False  # the link broke before the answer, so it may have been taken


class JobClient(Client):
    """A client that has jobs."""

    def __init__(self, simulation: Simulation, program: Gate, laws: Laws, name: str, clock: Clock) -> None:
        super().__init__(simulation, program, laws, name, clock)
        self.submissions: list[Submission] = []
        self._uploads = 0
        self._unheard = 0  # changes that the foreman has not confirmed

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting or self._unheard > 0

    def submit(self, spec: JobSpec, lines: tuple[str, ...] = (), tries: int = 20) -> None:
        """Submit a job, and again under another name as long as none was taken, or the answer was lost."""
        name = f"{self.name}.{len(self.submissions) + 1}"
        submission = Submission(msgspec.structs.replace(spec, name=name), lines)
        self.submissions.append(submission)
        if spec.at is not None:
            self.laws.times[name] = spec.at
        again = (lambda: self.submit(spec, lines, tries - 1)) if tries else (lambda: None)

        def on_answer(answer: ask.Answer) -> None:
            if isinstance(answer, ask.Submitted):
                submission.job = answer.job
                self.laws.on_submitted(answer.job)
                self.on_submitted(submission)
            else:
                assert isinstance(answer, ask.RequestFailure)
                submission.is_refused = True
                self.laws.seen["refused job"] += 1
                self._try_later(again)

        def on_lost() -> None:
            if submission.job is None and not submission.is_refused:
                submission.is_lost = True
                self._try_later(again)

        if not self.is_welcome:
            submission.is_refused = True
            self._try_later(again)
        elif lines and self.happens(0.5):
            self._submit_in_parts(submission, on_answer, on_lost)
        else:
            self.ask(ask.Submit(submission.spec, lines), on_answer, on_lost)

    def _submit_in_parts(self, submission: Submission, on_answer: OnAnswer, on_lost: Callable[[], None]) -> None:
        """The lines come before their job, one at a time."""
        self._uploads += 1
        upload, lines = self._uploads, list(submission.lines)

        def go_on(answer: ask.Answer) -> None:
            if not isinstance(answer, ask.Done):
                on_answer(answer)
            elif lines:
                self.ask(ask.AddLines(upload, (lines.pop(0),)), go_on, lambda: None)
            else:
                self.laws.seen["job in parts"] += 1
                self.ask(ask.Submit(submission.spec, upload=upload), on_answer, lambda: None)

        self.ask(ask.AddLines(upload, (lines.pop(0),)), go_on, on_lost)

    def on_submitted(self, submission: Submission) -> None:
        """A job of ours is safe."""

    def _try_later(self, act: Callable[[], None]) -> None:
        self._unheard += 1

        def try_now() -> None:
            self._unheard -= 1
            act()

        self.call_later(self.random.uniform(0.1, RETRY_PAUSE), try_now)

    def change(self, request: ask.Request, on_done: Callable[[], None] = lambda: None) -> None:
        """Ask again until the foreman confirms the change, or refuses it for good."""

        def on_answer(answer: ask.Answer) -> None:
            if isinstance(answer, ask.RequestFailure) and answer.retryable:
                self._try_later(lambda: self.change(request, on_done))
            elif isinstance(answer, ask.RequestFailure):
                self.laws.seen["refused change"] += 1
            else:
                on_done()

        state = {"is_heard": False}

        def hear(answer: ask.Answer) -> None:
            state["is_heard"] = True
            on_answer(answer)

        def on_lost() -> None:
            if not state["is_heard"]:
                self._try_later(lambda: self.change(request, on_done))

        if self.is_welcome:
            self.ask(request, hear, on_lost)
        else:
            self._try_later(lambda: self.change(request, on_done))

    def list_jobs(self) -> list[JobId]:
        return [submission.job for submission in self.submissions if submission.job is not None]

    def cancel(self, job: JobId, tasks: tuple[TaskNumber, ...] | None = None) -> None:
        self.laws.excused.add(job)
        self.laws.seen["cancelled job"] += 1
        self.change(ask.CancelJob(job, tasks))

    def retract(self, job: JobId, tasks: tuple[TaskNumber, ...]) -> None:
        """Cancel the tasks that have not begun."""
        self.laws.excused.add(job)

        def on_answer(answer: ask.Answer) -> None:
            if isinstance(answer, ask.Retracted):
                self.laws.on_retracted(job, answer.tasks)

        if self.is_welcome:
            self.ask(ask.RetractTasks(job, tasks), on_answer, lambda: None)

    def stop_worker(self, worker: str, immediate: bool) -> None:
        if immediate:
            self.laws.dismissed.add(worker)
        self.change(ask.StopWorker(worker, immediate))

    def retry(self, job: JobId) -> None:
        self.laws.retried.add(job)
        self.change(ask.RetryJob(job))


class OpenJob:
    """A client adds tasks to an open job, a few at a time, and adds those without an answer again."""

    def __init__(self, client: JobClient, tasks: int) -> None:
        self._client = client
        self.tasks = tasks
        self.job: JobId | None = None
        self.is_closed = False

    def begin(self) -> None:
        spec = JobSpec(command="f", tasks=0, is_open=True, retries=3, retry_pause=0.05)
        client = self._client
        before = client.on_submitted

        def on_submitted(submission: Submission) -> None:
            before(submission)
            if submission.spec.is_open and self.job is None:
                self.job = submission.job
                self._add(0)

        client.on_submitted = on_submitted  # type: ignore[method-assign]
        client.submit(spec)

    def _add(self, sure: int) -> None:
        """`sure`: how many tasks the foreman has confirmed."""
        client = self._client
        assert self.job is not None
        if sure >= self.tasks:
            client.change(ask.CloseJob(self.job), lambda: setattr(self, "is_closed", True))
            return
        first = client.random.randint(max(1, sure - 2), sure + 1)
        last = min(self.tasks, first + client.random.randint(1, 5))
        inputs = tuple(b"%d" % number for number in range(first, last + 1))
        client.change(ask.AddTasks(self.job, TaskNumber(first), inputs), lambda: self._add(max(sure, last)))
