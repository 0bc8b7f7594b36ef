"""Restarts a program without the invitation that it was started with.

The environment that a process was started with stays in /proc/PID/environ while it runs, and every process of the same
user can read it, also the tasks of a worker. With a token of several uses they could make keys. An exec replaces it.
"""

import os
import sys

from gandy.errors import ConfigError

TOKEN = "GANDY_TOKEN"  # noqa: S105 - the name of a variable


def drop_token() -> None:
    """Start this program again in this process, without GANDY_TOKEN, if that is set. Call it before anything is open.

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
