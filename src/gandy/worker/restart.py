"""Lets a program begin again without the invitation that it was started with.

What a process was started with stays in /proc/PID/environ for as long as it runs, for every process of the same user:
for the tasks of a worker, too. A token with several uses would let them make keys. Another exec replaces it.
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
