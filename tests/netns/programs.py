"""Programs that are told lines, and tell lines."""

import os
import re
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

SOON: Final = 30.0  # seconds; the machine may be busy
ROOT: Final = Path(__file__).parents[2]

# Whether nothing else runs on this machine, so that what takes time can be judged: in `make soak`.
IS_QUIET: Final = os.environ.get("GANDY_QUIET_MACHINE") == "1"


def time_limit(seconds: float) -> float:
    """What may be asked of a quiet machine; of a busy one, only that it happens."""
    return seconds if IS_QUIET else SOON


class Program:
    """Runs until `close` or `end`. It belongs to the namespace that it was started in."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._unread: list[str] = []
        self._all: list[str] = []
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._shut()

    def end(self) -> int:
        """Let it end by itself, since its input does. How it ended."""
        self._input.close()
        return self._process.wait(SOON)

    def _shut(self) -> None:
        with suppress(BrokenPipeError):
            self._input.close()
        self._output.close()

    def say(self, line: str) -> None:
        self._input.write(line.encode() + b"\n")
        self._input.flush()

    def expect(self, pattern: str, timeout: float = SOON) -> re.Match[str]:
        """The first line that is like this and was not expected before."""
        deadline = time.monotonic() + timeout
        while (found := self._take(pattern)) is None:
            assert self._read(deadline), f"no {pattern!r} in:\n" + "\n".join(self._all)
        return found

    def expect_words(self, pattern: str, timeout: float = SOON) -> list[str]:
        """The same, and what follows the pattern."""
        found = self.expect(pattern, timeout)
        return found.string[found.end() :].split()

    def list_unread(self) -> list[str]:
        """All that was told until now, and not expected yet."""
        self._read(time.monotonic())
        return self._unread

    def _take(self, pattern: str) -> re.Match[str] | None:
        for number, line in enumerate(self._unread):
            if found := re.match(pattern + r"(?!\S)", line):
                del self._unread[number]
                return found
        return None

    def _read(self, deadline: float) -> bool:
        """Wait for more. Whether there is."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return False
        data = os.read(self._output.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        texts = [line.decode(errors="replace") for line in lines]
        self._unread += texts
        self._all += texts
        return bool(data)
