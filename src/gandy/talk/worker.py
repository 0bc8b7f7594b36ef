"""The worker's side of a v2 conversation: which tasks hold its slots, and what it sends to the foreman about them.

It outlives links. `UnacknowledgedResults` keeps the results that the foreman has not acknowledged.
"""

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from gandy.bounds import BROKEN, describe
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import MAX_SLOTS
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
from gandy.talk.results import UnacknowledgedResults
from gandy.talk.slots import Slots
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    RESEND_HELLO,
    About,
    Answer,
    Cancel,
    Error,
    Extended,
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


class WorkerSide:
    """Call `connect` for each new link, `receive_data`, and `end` for each task that ended; then call `next_event`
    until it is None, and write `data_to_send`."""

    def __init__(self, slots: int, about: About | UnsetType = UNSET, **exchange_options: Any) -> None:
        if not 1 <= slots <= MAX_SLOTS:
            raise LocalProtocolError(f"a worker has 1 to {MAX_SLOTS} slots, not {slots}")
        self.slots = Slots(slots)
        self.results = UnacknowledgedResults(self.slots)
        self.end = self.results.add  # for each task that ended; not wrapped in a method, because it is called often
        self._about = about
        self._exchange_options = exchange_options
        self._open_exchange()
        self.framing.close()
        self._owes_hello = False
        self._has_left = False

    def _open_exchange(self) -> None:
        self.exchange = Exchange(Role.WORKER, **self._exchange_options)
        self.framing = self.exchange.framing

    @property
    def state(self) -> State:
        return self.exchange.state

    def connect(self) -> None:
        """A new link is up: send HELLO first, with our state."""
        self.results.on_link()
        self._open_exchange()
        self._greet()

    def disconnect(self) -> None:
        """The link is gone. Tasks go on, and results wait for the next one."""
        self.framing.close()

    def receive_data(self, data: bytes) -> None:
        self.framing.receive_data(data)

    def data_to_send(self, hold_results: bool = False) -> bytes:
        """Return what to write to the link now: answers, and the next request if it may be sent.

        With `hold_results`, no results are sent: later they can be sent together, which costs less.
        """
        if self._owes_hello:
            self._send_hello()
        elif hold_results:
            pass
        elif self.framing.takes_batches:
            # hot: mostly there is none
            if self.results.has_unsent and self.exchange.state is State.OPEN:
                self._send_batch()
        elif self.results.by_pair:
            self._send_update(next(iter(self.results.by_pair.values())))
        return self.framing.data_to_send()

    def _send_batch(self) -> None:
        if (batch := self.results.take_batch()) is not None:
            number, payload = batch
            self.framing.send_extended(Extended(v2.RESULTS, payload), number)

    def _send_hello(self) -> None:
        """Send HELLO, before any other request, as soon as the protocol allows it."""
        running = tuple(map(_slim, self.slots.running.values()))
        about = self._about if self._about is UNSET else replace(self._about, slots=self.slots.limit)
        hello = Hello(self.slots.free, running, self.framing.offers, about)
        if self.exchange.can_request(hello):
            self._owes_hello = False
            self.exchange.request(hello)

    def _send_update(self, result: TaskResult) -> None:
        update = Update(result if self.framing.is_gandy else replace(result, report=UNSET))
        if self.exchange.can_request(update) and self.exchange.request(update):
            self.results.on_update(result)

    def inherit(self, results: Iterable[TaskResult]) -> None:
        """Report results that a former worker left as our own. Only before the first link."""
        for result in results:
            assert result.report is not UNSET, "a plain foreman would take it for a result of this worker"
            job = JobDescription(result.job_id, "", 0, "", "", "", Status.RUNNING)
            self.slots.take((Task(result.task, job, Orders(result.report.attempt)),))
            self.results.inherit(result)

    def next_event(self) -> WorkerEvent | None:
        """Return what to do next; None until more bytes come or a task ends.

        Raises: RemoteProtocolError, if the foreman broke the protocol. Connect again.
        """
        while (event := self.exchange.next_event()) is not None:
            if self._has_left and not _concerns_one_that_left(event):
                continue
            reaction = self._react(event)
            if reaction is not None:
                return reaction
        if self._has_left or not self.slots.is_done or self.results.by_pair:
            return None
        self._has_left = True
        return Leave(immediate=False)

    def _react(self, event: ExchangeEvent) -> WorkerEvent | None:
        match event:
            case Requested(_, Job(tasks)):
                return self._on_job(event, tasks)
            case Requested(_, message):
                return self._on_request(event, message)
            case Answered(request, answer):
                return self._on_answer(request, answer)
            case Overflowed():
                self.results.take_back()
                return None
            case Restarted():
                self._greet()
                return event
            case ExtensionReceived(seq, v2.RECORDED):
                results = self.results.on_recorded(seq)
                return Acknowledged(results) if results else None
            case ExtensionReceived(_, v2.RECALL, payload):
                return self._on_recall(payload)
            case ExtensionReceived():
                return event
            case _:
                assert_never(event)

    def _on_recall(self, payload: bytes) -> Recalled:
        try:
            return Recalled(payloads.decode_pairs(payload))
        except BROKEN as error:
            raise self.framing.fail(f"RECALL: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None

    def _on_request(self, ticket: Requested, message: Request) -> WorkerEvent | None:
        match message:
            case Cancel(pairs):
                return self._on_cancel(ticket, pairs)
            case Stop() if message.is_immediate:
                self.slots.limit = 0
                self._has_left = True
                self.exchange.answer(ticket, self._account())
                return Leave(immediate=True)
            case Stop(count):
                self.slots.stop(count)
                self.exchange.answer(ticket, self._account())
                return None
            case _:
                raise AssertionError(f"no foreman may send {type(message).__name__}")

    def _on_job(self, ticket: Requested, tasks: tuple[Task, ...]) -> Start | None:
        refusal = self._find_refusal(tasks)
        if refusal is not None:
            detail = pack_pair(self.slots.free, len(self.slots.running))
            self.exchange.answer(ticket, Error(refusal, detail))
            return None
        self.slots.take(tasks)
        self.exchange.answer(ticket, self._account())
        return Start(tasks)

    def _find_refusal(self, tasks: tuple[Task, ...]) -> ErrorCode | None:
        """Find why a JOB is refused. It is refused as a whole if one task cannot start."""
        pairs = {task.pair for task in tasks}
        is_known = not (pairs.isdisjoint(self.slots.running) and pairs.isdisjoint(self.results.by_pair))
        if is_known or len(pairs) < len(tasks):
            is_gandy = self.framing.is_gandy
            return ErrorCode.ALREADY_RUNNING if is_gandy else ErrorCode.NO_PROCS
        return ErrorCode.NO_PROCS if len(tasks) > self.slots.room else None

    def _on_cancel(self, ticket: Requested, pairs: tuple[TaskPair, ...]) -> Kill | None:
        hit = tuple(pair for pair in self.slots.find(pairs) if pair not in self.results.by_pair)
        self.exchange.answer(ticket, Ok(len(hit)))
        return Kill(hit) if hit else None

    def _on_answer(self, request: Request, answer: Answer) -> WorkerEvent | None:
        match request, answer:
            case Hello(), Ok():
                return self._on_welcome(request, answer)
            case Hello(), Error(code):
                return HelloRefused(code)
            case Update(sent), _ if sent is not None:
                result = self.results.on_update_answered(sent.pair)
                if isinstance(answer, Error):
                    return ResultRefused(result, answer.code)
                self._owes_hello = answer == RESEND_HELLO
                return Acknowledged((result,))
            case _:
                raise AssertionError(f"a worker never asks {type(request).__name__}")

    def _on_welcome(self, hello: Hello, answer: Ok) -> Welcomed:
        if (answer.nproc, answer.nrun) != (hello.nproc, len(hello.running)):
            text = f"HELLO said {hello.nproc}|{len(hello.running)}, the answer is {answer.nproc}|{answer.nrun}"
            raise self.framing.fail(text, ErrorCode.BAD_STATE)
        self.framing.agree(answer.extensions & self.framing.offers)
        # Without UPDATES a foreman cannot recall tasks, so it must not send more than there are slots.
        may_wait = self._about is not UNSET and self.framing.takes_batches
        self.slots.ahead = self._about.ahead if may_wait and self._about is not UNSET else 0
        return Welcomed(self.framing.agreed)

    def _account(self) -> Ok:
        return Ok(self.slots.free, len(self.slots.running))

    def _greet(self) -> None:
        self.results.take_back()
        self._owes_hello = True


def _concerns_one_that_left(event: ExchangeEvent) -> bool:
    """A worker that left runs no more tasks, but may still have calls, and answers requests for output.

    If it must connect again meanwhile, it needs to know what the foreman agreed to.
    """
    match event:
        case ExtensionReceived() | Answered(Hello()):
            return True
        case _:
            return False


def _slim(task: Task) -> Task:
    """Shorten a task for HELLO. A gandy foreman recognises it by its attempt, so the rest is left out."""
    if task.orders is UNSET:
        return task
    job = JobDescription(task.job.job_id, task.job.name, task.job.num_tasks, "", "", "", task.job.status)
    return Task(task.number, job, Orders(task.orders.attempt))
