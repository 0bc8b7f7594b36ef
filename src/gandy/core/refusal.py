"""How a foreman refuses a request. The kind is one of those of `core.requests.RequestFailure`."""

from gandy.errors import GandyError, StoreError, StoreFull


class Refusal(GandyError):
    """A request that cannot be granted, with a kind for programs."""

    def __init__(self, kind: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable


def name_kind(error: StoreError) -> str:
    """The kind of a failure because of the store. A full disk has one of its own: waiting does not help."""
    return "full" if isinstance(error, StoreFull) else "store"
