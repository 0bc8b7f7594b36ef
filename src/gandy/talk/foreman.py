"""The foreman's side of a v2 conversation with one worker: a copy of the worker's account, and requests to it.

It takes over the worker's numbers from HELLO, and lower ones from the answer to STOP. A refusal changes the account of
a gandy worker only: a plain one may refuse because it lags behind, and still has all its processors.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, assert_never

from msgspec import UNSET

from gandy.bounds import BROKEN, describe
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import MAX_BATCH, MAX_BATCHES_UNDER_WAY, MAX_SLOTS
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
from gandy.talk.outgoing_requests import OutgoingRequests
from gandy.talk.packing import pack_tasks
from gandy.talk.slots import Slots
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    GREETING,
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
    Stop,
    Task,
    TaskPair,
    Update,
    unpack_pair,
)


class Fault(NamedTuple):
    """What is wrong with a message, as text for users and as a code for its sender."""

    text: str
    code: ErrorCode


class ForemanSide:
    """One per link. `give`, `cancel` and `stop` queue requests, which are sent as soon as the protocol allows it: call
    `next_event` until it is None, then write `data_to_send`."""

    def __init__(self, *, admits: Callable[[Hello], bool] = lambda _hello: True, **exchange_options: Any) -> None:
        """`admits` returns True if the peer's role allows this HELLO."""
        self._admits = admits
        self.find_fault: Callable[[Hello], Fault | None] = lambda _hello: None  # another reason to refuse a HELLO
        self.exchange = Exchange(Role.FOREMAN, **exchange_options)
        self.framing = self.exchange.framing
        self.slots = Slots(0)
        self.requests = OutgoingRequests()
        self._batches: set[int] = set()  # numbers of result batches that are not acknowledged

    @property
    def state(self) -> State:
        return self.exchange.state

    @property
    def free(self) -> int:
        """How many tasks may be given now. A STOP counts from when it is queued."""
        if self.framing.is_closed:
            return 0
        stops = [request.count for request in self._unanswered() if isinstance(request, Stop)]
        if STOP_ALL in stops:
            return 0
        return max(0, self.slots.room - sum(stops))

    def disconnect(self) -> tuple[Task, ...]:
        """The link is gone. Returns the tasks that were given and that the worker has certainly not started."""
        requests = [self.exchange.unsent, *self.requests]
        self.framing.close()
        self.requests.clear()
        return tuple(task for request in requests if isinstance(request, Job) for task in request.tasks)

    def receive_data(self, data: bytes) -> None:
        self.framing.receive_data(data)

    def data_to_send(self) -> bytes:
        """Return what to write to the link now: answers, and the next request if it may be sent."""
        requests = self.requests
        if requests and self.exchange.can_request(requests[0]):
            request = requests.popleft()
            if request == Stop(STOP_ALL):  # sent as a number, since the original treats STOP(0) as STOP(1)
                request = Stop(max(1, self.slots.limit))
            self.exchange.request(request)
        return self.framing.data_to_send()

    def give(self, tasks: Iterable[Task]) -> None:
        """Send these tasks to the worker; `Accepted` or `Refused` follows.

        Raises: LocalProtocolError, if there are more tasks than `free`, or the worker has one already; Unsendable.
        """
        tasks = tuple(tasks)
        packed = pack_tasks(tasks)
        self._check_tasks(tasks)
        self.slots.take(tasks)
        # The original may start some tasks of a JOB and refuse the rest; with one per JOB it is clear which.
        self.requests.add_tasks(tasks, packed, MAX_BATCH if self.framing.is_gandy else 1)

    def _check_tasks(self, tasks: tuple[Task, ...]) -> None:
        if len(tasks) > self.free:
            raise LocalProtocolError(f"{len(tasks)} tasks for {self.free} free slots")
        pairs = {task.pair for task in tasks}
        if len(pairs) < len(tasks) or not pairs.isdisjoint(self.slots.running):
            raise LocalProtocolError("a task is given twice")

    def cancel(self, pairs: Iterable[TaskPair]) -> None:
        self.requests.append(Cancel(tuple(pairs)))

    def stop(self, count: int) -> None:
        """Take processors away; their tasks end first.

        Raises: LocalProtocolError, unless the count is a valid number of processors.
        """
        if not 0 < count <= MAX_SLOTS:
            raise LocalProtocolError(f"{count} is not a number of processors")
        self.requests.append(Stop(count))

    def stop_all(self) -> None:
        """Stop the worker when its tasks have ended."""
        self.requests.append(Stop(STOP_ALL))

    def stop_immediately(self) -> None:
        """Stop the worker and all its tasks now, before anything else that is queued."""
        self.requests.appendleft(Stop(STOP_IMMEDIATELY))

    def greet(self) -> None:
        """Send OK(0), for a worker that follows v2.md to the letter and waits for it before its HELLO."""
        if self.state is State.GREETING:
            self.framing.send(1, GREETING)  # not 0, which would look like the answer to HELLO

    def acknowledge(self, report: Reported, answer: Error | None = None) -> None:
        """Confirm that results are recorded or, with an ERROR, refuse them. Call `next_event` afterwards."""
        if isinstance(report.ticket, Requested):
            # An original closes its link on any ERROR, so only a gandy worker gets one.
            is_plain = not self.framing.is_gandy
            self.exchange.answer(report.ticket, self._account() if answer is None or is_plain else answer)
        else:
            self._batches.remove(report.ticket)
            if not self.framing.is_closed:
                self.framing.send_extended(Extended(v2.RECORDED, b""), report.ticket)

    def recall(self, pairs: Iterable[TaskPair]) -> None:
        """Request tasks back that the worker has not begun; the others go on.

        Raises: LocalProtocolError, if UPDATES is not agreed on.
        """
        self.framing.send_extended(Extended(v2.RECALL, payloads.encode(tuple(pairs))))

    def next_event(self) -> ForemanEvent | None:
        """Return the next event; None until more bytes come or results are acknowledged.

        Raises: RemoteProtocolError, if the worker broke the protocol. Close the link.
        """
        while (event := self.exchange.next_event()) is not None:
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
                self.requests.put_back(request)
                return None
            case Restarted(dropped):
                if dropped is not None:
                    self.requests.put_back(dropped)
                return event
            case ExtensionReceived(seq, kind, payload) if kind == v2.RESULTS:
                return self._on_results(seq, payload)
            case ExtensionReceived():
                return event
            case _:
                assert_never(event)

    def _on_request(self, ticket: Requested, message: Request) -> ForemanEvent:
        match message:
            case Hello():
                return self._on_hello(ticket, message)
            case Update(result):
                if result is None:
                    raise self.framing.fail("UPDATE without a result", ErrorCode.BAD_PAYLOAD)
                self.slots.release(result.pair)
                return Reported((result,), ticket)
            case _:
                raise AssertionError(f"no worker may send {type(message).__name__}")

    def _on_results(self, seq: int, payload: bytes) -> Reported:
        try:
            results = payloads.decode_results(payload)
        except BROKEN as error:
            raise self.framing.fail(f"RESULTS: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
        if not results or seq in self._batches or len(self._batches) >= MAX_BATCHES_UNDER_WAY:
            raise self.framing.fail(f"batch {seq} is empty, or comes twice or too soon", ErrorCode.BAD_PAYLOAD)
        self._batches.add(seq)
        for result in results:
            self.slots.release(result.pair)
        return Reported(results, seq)

    def _on_hello(self, ticket: Requested, hello: Hello) -> Greeted:
        if not self._admits(hello):
            raise self.framing.fail("HELLO is not for the role of its sender", ErrorCode.WRONG_ROLE)
        if (fault := _find_contradiction(hello) or self.find_fault(hello)) is not None:
            raise self.framing.fail(*fault)
        # Tasks that we gave and the worker has not received yet keep their slots, whatever its HELLO lists.
        given = [task for request in self._unanswered() if isinstance(request, Job) for task in request.tasks]
        common = hello.extensions & self.framing.offers
        self.slots = _make_slots(hello, common)
        self.slots.take(given)
        self.framing.agree(common)
        self.exchange.answer(ticket, Ok(hello.nproc, len(hello.running), common))
        return Greeted(hello.nproc, hello.running, self.framing.agreed, hello.about)

    def _unanswered(self) -> list[Request]:
        outstanding = self.exchange.outstanding
        return [*self.requests] if outstanding is None else [outstanding, *self.requests]

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
        if code == ErrorCode.NO_PROCS and self.framing.is_gandy:
            self.slots.limit = min(self.slots.limit, sum(unpack_pair(detail)))
        return Refused(tasks, code)

    def _account(self) -> Ok:
        if self.state is State.GREETING:
            return RESEND_HELLO
        # After a HELLO without the tasks that we gave, more may seem to run than OK has room for.
        return Ok(self.slots.free, min(len(self.slots.running), MAX_SLOTS))


def _find_contradiction(hello: Hello) -> Fault | None:
    if hello.nproc + len(hello.running) > MAX_SLOTS:
        return Fault(f"HELLO claims more than {MAX_SLOTS} processors", ErrorCode.BAD_PAYLOAD)
    if len({task.pair for task in hello.running}) < len(hello.running):
        return Fault("HELLO lists a task twice", ErrorCode.BAD_PAYLOAD)
    return None


def _make_slots(hello: Hello, extensions: Extension) -> Slots:
    if hello.about is UNSET:
        return Slots(hello.nproc + len(hello.running), hello.running)
    return Slots(hello.about.slots, hello.running, hello.about.ahead if Extension.UPDATES in extensions else 0)
