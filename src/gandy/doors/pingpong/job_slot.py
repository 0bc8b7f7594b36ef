"""The one slot of a ping-pong worker: the call in it, from its arguments to its result.

It collects arguments until they are complete, and keeps a result until its caller has granted credit for it. It knows
neither the states nor the messages of the dialogue.
"""

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.flow import Flow
from gandy.doors.pingpong.limits import MAX_BODY_BYTES
from gandy.doors.pingpong.wire import BROKER_WORDS, explain_unsendable
from gandy.doors.values import decode_args
from gandy.limits import MAX_QUEUED_BYTES
from gandy.wire import calls


class HeldBytes:
    """Bytes of incomplete arguments, over all workers of a door."""

    def __init__(self) -> None:
        self.total = 0


class JobCall:
    """A call that a worker will get, has, or has answered."""

    __slots__ = ("args", "flags", "flow", "is_sent", "owed")

    def __init__(self, flow: Flow, flags: int) -> None:
        self.flow = flow  # of the result
        self.flags = flags
        self.args = bytearray()  # until they are complete
        self.owed = 0  # credit for them that we have not granted yet
        self.is_sent = False  # to the worker

    @property
    def number(self) -> int:
        """The call's number at the switchboard."""
        return self.flow.number

    @property
    def has_job(self) -> bool:
        """True if the worker has the call, and has not answered it."""
        return self.is_sent and not self.flow.is_complete


class JobSlot:
    """The slot of one worker, which is `peer` at the switchboard. Methods that return bytes return a job to send."""

    def __init__(self, board: Switchboard, peer: Peer, worker: str, command: str, held: HeldBytes) -> None:
        self.peer = peer
        self.call: JobCall | None = None
        self._board = board
        self._worker = worker
        self._command = command
        self._held = held

    # From the switchboard

    def on_call(self, number: int, flags: int, payload: bytes) -> bytes | None:
        _, at = calls.read_name(payload)
        if flags & calls.DIRECT:
            _, at = calls.read_name(payload, at)
        call = self.call = JobCall(Flow(self._board, self.peer, number), flags)
        if not flags & calls.MORE:
            return self._begin(call, payload[at:])
        self._collect(call, payload[at:])
        return None

    def on_body(self, call: JobCall, flags: int, payload: bytes) -> bytes | None:
        self._collect(call, payload)
        call.owed += len(payload) + calls.FRAME_COST
        if len(call.args) > MAX_BODY_BYTES:
            self.fail("ValueError", f"a job may have {MAX_BODY_BYTES:,} bytes, and this one has more")
        elif self._held.total > MAX_QUEUED_BYTES:
            self._refuse(call.number, f"jobs that are not complete have {MAX_QUEUED_BYTES:,} bytes already")
        elif flags & calls.LAST:
            args = bytes(call.args)
            self._release(call)
            return self._begin(call, args)
        elif call.owed >= calls.WINDOW_BYTES // 2:
            owed, call.owed = call.owed, 0
            self._board.on_frame(self.peer, calls.CREDIT, 0, call.number, owed, b"")
        return None

    def _collect(self, call: JobCall, piece: bytes) -> None:
        call.args += piece
        self._held.total += len(piece)

    def _release(self, call: JobCall) -> None:
        self._held.total -= len(call.args)
        call.args.clear()

    def _begin(self, call: JobCall, args: bytes) -> bytes | None:
        if call.flags & calls.PICKLED:
            self.fail("TypeError", f"{self._command} takes bytes, and no pickles")
        elif (data := _find_job(args)) is None:
            self.fail("TypeError", f"{self._command} takes one argument, bytes or text")
        elif data in BROKER_WORDS:
            self.fail("ValueError", f"this can be no job: {explain_unsendable(data)}")
        else:
            call.is_sent = True
            return data
        return None

    def on_credit(self, call: JobCall, count: int) -> None:
        call.flow.grant(count)
        self._maybe_complete(call.flow)

    def on_cancel(self, call: JobCall) -> None:
        """The protocol cannot cancel: a job that was sent has the slot until its result comes."""
        if call.has_job:
            call.flags |= calls.CAST  # its caller will grant no credit for the result
        else:
            self.fail("Cancelled", "the call was cancelled")

    # From the worker

    def finish(self, call: JobCall, data: bytes) -> None:
        """The worker sent the result."""
        if call.flags & calls.CAST:
            call.flow.close()
        else:
            call.flow.put_value(data)
        self._maybe_complete(call.flow)

    def _maybe_complete(self, flow: Flow) -> None:
        """End the call if only the last piece of its result is left, which needs no credit."""
        if flow.is_done:
            self._end(flow.number, flow.last_flags, flow.last)

    def fail(self, kind: str, text: str) -> None:
        assert self.call is not None
        self._end(self.call.number, calls.FAILED, calls.encode_failure(calls.CallFailure(kind, text)))

    def lose(self, number: int, why: str) -> None:
        self._end(
            number,
            calls.REFUSED,
            calls.encode_refusal(calls.LOST, f"worker {self._worker} {why} while it had the call"),
        )

    def vacate(self, why: str, undelivered: int) -> None:
        """The worker gets no more calls. One that it has not received can go to another worker; a result is kept."""
        call = self.call
        if call is not None and call.flow.is_complete:
            return
        for number in list(self.peer.serves):  # also one that the switchboard has not sent us yet
            if call is not None and call.is_sent and number != undelivered:
                self.lose(number, why)
            else:
                self._refuse(number, f"worker {self._worker} {why}, and the call has not begun there")

    def _refuse(self, number: int, text: str) -> None:
        self._end(number, calls.REFUSED, calls.encode_refusal(calls.BUSY, text))

    def _end(self, number: int, flags: int, payload: bytes) -> None:
        """End the call. The slot is free, and the switchboard may send the next call at once."""
        if self.call is not None:
            self._release(self.call)
            self.call = None
        self._board.on_frame(self.peer, calls.RESULT, calls.LAST | flags, number, 0, payload)


def _find_job(args: bytes) -> bytes | None:
    """The argument, if there is exactly one, and it is bytes or text."""
    try:
        found = decode_args(args)
    except ValueError:
        return None
    job = found[0] if len(found) == 1 else None
    if isinstance(job, str):
        return job.encode()
    return job if isinstance(job, bytes) else None
