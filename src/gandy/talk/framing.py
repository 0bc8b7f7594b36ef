"""The frames of one v2 link in both directions: bytes in and out, calls, and the extensions that are agreed on.

It owns the bytes, and what may stand in them. It refuses to know who may speak: `Exchange` does.
"""

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.talk.law import Role
from gandy.wire import calls, v2
from gandy.wire.messages import Error, Extended, Extension, Message


class Framing:
    """Of one side. `receive_data`, then `next_message` until it is None; `send`, then write `data_to_send`."""

    def __init__(
        self,
        role: Role,
        *,
        offers: Extension = Extension.ATOMIC,
        payload_limit: int = MAX_PAYLOAD_BYTES,
        on_call: calls.OnFrame = lambda *_frame: None,
        take_plain_calls: calls.TakePlain | None = None,
    ) -> None:
        """`on_call` gets frames of calls on the way to the next message; no rule of numbers is about them.

        `take_plain_calls`: a shorter way for those that are plain.
        """
        self.offers = offers
        self.agreed = Extension.NONE
        self.is_gandy = False  # the peer, which has agreed to what every gandy offers
        self.is_closed = False  # nothing is received any more
        self.on_call = on_call
        self.take_plain_calls = take_plain_calls
        self._parity = role.parity
        self._agreed_types: frozenset[int] = frozenset()
        self._takes_calls = False
        self._decoder = v2.V2Decoder(payload_limit)
        self._output = bytearray()

    def receive_data(self, data: bytes) -> None:
        if not self.is_closed:
            self._decoder.receive_data(data)

    def take_calls(self, data: bytes) -> int:
        """Let plain calls be taken that data begins with. Returns where the rest begins, which is to be received."""
        if self.take_plain_calls is None or not self._takes_calls or self.is_closed:
            return 0
        return self._decoder.pass_by(data, self.take_plain_calls)

    def receive_calls(self, data: bytes) -> bool:
        """Receive data, and take the calls at once if it begins with some. True if nothing else was in it.

        Raises: RemoteProtocolError. The link is closed then.
        """
        if self.is_closed:
            return False
        self._decoder.receive_data(data)
        if not self._takes_calls:
            return False
        try:
            return self._decoder.take_with(self._read_calls)
        except RemoteProtocolError as error:
            self.give_up(error.code)
            raise

    def next_message(self) -> tuple[int, Message] | None:
        """The next message with its number, calls aside; None until more bytes come. Raises: RemoteProtocolError."""
        if self._takes_calls:
            self._decoder.take_with(self._read_calls)
        return self._decoder.next_message()

    def _read_calls(self, data: bytes | bytearray, at: int) -> int:
        return calls.read_frames(data, at, self.on_call, self.take_plain_calls)

    def send(self, seq: int, message: Message) -> None:
        """Raises: LocalProtocolError, where the message does not fit a frame."""
        self._output += v2.encode(seq, message)

    def send_extended(self, message: Extended, seq: int = 0) -> None:
        """Send a message of an extension; it is outside all rules of numbers.

        Raises: LocalProtocolError, where the extension is not agreed on.
        """
        if message.type not in self._agreed_types:
            raise LocalProtocolError(f"the peer has not agreed to messages of type 0x{message.type:02x}")
        self._output += v2.encode(seq, message)

    def data_to_send(self) -> bytes:
        """What is to be written to the link now. Each byte is returned once."""
        if not self._output:
            return b""
        data = bytes(self._output)
        self._output.clear()
        return data

    def agree(self, extensions: Extension) -> None:
        """From now on these extensions are spoken, in both directions, as long as the link is up."""
        self.agreed |= extensions
        self._agreed_types = v2.list_types(self.agreed)
        self._decoder.allow(self.agreed)
        self.is_gandy = Extension.ATOMIC in self.agreed
        self._takes_calls = Extension.CALLS in self.agreed

    def fail(self, text: str, code: ErrorCode) -> RemoteProtocolError:
        """Close the link. Returns the error to raise for a message that the rules allow and that makes no sense."""
        self.give_up(code)
        return RemoteProtocolError(text, code)

    def give_up(self, code: ErrorCode) -> None:
        """Close the link. A gandy peer gets the reason in a last ERROR."""
        if self.is_gandy or Extension.ATOMIC in self._decoder.offered:
            # A number of our own parity: this ERROR answers nothing.
            self.send(self._parity, Error(code))
        self.is_closed = True

    def close(self) -> None:
        """The link is gone."""
        self.is_closed = True
