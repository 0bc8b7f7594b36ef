"""How a foreman says no to a client. The kind is one of those of `core.requests.Failure`."""

from gandy.errors import GandyError


class Refusal(GandyError):
    """A request that cannot be granted, with the word that tells a program why."""

    def __init__(self, kind: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
