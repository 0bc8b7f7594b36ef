"""Logs of foremen and workers, on standard error. Text that a peer chose cannot begin a line or move a cursor."""

import logging
from types import TracebackType

from gandy.bounds import escape_controls

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class PrintableFormatter(logging.Formatter):
    """One line for each record, and those of a traceback behind it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging calls it
        record.message = escape_controls(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Raised) -> str:  # noqa: N802
        return "\n".join(escape_controls(line) for line in super().formatException(ei).split("\n"))


def begin_log(level: int) -> None:
    """Write the log of this process to standard error from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler])
