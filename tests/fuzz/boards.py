"""A switchboard among strangers: in `calls_bytes` one of them sends the fuzzer's bytes as they are, in `calls_talk` the
bytes are choices: who says which frame, and when time goes by.

Only `RemoteProtocolError` may come out, what is sent must be whole frames, and nothing is left when all have gone.
"""

from typing import Final

from tests.crews import ClientSeat, Crew, Frame, Seat, WorkerSeat
from tests.fuzz.talks import Choices, cut

from gandy.core.call_dispatch import GRACE, LAST_ID
from gandy.core.sharing import TURN
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_PATIENCE, MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import Offer

NAMES: Final = ("ping", "add", "none")


class Strangers:
    """Two links of workers, which may make calls as well, and one of a client. A peer that breaks a rule is cut off."""

    def __init__(self) -> None:
        self.crew = Crew(now=GRACE - 1, max_queued=3, max_bytes=200)
        self.seats: list[Seat] = [
            self.crew.worker("w0", 2, NAMES[:1]),
            self.crew.worker("w1", 3, [NAMES[0], Offer(NAMES[1], 2)], reserved=1),
            self.crew.client(),
        ]

    def say(self, place: int, frame: Frame) -> bool:
        """Whether that was allowed."""
        try:
            self.seats[place].say(*frame)
        except RemoteProtocolError:
            self.replace(place)
            return False
        self.listen()
        return True

    def replace(self, place: int) -> None:
        seat = self.seats[place]
        seat.cut()
        if isinstance(seat, WorkerSeat):
            self.seats[place] = self.crew.worker(seat.name, seat.slots, NAMES[:1], seat.reserved)
        else:
            self.seats[place] = self.crew.client()
        self.listen()

    def listen(self) -> None:
        for seat in self.seats:
            seat.hear()
        assert not self.crew.board.touched

    def leave(self) -> None:
        for seat in self.seats:
            seat.cut()
        self.crew.pass_time(2 * MAX_PATIENCE)  # sums of seconds are not exact
        board = self.crew.board
        assert (board.waiting.count, board.touched, board.dispatcher.needs_ticks) == (0, set(), False)
        for peer in (seat.peer for seat in self.seats):
            assert not any((peer.calls, peer.serves, peer.offers, peer.direct, peer.missing, peer.slots.by_calls))


def fuzz_calls(data: bytes) -> None:
    """However frames are cut, they mean the same; and what is read can be written."""
    whole, end = _read([data])
    if end is not None:
        assert b"".join(calls.encode(*frame) for frame in whole) == data[:end]
    assert _read(cut(data)) == (whole, end)


def _read(pieces: list[bytes]) -> tuple[list[Frame], int | None]:
    """The frames, and where something else begins, or a part of a frame; None where they are refused."""
    frames: list[Frame] = []
    buffer, at = bytearray(), 0
    for number, piece in enumerate(pieces):
        buffer += piece
        try:
            at = calls.read_frames(
                buffer if number % 2 else bytes(buffer), at, lambda *frame: frames.append(Frame(*frame))
            )
        except RemoteProtocolError:
            return frames, None
    return frames, at


def fuzz_announcement(data: bytes) -> None:
    """The payloads that a foreman and a client open."""
    calls.decode_failure(data)
    calls.decode_refusal(data)
    try:
        said = calls.decode_announcement(data)
    except RemoteProtocolError:
        return
    again = calls.encode_announcement(said.slots, said.reserved, said.offers, said.knows_time)
    assert calls.decode_announcement(again) == said
    strangers = Strangers()
    strangers.say(0, Frame(calls.ANNOUNCE, payload=data))
    strangers.leave()


def fuzz_calls_bytes(data: bytes) -> None:
    """The first byte tells who the stranger is; the client has made calls before."""
    strangers = Strangers()
    client = strangers.seats[2]
    assert isinstance(client, ClientSeat)
    for seq in range(8):
        client.call(seq, NAMES[seq % 2], calls.MORE if seq % 3 else 0, worker="w0" if seq == 5 else "")
    place = data[0] % 3 if data else 0
    frames, _ = _read([data[1:]])
    for frame in frames:
        strangers.say(place, frame)
    strangers.leave()


def fuzz_calls_talk(data: bytes) -> None:
    strangers, choices = Strangers(), Choices(data)
    while choices:
        what = choices.pick((0, 0, 0, 0, 0, 0, 1, 2, 3, 4))
        place = choices.pick((0, 1, 2))
        if what == 1:
            strangers.crew.pass_time(choices.pick((0.0, 0.001, 1.0, GRACE)))
        elif what == 2:
            strangers.crew.share(choices.pick((0.0, TURN)))
        elif what == 3:
            strangers.replace(place)
        elif what == 4:
            _use(strangers.seats[place], choices)
        else:
            strangers.say(place, _choose_frame(choices))
        strangers.listen()
    strangers.leave()


def _use(seat: Seat, choices: Choices) -> None:
    if isinstance(seat, WorkerSeat):
        seat.account.draining = choices.pick((False, False, False, True))
        seat.use(choices.pick((0, 1, 2, 9)))
        seat.board.dispatcher.drain(seat.peer, seat.board.now)


def _choose_frame(choices: Choices) -> Frame:
    kind = choices.pick((calls.CALL, calls.CALL, calls.RESULT, calls.RESULT, *range(calls.CALL, calls.YIELDED + 2)))
    subtype = choices.pick((0, calls.LAST, calls.MORE, calls.CAST | calls.MORE, calls.DIRECT, calls.AT, 0xFF, 0x17))
    seq = choices.pick((0, 1, 2, 3, 9, LAST_ID))
    padding = choices.pick((0, 1, 2, 1_000, LAST_ID))
    return Frame(kind, subtype, seq, padding, _choose_payload(kind, choices))


def _choose_payload(kind: int, choices: Choices) -> bytes:
    name, worker = choices.pick(NAMES), choices.pick(("w0", "w1", "w2"))
    size = choices.pick((0, 1, 90, MAX_PIECE_BYTES))
    if kind == calls.CALL:
        return choices.pick((calls.encode_target(name, worker), calls.encode_target(name), b"\x07" + name.encode()))
    if kind == calls.ANNOUNCE:
        slots, reserved = choices.pick((2, 3, 4)), choices.pick((0, 1, 2))
        offers = [Offer(name, choices.pick((1, 2))), Offer("ping")][: choices.pick((1, 2, 0))]
        return calls.encode_announcement(slots, reserved, offers)
    return bytes(size)
