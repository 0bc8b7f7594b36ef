"""The exit codes of every command, and their description for `--help`."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # click's own number
    CANCELLED = 3  # a job that was waited for
    TROUBLE = 4  # of the crew, that was asked for
    INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended
    CLOSED_PIPE = 141  # what shells report for a program whose reader went away


# \b keeps click from wrapping the lines.
EXIT_HELP: Final = """\b
Exit codes:
  0  done
  1  failed; the reason is on standard error
  2  the command line or its input is not valid
"""

# For commands that wait for jobs.
WAIT_EXIT_HELP: Final = (
    EXIT_HELP
    + """\
  After waiting for jobs:
  0    every task finished
  1    some task failed
  3    a job was cancelled
  130  Ctrl-C; the jobs go on
"""
)


CHECK_EXIT_HELP: Final = (
    EXIT_HELP
    + """\
  With --check:
  0    all is well
  1    no foreman can be reached
  4    something needs attention; each thing is on a line
"""
)


def make_epilog(*examples: str, exits: str = EXIT_HELP) -> str:
    """The end of a command's help: examples that can be pasted, and exit codes."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{exits}"
