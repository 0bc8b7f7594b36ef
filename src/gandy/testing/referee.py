"""Watches a v2 link and knows the law, but neither side's code: what it sees on the wire is all it judges by."""

from gandy.errors import ErrorCode
from gandy.talk.law import Role
from gandy.wire.messages import Cancel, Error, Extended, Hello, Job, Message, Ok, Request, Reset, Stop, Update
from gandy.wire.v2 import KNOWN_EXTENSIONS, V2Decoder


class BrokenLaw(AssertionError):
    """A side did what the protocol forbids."""


class _Watched:
    """One side, as far as it can be seen from outside."""

    def __init__(self) -> None:
        self.last_seen = -1  # the greatest number it has sent or received
        self.outstanding: tuple[int, Request] | None = None
        self.to_answer: dict[int, Request] = {}  # arrived at this side and not answered by it
        self.reset_sent: int | None = None
        self.reset_received: int | None = None
        self.has_greeted = False


def _settles(message: Request, owed: Request) -> bool:
    """Whether a request says again what a RESET dropped; a JOB may come back with more tasks in it."""
    if isinstance(message, Job) and isinstance(owed, Job):
        return all(task in message.tasks for task in owed.tasks)
    return message == owed


def _open_decoder() -> V2Decoder:
    """One that takes every extension: whether it was agreed on is for the sides to know."""
    decoder = V2Decoder()
    decoder.allow(KNOWN_EXTENSIONS)
    return decoder


class Referee:
    """Raises `BrokenLaw` at the first message that should not have been sent."""

    def __init__(self) -> None:
        self._sent = {role: _open_decoder() for role in Role}
        self._delivered = {role: _open_decoder() for role in Role}
        self._sides = {role: _Watched() for role in Role}
        self.owed: list[Request] = []  # dropped by a RESET and not sent again yet
        self.resets = 0

    def on_sent(self, sender: Role, data: bytes) -> None:
        decoder = self._sent[sender]
        decoder.receive_data(data)
        while (numbered := decoder.next_message()) is not None:
            self._on_sent(sender, *numbered)

    def on_delivered(self, sender: Role, data: bytes) -> None:
        decoder = self._delivered[sender]
        decoder.receive_data(data)
        while (numbered := decoder.next_message()) is not None:
            self._on_delivered(sender.other, *numbered)

    def _on_sent(self, sender: Role, seq: int, message: Message) -> None:
        match message:
            case Extended():
                pass
            case Hello() | Job() | Update() | Cancel() | Stop():
                self._check_request(sender, seq, message)
            case Reset() if seq % 2 == sender.parity:
                self._check_request(sender, seq, message)
                self._sides[sender].reset_sent = seq
            case Ok() | Error() | Reset():
                self._check_answer(sender, seq, message)

    def _check_request(self, sender: Role, seq: int, message: Request) -> None:
        side = self._sides[sender]
        self._require(seq % 2 == sender.parity, f"{sender} sent request {seq} of the wrong parity")
        self._require(seq > side.last_seen, f"{sender} sent request {seq} after {side.last_seen}")
        self._require(side.outstanding is None, f"{sender} sent {message} while {side.outstanding} is outstanding")
        self._require(side.reset_sent is None, f"{sender} sent {message} after its RESET")
        self._require(side.reset_received is None, f"{sender} sent {message} after a RESET came")
        if not (isinstance(message, Stop) and message.is_immediate):
            self._require(not side.to_answer, f"{sender} sent {message} before it answered {side.to_answer}")
        self._check_greeting(sender, seq, message)
        self.owed = [owed for owed in self.owed if not _settles(message, owed)]
        side.last_seen = seq
        side.outstanding = (seq, message)

    def _check_greeting(self, sender: Role, seq: int, message: Request) -> None:
        side = self._sides[sender]
        if sender is Role.WORKER and not side.has_greeted:
            self._require(isinstance(message, Hello) and seq == 0, f"the first request is {message}, number {seq}")
            side.has_greeted = True
        self._require(side.has_greeted, f"the foreman sent {message} before it heard HELLO")

    def _check_answer(self, sender: Role, seq: int, message: Message) -> None:
        side = self._sides[sender]
        request = side.to_answer.pop(seq, None)
        self._require(request is not None, f"{sender} sent {message} to {seq}, which is not open")
        if message != Error(ErrorCode.OVERFLOW):
            self._check_turn(sender, seq, request)
        side.last_seen = max(side.last_seen, seq)
        if isinstance(message, Reset):
            self._require(isinstance(request, Reset), f"RESET answers {request}")
            self._require(not side.to_answer, f"{sender} answered RESET before {side.to_answer}")
            self._restart(sender, seq)

    def _check_turn(self, sender: Role, seq: int, request: Request | None) -> None:
        """While a side waits, only lower requests are answered, and what cannot wait."""
        outstanding = self._sides[sender].outstanding
        if isinstance(request, Hello) or (isinstance(request, Stop) and request.is_immediate):
            return
        self._require(
            outstanding is None or seq < outstanding[0] or isinstance(request, Reset),
            f"{sender} answered {seq} while it waits for {outstanding}",
        )

    def _on_delivered(self, receiver: Role, seq: int, message: Message) -> None:
        side = self._sides[receiver]
        match message:
            case Extended():
                pass
            case Ok() | Error() | Reset() if seq % 2 == receiver.parity:
                self._require(
                    side.outstanding is not None and side.outstanding[0] == seq,
                    f"{receiver} got {message} to {seq}, but waits for {side.outstanding}",
                )
                side.outstanding = None
                if isinstance(message, Reset):
                    self._restart(receiver, seq)
            case Reset():
                side.last_seen = max(side.last_seen, seq)
                if side.reset_sent is None or seq < side.reset_sent:
                    side.to_answer[seq] = message
                    side.reset_received = seq
            case Hello() | Job() | Update() | Cancel() | Stop():
                side.last_seen = max(side.last_seen, seq)
                side.has_greeted = side.has_greeted or isinstance(message, Hello)
                if side.reset_sent is None or seq < side.reset_sent:
                    side.to_answer[seq] = message
            case _:
                raise BrokenLaw(f"{receiver} got {message}, which answers nothing")

    def _restart(self, role: Role, reset: int) -> None:
        """A side begins again; what it asked after the RESET was dropped."""
        outstanding = self._sides[role].outstanding
        if outstanding is not None:
            seq, message = outstanding
            self._require(seq > reset, f"{role} began again although {message} is not answered")
            if not isinstance(message, Reset):
                self.owed.append(message)
        self._sides[role] = _Watched()
        self.resets += 1

    def _require(self, condition: bool, text: str) -> None:
        if not condition:
            raise BrokenLaw(text)
