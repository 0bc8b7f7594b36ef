"""Restarts a program without the invitation that it was started with.

A process's initial environment stays in /proc/PID/environ while it runs, and every process of the same user can read
it, also a worker's tasks. With a token for several uses, they could make keys. An exec replaces the environment.
"""

import os
import sys

from gandy.errors import ConfigError

TOKEN = "GANDY_TOKEN"  # noqa: S105 - the name of a variable


def drop_token() -> None:
    """If GANDY_TOKEN is set, start this program again in this process without it. Call it before anything is open.

    Raises: ConfigError.
    """
    if TOKEN not in os.environ:
        return
    env = {name: value for name, value in os.environ.items() if name != TOKEN}
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)  # noqa: S606
    except OSError as error:
        raise ConfigError(f"cannot start again without {TOKEN}, which tasks must not see: {error}") from None
