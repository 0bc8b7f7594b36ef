"""The frames of one v2 link in both directions: bytes in and out, calls, and the extensions that are agreed on.

It owns the bytes, and checks which types they may contain. Which side may send what is up to `Exchange`.
"""

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.talk.law import Role
from gandy.wire import calls, v2
from gandy.wire.messages import Error, Extended, Extension, Message


class Framing:
    """One side's frames. `receive_data`, then `next_message` until it is None; `send`, then write `data_to_send`."""

    def __init__(
        self,
        role: Role,
        *,
        offers: Extension = Extension.ATOMIC,
        payload_limit: int = MAX_PAYLOAD_BYTES,
        on_call: calls.OnFrame = lambda *_frame: None,
        take_plain_calls: calls.TakePlain | None = None,
    ) -> None:
        """`on_call` gets frames of calls before the next message; the rules of numbers do not apply to them.

        `take_plain_calls` is the fast path for plain frames.
        """
        self.offers = offers
        self.agreed = Extension.NONE
        self.is_gandy = False  # the peer has agreed to ATOMIC, which every gandy offers
        self.takes_batches = False  # both sides agreed to UPDATES
        self.is_closed = False  # nothing more is received
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
        """Handle the plain calls at the beginning of data. Returns where the rest begins, which must be received."""
        if self.take_plain_calls is None or not self._takes_calls or self.is_closed:
            return 0
        return self._decoder.bypass(data, self.take_plain_calls)

    def receive_calls(self, data: bytes) -> bool:
        """Receive data, and handle the calls at its beginning. True if it contained nothing else.

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
        """Return the next message that is not about calls, with its number; None until more bytes come.

        Raises: RemoteProtocolError.
        """
        if self._takes_calls:
            self._decoder.take_with(self._read_calls)
        return self._decoder.next_message()

    def _read_calls(self, data: bytes | bytearray, at: int) -> int:
        return calls.read_frames(data, at, self.on_call, self.take_plain_calls)

    def send(self, seq: int, message: Message) -> None:
        """Raises: LocalProtocolError, if the message does not fit a frame."""
        self._output += v2.encode(seq, message)

    def send_extended(self, message: Extended, seq: int = 0) -> None:
        """Send a message of an extension, to which the rules of numbers do not apply.

        Raises: LocalProtocolError, if the extension is not agreed on.
        """
        if message.type not in self._agreed_types:
            raise LocalProtocolError(f"the peer has not agreed to messages of type 0x{message.type:02x}")
        self._output += v2.encode(seq, message)

    def data_to_send(self) -> bytes:
        """Return what to write to the link now. Each byte is returned once."""
        if not self._output:
            return b""
        data = bytes(self._output)
        self._output.clear()
        return data

    def agree(self, extensions: Extension) -> None:
        """Use these extensions from now on, in both directions, as long as the link is up."""
        self.agreed |= extensions
        self._agreed_types = v2.list_types(self.agreed)
        self._decoder.allow(self.agreed)
        self.is_gandy = Extension.ATOMIC in self.agreed
        self.takes_batches = Extension.UPDATES in self.agreed
        self._takes_calls = Extension.CALLS in self.agreed

    def fail(self, text: str, code: ErrorCode) -> RemoteProtocolError:
        """Close the link. Returns the error to raise for a message whose content is invalid."""
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
