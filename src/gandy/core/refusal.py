"""How a foreman refuses a request. The kind is one of those of `core.requests.RequestFailure`."""

from gandy.errors import GandyError


class Refusal(GandyError):
    """A request that cannot be granted, with a kind for programs."""

    def __init__(self, kind: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
