"""The exit codes of every command, and the lines of `--help` that tell them."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What a command tells the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # click's own number
    INTERRUPTED = 130  # what a shell tells of a program that Ctrl-C ended
    CLOSED_PIPE = 141  # what a shell tells of a program whose reader went away


# \b keeps click from wrapping the lines.
EXIT_HELP: Final = """\b
Exit codes:
  0  done
  1  failed; the reason is on standard error
  2  the command line or its input cannot be read
"""
