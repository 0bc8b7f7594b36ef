"""Errors about functions and their data. Part of the tree in `gandy.errors`.

GandyError
├── NotPicklable     something cannot be pickled; the text names it. Also a TypeError
├── WrongPython      a function was sent as code to another version of Python
└── RemoteError      stands for an exception that could not be pickled itself
"""

from gandy.errors import GandyError


class NotPicklable(GandyError, TypeError):
    """Part of the arguments or of a result cannot be pickled; the text names it."""


class WrongPython(GandyError):
    """Code from one version of Python reached another one, where running it could do anything."""


class RemoteError(GandyError):
    """What is known about an exception that could not be pickled, or not be unpickled here."""

    def __init__(self, class_name: str, text: str, trace: str = "") -> None:
        super().__init__(class_name, text, trace)
        self.class_name = class_name  # with its module, unless that is builtins
        self.text = text
        self.trace = trace  # as it was printed where the function ran

    def __str__(self) -> str:
        return f"{self.class_name}: {self.text}" if self.text else self.class_name


class RemoteTraceback(Exception):
    """The cause of an exception that was raised on a worker: Python prints it above the exception."""

    def __init__(self, tb: str) -> None:
        super().__init__(tb)
        self.tb = tb  # the name that it has in concurrent.futures

    def __str__(self) -> str:
        return f'\n"""\n{self.tb}"""'
