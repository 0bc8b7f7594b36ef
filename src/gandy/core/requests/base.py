"""What all requests of clients and all answers have in common, and the two answers that any request may get."""

from typing import Annotated

from msgspec import Meta, Struct

from gandy.bounds import OptionalName, Text
from gandy.limits import MAX_PAGE, MAX_TEXT

Places = Annotated[tuple[Text, ...], Meta(max_length=MAX_PAGE)]  # addresses


class BaseRequest(Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    # It was sent before, over a link that broke before the answer came, so a foreman may have done it already. What it
    # would refuse because of that is a success then.
    again: bool = False


class BaseAnswer(Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class Done(BaseAnswer, frozen=True):
    pass


class RequestFailure(BaseAnswer, frozen=True, tag="Failure"):
    """The request was refused. The kind is for programs, the message for people."""

    # not_found, bad_request, refused, closed, not_allowed, no_clock, store, gone, internal; full: the store has no room
    # until a user makes some; or moved: another foreman is taking over the job, and can be asked soon
    kind: OptionalName
    message: Text
    retryable: bool = False


def make_failure(kind: str, message: str, retryable: bool = False) -> RequestFailure:
    """A failure whose message is cut to a length that can be sent."""
    return RequestFailure(kind, message[:MAX_TEXT], retryable)
