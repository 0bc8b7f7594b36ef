"""The foreman's side of a v2 conversation with one worker: a copy of the worker's account, and what to tell it next.

It trusts the worker's numbers in HELLO, and downwards in the answer to STOP. Of a gandy worker it also trusts those
in a refusal: a plain one may refuse because it is a moment behind, and has as many processors as before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, assert_never

from msgspec import UNSET

from gandy.bounds import BROKEN, describe
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import MAX_BATCH, MAX_BATCH_BYTES, MAX_BATCHES_UNDER_WAY, MAX_SLOTS
from gandy.talk.events import (
    Accepted,
    Answered,
    ExchangeEvent,
    ExtensionReceived,
    ForemanEvent,
    Greeted,
    Overflowed,
    Refused,
    Reported,
    Requested,
    Restarted,
)
from gandy.talk.exchange import Exchange
from gandy.talk.law import Role, State
from gandy.talk.packing import pack_tasks
from gandy.talk.slots import Slots
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    RESEND_HELLO,
    STOP_ALL,
    STOP_IMMEDIATELY,
    Answer,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Ok,
    Request,
    Reset,
    Stop,
    Task,
    TaskPair,
    Update,
    unpack_pair,
)


class Fault(NamedTuple):
    """What is wrong with a message, for people, and the code that its sender is told."""

    text: str
    code: ErrorCode


class ForemanSide:
    """One for each link. `give`, `cancel` and `stop` queue what goes out as soon as the protocol lets it: pull
    `next_event` until it is None, then write `data_to_send`."""

    def __init__(self, *, admits: Callable[[Hello], bool] = lambda _hello: True, **exchange_options: Any) -> None:
        """`admits`: whether this peer may be what its HELLO says."""
        self._admits = admits
        self.find_fault: Callable[[Hello], Fault | None] = lambda _hello: None  # why a HELLO is refused all the same
        self._exchange = Exchange(Role.FOREMAN, **exchange_options)
        self.slots = Slots(0)
        self._queue: deque[Request] = deque()
        self._batches: set[int] = set()  # of results that are not acknowledged

    @property
    def state(self) -> State:
        return self._exchange.state

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    @property
    def free(self) -> int:
        """How many tasks may be given now. What a STOP takes away that is not answered yet is gone already."""
        if self.state is State.CLOSED:
            return 0
        stops = [request.count for request in self._unanswered() if isinstance(request, Stop)]
        if STOP_ALL in stops:
            return 0
        return max(0, self.slots.room - sum(stops))

    def disconnect(self) -> tuple[Task, ...]:
        """The link is gone. Tasks that were given and that the worker surely never started."""
        requests = [self._exchange.unsent, *self._queue]
        self._exchange.close()
        self._queue.clear()
        return tuple(task for request in requests if isinstance(request, Job) for task in request.tasks)

    def receive_data(self, data: bytes) -> None:
        self._exchange.receive_data(data)

    def data_to_send(self) -> bytes:
        """What is to be written to the link now: answers, and the next request where it may go out."""
        self._advance()
        return self._exchange.data_to_send()

    def give(self, tasks: Iterable[Task]) -> None:
        """Have the worker start these tasks; `Accepted` or `Refused` follows.

        Raises: LocalProtocolError, when there are more tasks than `free`, or one that it has; Unsendable.
        """
        tasks = tuple(tasks)
        packed = pack_tasks(tasks)
        self._check_tasks(tasks)
        self.slots.take(tasks)
        # The original starts some of a list and refuses the rest; of one task it is clear which.
        limit = MAX_BATCH if self._exchange.is_gandy else 1
        if self._queue and isinstance(waiting := self._queue[-1], Job) and len(waiting.tasks) < limit:
            self._queue.pop()
            tasks, packed = waiting.tasks + tasks, waiting.packed + packed
        self._queue.extend(Job(tasks[batch], packed[batch]) for batch in _make_batches(packed, limit))

    def _check_tasks(self, tasks: tuple[Task, ...]) -> None:
        if len(tasks) > self.free:
            raise LocalProtocolError(f"{len(tasks)} tasks for {self.free} free slots")
        pairs = {task.pair for task in tasks}
        if len(pairs) < len(tasks) or not pairs.isdisjoint(self.slots.running):
            raise LocalProtocolError("a task is given twice")

    def cancel(self, pairs: Iterable[TaskPair]) -> None:
        self._queue.append(Cancel(tuple(pairs)))

    def stop(self, count: int) -> None:
        """Take processors away; running tasks end first.

        Raises: LocalProtocolError, unless the count is a number of processors.
        """
        if not 0 < count <= MAX_SLOTS:
            raise LocalProtocolError(f"{count} is not a number of processors")
        self._queue.append(Stop(count))

    def stop_all(self) -> None:
        """Stop the worker when its tasks have ended."""
        self._queue.append(Stop(STOP_ALL))

    def stop_immediately(self) -> None:
        """Stop the worker and all its tasks now, before anything else that is queued."""
        self._queue.appendleft(Stop(STOP_IMMEDIATELY))

    def reset(self) -> None:
        """Start the sequence numbers again when it is our turn."""
        self._queue.append(Reset())

    def greet(self) -> None:
        """Speak first, for a worker that follows v2.md to the letter and waits for OK(0) before its HELLO."""
        if self.state is State.GREETING:
            self._exchange.greet()

    def acknowledge(self, report: Reported, answer: Error | None = None) -> None:
        """The results are recorded, or, with an ERROR, not wanted. Pull `next_event` afterwards."""
        if isinstance(report.ticket, Requested):
            # Any ERROR would end an original's link, so only a gandy worker hears one.
            is_plain = not self._exchange.is_gandy
            self._exchange.answer(report.ticket, self._account() if answer is None or is_plain else answer)
        else:
            self._settle_batch(report.ticket)

    def recall(self, pairs: Iterable[TaskPair]) -> None:
        """Have tasks back that the worker has not begun; those that it has go on.

        Raises: LocalProtocolError, where UPDATES is not agreed on.
        """
        self._exchange.send_extended(Extended(v2.RECALL, payloads.encode(tuple(pairs))))

    def next_event(self) -> ForemanEvent | None:
        """What happened; None until more bytes come or something is acknowledged.

        Raises: RemoteProtocolError, when the worker broke the protocol. Close the link.
        """
        while (event := self._exchange.next_event()) is not None:
            reaction = self._react(event)
            if reaction is not None:
                return reaction
        return None

    def _react(self, event: ExchangeEvent) -> ForemanEvent | None:
        match event:
            case Requested():
                return self._on_request(event, event.message)
            case Answered(request, answer):
                return self._on_answer(event, request, answer)
            case Overflowed(request):
                self._put_back(request)
                return None
            case Restarted(dropped):
                if dropped is not None:
                    self._put_back(dropped)
                return event
            case ExtensionReceived(seq, kind, payload) if kind == v2.RESULTS:
                return self._on_results(seq, payload)
            case ExtensionReceived():
                return event
            case _:
                assert_never(event)

    def _put_back(self, request: Request) -> None:
        """To the head of the queue, but never before an immediate STOP."""
        first = self._queue[0] if self._queue else None
        self._queue.insert(1 if isinstance(first, Stop) and first.is_immediate else 0, request)

    def _on_request(self, ticket: Requested, message: Request) -> ForemanEvent:
        match message:
            case Hello():
                return self._on_hello(ticket, message)
            case Update(result):
                if result is None:
                    raise self._exchange.fail("UPDATE without a result", ErrorCode.BAD_PAYLOAD)
                self.slots.release(result.pair)
                return Reported((result,), ticket)
            case _:
                raise AssertionError(f"no worker may send {type(message).__name__}")

    def _on_results(self, seq: int, payload: bytes) -> Reported:
        try:
            results = payloads.decode_results(payload)
        except BROKEN as error:
            raise self._exchange.fail(f"RESULTS: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
        if not results or seq in self._batches or len(self._batches) >= MAX_BATCHES_UNDER_WAY:
            raise self._exchange.fail(f"batch {seq} is empty, or comes twice or too soon", ErrorCode.BAD_PAYLOAD)
        self._batches.add(seq)
        for result in results:
            self.slots.release(result.pair)
        return Reported(results, seq)

    def _settle_batch(self, seq: int) -> None:
        self._batches.remove(seq)
        if self.state is not State.CLOSED:
            self._exchange.send_extended(Extended(v2.RECORDED, b""), seq)

    def _on_hello(self, ticket: Requested, hello: Hello) -> Greeted:
        if not self._admits(hello):
            raise self._exchange.fail("HELLO is not for the role of its sender", ErrorCode.WRONG_ROLE)
        if hello.nproc + len(hello.running) > MAX_SLOTS:
            raise self._exchange.fail(f"HELLO claims more than {MAX_SLOTS} processors", ErrorCode.BAD_PAYLOAD)
        if len({task.pair for task in hello.running}) < len(hello.running):
            raise self._exchange.fail("HELLO lists a task twice", ErrorCode.BAD_PAYLOAD)
        if (fault := self.find_fault(hello)) is not None:
            raise self._exchange.fail(*fault)
        # What we gave and the worker has not seen yet keeps its slots, whatever the worker says it runs.
        given = [task for request in self._unanswered() if isinstance(request, Job) for task in request.tasks]
        self.slots = self._make_slots(hello)
        self.slots.take(given)
        common = hello.extensions & self._exchange.offers
        self._exchange.agree(common)
        self._exchange.answer(ticket, Ok(hello.nproc, len(hello.running), common))
        return Greeted(hello.nproc, hello.running, self._exchange.agreed, hello.about)

    def _make_slots(self, hello: Hello) -> Slots:
        if hello.about is UNSET:
            return Slots(hello.nproc + len(hello.running), hello.running)
        may_wait = Extension.UPDATES in hello.extensions & self._exchange.offers
        return Slots(hello.about.slots, hello.running, hello.about.ahead if may_wait else 0)

    def _unanswered(self) -> list[Request]:
        outstanding = self._exchange.outstanding
        return [*self._queue] if outstanding is None else [outstanding, *self._queue]

    def _on_answer(self, event: Answered, request: Request, answer: Answer) -> ForemanEvent:
        match request, answer:
            case Job(tasks), Error(code, detail):
                return self._on_refusal(tasks, code, detail)
            case Job(tasks), _:
                return Accepted(tasks)
            case Stop(count), Ok(nproc, nrun):
                self.slots.stop(count)
                self.slots.limit = min(self.slots.limit, nproc + nrun)
                return event
            case _:
                return event

    def _on_refusal(self, tasks: tuple[Task, ...], code: int, detail: int) -> Refused:
        for task in tasks:
            self.slots.release(task.pair)
        if code == ErrorCode.NO_PROCS and self._exchange.is_gandy:
            self.slots.limit = min(self.slots.limit, sum(unpack_pair(detail)))
        return Refused(tasks, code)

    def _account(self) -> Ok:
        if self.state is State.GREETING:
            return RESEND_HELLO
        # After a HELLO that ignores what we gave, more may seem to run than OK has room for.
        return Ok(self.slots.free, min(len(self.slots.running), MAX_SLOTS))

    def _advance(self) -> None:
        if self._queue and self._exchange.can_request(self._queue[0]):
            request = self._queue.popleft()
            if request == Stop(STOP_ALL):  # as a number: the original takes STOP(0) for STOP(1)
                request = Stop(max(1, self.slots.limit))
            self._exchange.request(request)


def _make_batches(packed: Sequence[bytes], limit: int) -> Iterator[slice]:
    """Which tasks share a JOB."""
    begin = size = 0
    for place, part in enumerate(packed):
        if place > begin and (place - begin == limit or size + len(part) > MAX_BATCH_BYTES):
            yield slice(begin, place)
            begin, size = place, 0
        size += len(part)
    if packed:
        yield slice(begin, len(packed))
