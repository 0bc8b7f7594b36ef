"""A referee for links on which the foreman may speak first."""

from gandy.talk.law import Role
from gandy.testing import Referee
from gandy.wire.messages import GREETING, Message

GREETING_NUMBER = 1  # of an OK(0) that answers no request


class GreetedReferee(Referee):
    """Lets the foreman send OK(0) to a worker that has not sent HELLO for a while, or not since a RESET."""

    def _on_sent(self, sender: Role, seq: int, message: Message) -> None:
        if not _is_greeting(seq, message):
            super()._on_sent(sender, seq, message)

    def _on_delivered(self, receiver: Role, seq: int, message: Message) -> None:
        if not _is_greeting(seq, message):
            super()._on_delivered(receiver, seq, message)


def _is_greeting(seq: int, message: Message) -> bool:
    return seq == GREETING_NUMBER and message == GREETING
