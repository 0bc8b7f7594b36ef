"""The worker's side of a v2 conversation: which tasks hold its slots, and which results the foreman does not have yet.

It outlives links. A slot counts as taken until the result goes out, so that the foreman's copy of the account is
never ahead of the worker's own; it counts as free before the UPDATE is sent, so that a JOB right behind it fits.
"""

from collections.abc import Iterable
from itertools import islice
from math import ceil
from typing import Any, Final, assert_never

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from gandy.bounds import BROKEN, describe
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import LAST_NUMBER, MAX_BATCH, MAX_BATCH_BYTES, MAX_BATCHES_UNDER_WAY, MAX_SLOTS
from gandy.talk.events import (
    Acknowledged,
    Answered,
    ExchangeEvent,
    ExtensionReceived,
    HelloRefused,
    Kill,
    Leave,
    Overflowed,
    Recalled,
    Requested,
    Restarted,
    ResultRefused,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.talk.exchange import Exchange
from gandy.talk.law import Role, State
from gandy.talk.slots import Slots
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    RESEND_HELLO,
    About,
    Answer,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    JobDescription,
    Ok,
    Orders,
    Request,
    Status,
    Stop,
    Task,
    TaskPair,
    TaskResult,
    Update,
    pack_pair,
)

READY_PER_RESULT: Final = 2  # tasks that must be here for each result that waits; the last tasks of a job share too


class WorkerSide:
    """`connect` for each new link, `receive_data`, `end` for each task that ended; then pull `next_event` until it
    is None, and write `data_to_send`."""

    def __init__(self, slots: int, about: About | UnsetType = UNSET, **exchange_options: Any) -> None:
        if not 1 <= slots <= MAX_SLOTS:
            raise LocalProtocolError(f"a worker has 1 to {MAX_SLOTS} slots, not {slots}")
        self.slots = Slots(slots)
        self._about = about
        self._exchange_options = exchange_options
        self._exchange = self._closed_exchange()
        self._results: dict[TaskPair, TaskResult] = {}  # ended and not acknowledged, oldest first
        self._reported: Task | None = None  # what the outstanding UPDATE is about; its slot is free already
        self._batches: dict[int, dict[TaskPair, Task]] = {}  # what batches are about; their slots are free too
        self._unsent: dict[TaskPair, Raw] = {}  # results that no batch holds, packed, oldest first
        self._unsaved: list[Raw] = []  # results that `take_unsaved` has not given
        self._batch_count = 0
        self._owes_hello = False
        self._has_left = False

    def _closed_exchange(self) -> Exchange:
        exchange = Exchange(Role.WORKER, **self._exchange_options)
        exchange.close()
        return exchange

    @property
    def state(self) -> State:
        return self._exchange.state

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    @property
    def has_results(self) -> bool:
        """Whether the foreman still has to acknowledge something."""
        return bool(self._results)

    @property
    def has_unsent(self) -> bool:
        """Whether results have not been sent yet."""
        return bool(self._unsent)

    def count_room(self, ready: int) -> int:
        """How many more results may come before they all must go: while so many tasks are ready here, they can wait.

        0: now. With each result there is one task less that is ready.
        """
        spare = ready - READY_PER_RESULT * len(self._unsent)
        return max(0, ceil(spare / (READY_PER_RESULT + 1)))

    def connect(self) -> None:
        """A new link is up: tell the foreman our state."""
        for tasks in self._batches.values():
            self.slots.take(tasks.values())
        self._batches.clear()
        self._unsent = {pair: _pack(result) for pair, result in self._results.items()}
        self._exchange = Exchange(Role.WORKER, **self._exchange_options)
        self._greet()

    def disconnect(self) -> None:
        """The link is gone. Tasks go on, and results wait for the next one."""
        self._exchange.close()

    def receive_data(self, data: bytes) -> None:
        self._exchange.receive_data(data)

    def data_to_send(self, hold_results: bool = False) -> bytes:
        """What is to be written to the link now: answers, and the next request where it may go out.

        Results that are held wait for the next call without; they cost less together.
        """
        self._advance(hold_results)
        return self._exchange.data_to_send()

    def end(self, result: TaskResult) -> None:
        """A task ended.

        Raises: LocalProtocolError, for one that does not run here, or a result that cannot be sent.
        """
        pair = result.pair
        if pair not in self.slots.running or pair in self._results:
            raise LocalProtocolError(f"task {result.task} of job {result.job_id} does not run here")
        packed = _pack(result)
        self._unsent[pair] = packed
        self._unsaved.append(packed)
        self._results[pair] = result

    def inherit(self, results: Iterable[TaskResult]) -> None:
        """Report what a former worker left, as if it had ended here. Before the first link."""
        for result in results:
            assert result.report is not UNSET, "a plain foreman has no attempts, and could not tell it from another one"
            job = JobDescription(result.job_id, "", 0, "", "", "", Status.RUNNING)
            self.slots.take((Task(result.task, job, Orders(result.report.attempt)),))
            self._results[result.pair] = result

    def take_unsaved(self) -> list[Raw]:
        """The results that came since the last call, packed."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def pack_results(self) -> list[Raw]:
        """All results that are not acknowledged."""
        return [_pack(result) for result in self._results.values()]

    def reset(self) -> None:
        """Start the sequence numbers again, where that is possible now.

        Raises: LocalProtocolError, where it is not.
        """
        self._exchange.reset()

    def next_event(self) -> WorkerEvent | None:
        """What to do next; None until more bytes come or a task ends.

        Raises: RemoteProtocolError, when the foreman broke the protocol. Connect again.
        """
        while (event := self._exchange.next_event()) is not None:
            if self._has_left and not isinstance(event, ExtensionReceived):
                continue  # it has no more to do with jobs, but may stay for its calls and be asked for output
            reaction = self._react(event)
            if reaction is not None:
                return reaction
        return self._maybe_leave()

    def _react(self, event: ExchangeEvent) -> WorkerEvent | None:
        match event:
            case Requested():
                return self._on_request(event, event.message)
            case Answered(request, answer):
                return self._on_answer(request, answer)
            case Overflowed():
                self._take_back()
                return None
            case Restarted():
                self._greet()
                return event
            case ExtensionReceived():
                return self._on_extension(event)
            case _:
                assert_never(event)

    def _on_extension(self, event: ExtensionReceived) -> WorkerEvent | None:
        match event.type:
            case v2.RECORDED:
                batch = self._batches.pop(event.seq, None)
                return None if batch is None else Acknowledged(tuple(map(self._results.pop, batch)))
            case v2.RECALL:
                try:
                    return Recalled(payloads.decode_pairs(event.payload))
                except BROKEN as error:
                    raise self._exchange.fail(f"RECALL: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
            case _:
                return event

    def _on_request(self, ticket: Requested, message: Request) -> WorkerEvent | None:
        match message:
            case Job(tasks):
                return self._on_job(ticket, tasks)
            case Cancel(pairs):
                return self._on_cancel(ticket, pairs)
            case Stop() if message.is_immediate:
                self.slots.limit = 0
                self._has_left = True
                self._exchange.answer(ticket, self._account())
                return Leave(immediate=True)
            case Stop(count):
                self.slots.stop(count)
                self._exchange.answer(ticket, self._account())
                return None
            case _:
                raise AssertionError(f"no foreman may send {type(message).__name__}")

    def _on_job(self, ticket: Requested, tasks: tuple[Task, ...]) -> Start | None:
        refusal = self._find_refusal(tasks)
        if refusal is not None:
            detail = pack_pair(self.slots.free, len(self.slots.running))
            self._exchange.answer(ticket, Error(refusal, detail))
            return None
        self.slots.take(tasks)
        self._exchange.answer(ticket, self._account())
        return Start(tasks)

    def _find_refusal(self, tasks: tuple[Task, ...]) -> ErrorCode | None:
        """All or nothing: the whole JOB is refused where one task cannot start."""
        pairs = {task.pair for task in tasks}
        is_known = not (pairs.isdisjoint(self.slots.running) and pairs.isdisjoint(self._results))
        if is_known or len(pairs) < len(tasks):
            is_gandy = self._exchange.is_gandy
            return ErrorCode.ALREADY_RUNNING if is_gandy else ErrorCode.NO_PROCS
        return ErrorCode.NO_PROCS if len(tasks) > self.slots.room else None

    def _on_cancel(self, ticket: Requested, pairs: tuple[TaskPair, ...]) -> Kill | None:
        hit = tuple(pair for pair in self.slots.find(pairs) if pair not in self._results)
        self._exchange.answer(ticket, Ok(len(hit)))
        return Kill(hit) if hit else None

    def _on_answer(self, request: Request, answer: Answer) -> WorkerEvent | None:
        match request, answer:
            case Hello(), Ok():
                return self._on_welcome(request, answer)
            case Hello(), Error(code):
                return HelloRefused(code)
            case Update(told), _ if told is not None:
                self._reported = None
                result = self._results.pop(told.pair)
                del self._unsent[told.pair]
                if isinstance(answer, Error):
                    return ResultRefused(result, answer.code)
                self._owes_hello = answer == RESEND_HELLO
                return Acknowledged((result,))
            case _:
                raise AssertionError(f"a worker never asks {type(request).__name__}")

    def _on_welcome(self, hello: Hello, answer: Ok) -> Welcomed:
        if (answer.nproc, answer.nrun) != (hello.nproc, len(hello.running)):
            text = f"HELLO told {hello.nproc}|{len(hello.running)}, the answer is {answer.nproc}|{answer.nrun}"
            raise self._exchange.fail(text, ErrorCode.BAD_STATE)
        self._exchange.agree(answer.extensions & self._exchange.offers)
        # A foreman that cannot have tasks back gets no chance to give too many.
        may_wait = self._about is not UNSET and Extension.UPDATES in self._exchange.agreed
        self.slots.ahead = self._about.ahead if may_wait and self._about is not UNSET else 0
        return Welcomed(self._exchange.agreed)

    def _account(self) -> Ok:
        return Ok(self.slots.free, len(self.slots.running))

    def _greet(self) -> None:
        self._take_back()
        self._owes_hello = True

    def _take_back(self) -> None:
        """The UPDATE did not arrive, or that is not known: its task holds its slot again until the next try."""
        if self._reported is not None:
            self.slots.take((self._reported,))
            self._reported = None

    def _advance(self, hold_results: bool) -> None:
        """HELLO goes before anything else, then the oldest result."""
        if self._owes_hello:
            running = tuple(map(_slim, self.slots.running.values()))
            about = self._about if self._about is UNSET else replace(self._about, slots=self.slots.limit)
            hello = Hello(self.slots.free, running, self._exchange.offers, about)
            if self._exchange.can_request(hello):
                self._owes_hello = False
                self._exchange.request(hello)
        elif hold_results:
            pass
        elif Extension.UPDATES in self._exchange.agreed:
            self._send_batch()
        elif self._results:
            result = next(iter(self._results.values()))
            is_gandy = self._exchange.is_gandy
            update = Update(result if is_gandy else replace(result, report=UNSET))
            if self._exchange.can_request(update) and self._exchange.request(update):
                self._reported = self.slots.release(result.pair)

    def _send_batch(self) -> None:
        """All results at once, as long as not too many batches are under way: what ends meanwhile is the next one."""
        if not self._unsent or len(self._batches) >= MAX_BATCHES_UNDER_WAY or self.state is not State.OPEN:
            return
        pairs = self._choose_batch()
        self._batch_count = (self._batch_count + 1) & LAST_NUMBER
        self._batches[self._batch_count] = {pair: self.slots.running.pop(pair) for pair in pairs}
        payload = payloads.encode([self._unsent.pop(pair) for pair in pairs])
        self._exchange.send_extended(Extended(v2.RESULTS, payload), self._batch_count)

    def _choose_batch(self) -> list[TaskPair]:
        """The oldest results, as many as may go together. A single one always may."""
        size = 0
        pairs: list[TaskPair] = []
        for pair, packed in islice(self._unsent.items(), MAX_BATCH):
            size += len(packed)
            if size > MAX_BATCH_BYTES and pairs:
                break
            pairs.append(pair)
        return pairs

    def _maybe_leave(self) -> Leave | None:
        if self._has_left or not self.slots.is_done or self._results:
            return None
        self._has_left = True
        return Leave(immediate=False)


def _pack(result: TaskResult) -> Raw:
    """Raises: LocalProtocolError, for a result that cannot be sent."""
    try:
        return Raw(payloads.encode(result))
    except (UnicodeEncodeError, OverflowError) as error:
        raise LocalProtocolError(f"the result of task {result.task} cannot be sent: {error}") from None


def _slim(task: Task) -> Task:
    """A task in HELLO. A gandy foreman knows it by its attempt, so what it is to do need not be told again."""
    if task.orders is UNSET:
        return task
    job = JobDescription(task.job.job_id, task.job.name, task.job.num_tasks, "", "", "", task.job.status)
    return Task(task.number, job, Orders(task.orders.attempt))
