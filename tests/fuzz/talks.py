"""Conversations with a peer that the fuzzer plays.

In `*_bytes` the peer sends the fuzzer's bytes as they are. In `*_talk` the bytes are choices: which message comes next,
with which number, and what the program around our side does meanwhile. Only `RemoteProtocolError` may come out of our
side, and what it sends must be whole frames.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from typing import Any, Final, Protocol, TypeVar

from tests.builders import a_pair, a_result, a_task, some_tasks

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.law import V1State
from gandy.doors.v1.worker import V1WorkerSide
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import LAST_NUMBER, MAX_SLOTS
from gandy.talk.events import ForemanEvent, Kill, Leave, Reported, Start, WorkerEvent
from gandy.talk.foreman import ForemanSide
from gandy.talk.worker import WorkerSide
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
    Message,
    Ok,
    Request,
    Reset,
    Stop,
    TaskPair,
    Update,
    pack_pair,
)

SLOTS: Final = 2
OFFERS: Final = (Extension.ATOMIC, Extension.NONE, Extension.ATOMIC | Extension.UPDATES | Extension.HEARTBEAT)

T = TypeVar("T")
Action = Callable[[], object]


def cut(data: bytes) -> list[bytes]:
    """The data in pieces of 1 to 40 bytes; how long each is, its own first byte tells."""
    pieces = []
    begin = 0
    while begin < len(data):
        end = begin + 1 + data[begin] % 40
        pieces.append(data[begin:end])
        begin = end
    return pieces


class Choices:
    """Bytes as decisions. When they are used up, every decision is the first option."""

    def __init__(self, data: bytes) -> None:
        self._rest = iter(data)
        self._left = len(data)

    def __bool__(self) -> bool:
        return self._left > 0

    def pick(self, options: Sequence[T]) -> T:
        self._left -= 1
        return options[next(self._rest, 0) % len(options)]


class Program(Protocol):
    """What is around our side: it does what the side says, and now and then something of its own accord."""

    @property
    def side(self) -> WorkerSide | V1WorkerSide | ForemanSide | V1ForemanSide: ...

    @property
    def is_over(self) -> bool: ...

    def work(self) -> None: ...

    def list_actions(self, choices: Choices) -> Sequence[Action]: ...

    def recover(self) -> None: ...


class WorkerProgram:
    """Connects again whenever the foreman broke the protocol, and keeps its tasks."""

    def __init__(self, side: WorkerSide | V1WorkerSide) -> None:
        self.side = side
        self.is_over = False
        self._running: list[TaskPair] = []
        side.connect()

    def work(self) -> None:
        while (event := self.side.next_event()) is not None:
            self._on_event(event)
            assert len(self._running) <= SLOTS

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case Start(tasks):
                assert not {task.pair for task in tasks} & set(self._running)
                self._running += [task.pair for task in tasks]
            case Kill(pairs):
                assert set(pairs) <= set(self._running)
            case Leave(immediate):
                assert immediate or not self._running
                self.is_over = True
            case _:
                pass

    def list_actions(self, choices: Choices) -> Sequence[Action]:
        actions: list[Action] = [self.recover]
        if self._running:
            actions += [self._end] * 3
        if isinstance(self.side, WorkerSide) and self.side.exchange.can_request(Reset()):
            actions.append(partial(self.side.exchange.request, Reset()))
        return actions

    def _end(self) -> None:
        pair = self._running.pop(0)
        self.side.end(a_result(pair.task, pair.job_id))

    def recover(self) -> None:
        self.side.disconnect()
        self.side.connect()


class ForemanProgram:
    """Gives tasks, records what comes, and hangs up on a worker that broke the protocol."""

    def __init__(self, side: ForemanSide | V1ForemanSide) -> None:
        self.side = side
        self.is_over = False
        self._reports: list[Reported] = []

    def work(self) -> None:
        while (event := self.side.next_event()) is not None:
            self._on_event(event)

    def _on_event(self, event: ForemanEvent) -> None:
        if isinstance(event, Reported):
            self._reports.append(event)

    def list_actions(self, choices: Choices) -> Sequence[Action]:
        actions: list[Action] = [self._acknowledge] if self._reports else []
        if self.side.free:
            actions.append(self._give)
        if isinstance(self.side, ForemanSide):
            actions += [self._cancel, partial(self.side.requests.append, Reset()), self.side.greet]
            if Extension.UPDATES in self.side.framing.agreed:
                actions.append(partial(self.side.recall, [a_pair()]))
        elif self.side.state not in (V1State.OPEN, V1State.REPORTING):
            return [*actions, self.work]
        return [*actions, lambda: self.side.stop(choices.pick((1, 2))), self.side.stop_all, self.side.stop_immediately]

    def _acknowledge(self) -> None:
        report = self._reports.pop(0)
        self.side.acknowledge(report, None if report.results[0].success else Error(ErrorCode.NO_SUCH_JOB))

    def _give(self) -> None:
        tasks = (task for task in map(a_task, count(1)) if task.pair not in self.side.slots.running)
        self.side.give(islice(tasks, min(self.side.free, SLOTS)))

    def _cancel(self) -> None:
        assert isinstance(self.side, ForemanSide)
        self.side.cancel([a_pair(), a_pair(2, -1)])

    def recover(self) -> None:
        self.side.disconnect()
        self.is_over = True


class Peer(Protocol):
    """The other side, as the fuzzer plays it."""

    def hear(self, data: bytes) -> None: ...

    def speak(self, choices: Choices) -> bytes: ...


class V2Peer:
    """Remembers what it must know to say the right thing, which is one of the things it may say."""

    def __init__(self) -> None:
        self._decoder = v2.V2Decoder()
        self._decoder.allow(v2.KNOWN_EXTENSIONS)
        self._asked = 0  # the number of their last request
        self._highest = -1  # of all numbers so far
        self._account = GREETING  # the answer to their HELLO
        self._batch = 0  # the number of their last batch of results

    def hear(self, data: bytes) -> None:
        self._decoder.receive_data(data)
        for seq, message in iter(self._decoder.next_message, None):
            self._on_message(seq, message)
        assert self._decoder.unread == 0

    def _on_message(self, seq: int, message: Message) -> None:
        is_answer = seq <= self._highest
        self._highest = -1 if is_answer and isinstance(message, Reset) else max(self._highest, seq)
        if isinstance(message, Request):
            self._asked = seq
        if isinstance(message, Hello):
            self._account = Ok(message.nproc, len(message.running), message.extensions)
            if seq == 0:  # a new link, or all numbers begin again
                self._highest = 0
        if isinstance(message, Extended):
            self._batch = seq

    def speak(self, choices: Choices) -> bytes:
        message = choices.pick(self._list_messages(choices))
        seq = self._choose_number(message, choices)
        is_answer = seq == self._asked
        self._highest = -1 if is_answer and isinstance(message, Reset) else max(self._highest, seq)
        return v2.encode(seq, message)

    def _choose_number(self, message: Message, choices: Choices) -> int:
        # One number more than the highest is of our parity or of theirs; two more is of the other.
        fresh = (self._highest + 1, self._highest + 2)
        proper = [self._asked] if isinstance(message, Ok | Error) else [*fresh]
        if isinstance(message, Extended):
            proper = [self._batch]
        return min(choices.pick([*proper * 8, self._asked, *fresh, 0, 1, 8, 9, LAST_NUMBER]), LAST_NUMBER)

    def _list_messages(self, choices: Choices) -> list[Message]:
        return [*self._list_answers(choices), *self._list_requests(choices), *self._list_extended(choices)]

    def _list_answers(self, choices: Choices) -> list[Answer]:
        code = choices.pick((1, 2, 3, 200))
        account = Ok(self._account.nproc, self._account.nrun, choices.pick((self._account.extensions, Extension.NONE)))
        return [account, account, Ok(1, 1), GREETING, RESEND_HELLO, Error(code, pack_pair(1, 1)), Reset()]

    def _list_requests(self, choices: Choices) -> list[Request]:
        number = choices.pick((1, 2, 3))
        return [
            Hello(choices.pick((0, 1, 2, MAX_SLOTS)), some_tasks(number), choices.pick(OFFERS)),
            Hello(number, (), choices.pick(OFFERS)),
            Job((a_task(number),)),
            Job((a_task(number), a_task(number + 1))),
            Update(a_result(number, success=choices.pick((True, False)))),
            Update(None),
            Cancel((a_pair(1, number), a_pair(1, choices.pick((-1, 1))))),
            Stop(choices.pick((STOP_ALL, 1, 2, STOP_IMMEDIATELY))),
            Reset(),
        ]

    def _list_extended(self, choices: Choices) -> list[Extended]:
        results = [a_result(choices.pick((1, 2, 3))) for _ in range(choices.pick((1, 2, 0)))]
        return [
            Extended(v2.RESULTS, payloads.encode(results)),
            Extended(v2.RECORDED, b""),
            Extended(v2.RECALL, payloads.encode([a_pair()])),
            Extended(choices.pick((0x20, v2.RESULTS, v2.RECALL, 0x40)), b"\x91\xc1"),
        ]


class V1Peer:
    def __init__(self) -> None:
        self._decoder = v1.V1Decoder()
        self._told = 0  # the number in their last OK

    def hear(self, data: bytes) -> None:
        self._decoder.receive_data(data)
        for message in iter(self._decoder.next_message, None):
            if isinstance(message, Ok):
                self._told = message.nproc
        assert self._decoder.unread == 0

    def speak(self, choices: Choices) -> bytes:
        number = choices.pick((1, 2, 3))
        messages: list[v1.V1Message] = [
            Ok(self._told),
            Ok(choices.pick((0, 1, 2, MAX_SLOTS, 0xFFFF_FFFF))),
            Job((a_task(number),)),
            Update(a_result(number, success=choices.pick((True, False)))),
            Stop(choices.pick((STOP_ALL, 1, 2, STOP_IMMEDIATELY))),
            Error(number),
        ]
        return v1.encode(choices.pick(messages))


def _converse(program: Program, peer: Peer, pieces: Iterable[bytes]) -> None:
    peer.hear(program.side.data_to_send())
    for piece in pieces:
        try:
            program.side.receive_data(piece)
            program.work()
        except RemoteProtocolError:
            peer.hear(program.side.data_to_send())  # the last words
            program.recover()
        if program.is_over:
            return
        peer.hear(program.side.data_to_send())


def _talk(program: Program, peer: Peer, choices: Choices) -> None:
    _converse(program, peer, _take_turns(program, peer, choices))


def _take_turns(program: Program, peer: Peer, choices: Choices) -> Iterator[bytes]:
    """What the peer says; nothing where our own program acts instead."""
    while choices:
        if choices.pick((True, True, False)):
            yield peer.speak(choices)
        else:
            choices.pick(program.list_actions(choices))()
            yield b""


def fuzz_worker_bytes(data: bytes) -> None:
    _converse(WorkerProgram(WorkerSide(SLOTS, offers=OFFERS[-1])), V2Peer(), cut(data))


def fuzz_foreman_bytes(data: bytes) -> None:
    _converse(ForemanProgram(ForemanSide(offers=OFFERS[-1])), V2Peer(), cut(data))


def fuzz_v1_worker_bytes(data: bytes) -> None:
    _converse(WorkerProgram(V1WorkerSide(SLOTS)), V1Peer(), cut(data))


def fuzz_v1_foreman_bytes(data: bytes) -> None:
    _converse(ForemanProgram(V1ForemanSide()), V1Peer(), cut(data))


def fuzz_worker_talk(data: bytes) -> None:
    choices = Choices(data)
    _talk(WorkerProgram(WorkerSide(SLOTS, **_choose_options(choices))), V2Peer(), choices)


def fuzz_foreman_talk(data: bytes) -> None:
    choices = Choices(data)
    _talk(ForemanProgram(ForemanSide(**_choose_options(choices))), V2Peer(), choices)


def _choose_options(choices: Choices) -> dict[str, Any]:
    """Numbers that wear out within one run and numbers that do not, a long queue and a short one, and extensions."""
    return {
        "last_number": choices.pick((LAST_NUMBER, 9)),
        "held_limit": choices.pick((16, 1)),
        "offers": choices.pick(OFFERS),
    }


def fuzz_v1_worker_talk(data: bytes) -> None:
    _talk(WorkerProgram(V1WorkerSide(SLOTS)), V1Peer(), Choices(data))


def fuzz_v1_foreman_talk(data: bytes) -> None:
    _talk(ForemanProgram(V1ForemanSide()), V1Peer(), Choices(data))


def fuzz_results(data: bytes) -> None:
    """The payload of RESULTS, which the foreman's side opens itself."""
    hello = v2.encode(0, Hello(SLOTS, (), Extension.UPDATES))
    frame = v2.encode(1, Extended(v2.RESULTS, data))
    _converse(ForemanProgram(ForemanSide(offers=Extension.UPDATES)), V2Peer(), [hello, frame])


def fuzz_recall(data: bytes) -> None:
    """The payload of RECALL, which the worker's side opens itself."""
    welcome = v2.encode(0, Ok(SLOTS, 0, Extension.UPDATES))
    frame = v2.encode(0, Extended(v2.RECALL, data))
    _converse(WorkerProgram(WorkerSide(SLOTS, offers=Extension.UPDATES)), V2Peer(), [welcome, frame])
