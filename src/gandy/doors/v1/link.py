"""What both sides of a first-generation link share: the table, the decoder and the bytes to send."""

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.law import V1_LAW, V1State
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.talk.law import Role, Step


class V1Link:
    """One side of one v1 link. Every message sent or received takes one step of the law."""

    def __init__(self, role: Role, payload_limit: int = MAX_PAYLOAD_BYTES) -> None:
        self.role = role
        self.state = V1State.GREETING
        self._decoder = v1.V1Decoder(payload_limit)
        self._output = bytearray()

    def receive_data(self, data: bytes) -> None:
        self._decoder.receive_data(data)

    def data_to_send(self) -> bytes:
        data = bytes(self._output)
        self._output.clear()
        return data

    def send(self, message: v1.V1Message) -> None:
        self._take_step(self.role, message)
        self._output += v1.encode(message)

    def next_message(self) -> v1.V1Message | None:
        """The peer's next message, after its step of the law.

        Raises: RemoteProtocolError: the link is closed then.
        """
        if self.state is V1State.CLOSED:
            return None
        try:
            message = self._decoder.next_message()
            if message is not None:
                self._take_step(self.role.other, message)
        except RemoteProtocolError:
            self.close()
            raise
        return message

    def close(self) -> None:
        self.state = V1State.CLOSED

    def fail(self, text: str, code: ErrorCode) -> RemoteProtocolError:
        """The error to raise for a message that is well-formed but impossible here."""
        self.close()
        return RemoteProtocolError(text, code)

    def _take_step(self, sender: Role, message: v1.V1Message) -> None:
        step = Step(type(message))
        try:
            self.state = V1_LAW[self.state, sender, step]
        except KeyError:
            text = f"a {sender.value} cannot send {step} in state {self.state.value}"
            if sender is self.role:
                raise LocalProtocolError(text) from None
            raise RemoteProtocolError(text, ErrorCode.BAD_STATE) from None
