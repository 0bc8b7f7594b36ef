"""The bus: round trips and messages one way, beside plain sockets in Python and in C, and libo2's own pair."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from bench import echoes, players
from bench.harness import race, report, report_times

TRIPS = 2_000  # in each repeat
MESSAGES = 20_000
REPEATS = 7

Play = Callable[[int], list[float]]


class Program:
    """A program in C that plays when it gets a count. Between two games it stands still: libo2 never waits."""

    def __init__(self, program: "subprocess.Popen[str]") -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        self._input, self._output = program.stdin, program.stdout
        self._group = program.pid

    def play(self, count: int) -> list[float]:
        os.killpg(self._group, signal.SIGCONT)
        self._input.write(f"{count}\n")
        self._input.flush()
        times = [int(self._output.readline()) * 1e-9 for _ in range(count)]
        os.killpg(self._group, signal.SIGSTOP)
        return times


@contextmanager
def start(command: list[str]) -> Iterator[Program | None]:
    """None where it does not play: two processes of libo2 do not always meet."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as program:
        started: Program | None = Program(program)
        try:
            Program(program).play(100)
        except ValueError:  # it has ended
            started = None
        yield started
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)


def compile_c(source: str, folder: Path, *libraries: str) -> str | None:
    """The program; None where it cannot be made here."""
    path = Path(__file__).with_name(f"{source}.c")
    program = str(folder / source)
    if shutil.which("cc") is None:
        return None
    done = subprocess.run(["cc", "-O2", "-o", program, str(path), *libraries], capture_output=True, check=False)
    return program if done.returncode == 0 else None


def time_in_turns(contestants: dict[str, Play]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(REPEATS):
        for name, play in contestants.items():
            times[name] += play(TRIPS)
    return times


def run() -> None:
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        held.callback(shutil.rmtree, folder)
        pinger = held.enter_context(players.start(f"bench-{os.getpid()}"))
        private = held.enter_context(players.start(f"private-{os.getpid()}", is_private=True))
        in_c = {
            "C, blocking sockets": compile_c("echo", folder),
            "libo2 1.1, which spins": compile_c("o2_echo", folder, "-lo2"),
        }
        floods: dict[str, Callable[[], int]] = {}
        for kind in ("udp", "tcp"):
            is_reliable = kind == "tcp"
            plain = held.enter_context(echoes.start(kind))
            contestants: dict[str, Play] = {
                "Python, blocking sockets": plain.play,
                "gandy, both in handlers": partial(pinger.play, is_reliable=is_reliable),
                "gandy, private, both in handlers": partial(private.play, is_reliable=is_reliable),
                "gandy, asked by another thread": partial(pinger.ask, is_reliable=is_reliable),
            }
            for name, program in in_c.items():
                if program is None:
                    print(f"\nnot measured, as it cannot be compiled here: {name}")
                else:
                    words = [program, f"bench-o2-{os.getpid()}", kind] if "libo2" in name else [program, kind]
                    started = held.enter_context(start(words))
                    if started is None:
                        print(f"\nnot measured, as its processes did not meet: {name}")
                    else:
                        contestants[name] = started.play
            for play in contestants.values():
                play(TRIPS)
            title = f"Round trips by {kind.upper()}"
            report_times(title, time_in_turns(contestants), "Python, blocking sockets")
            floods[f"Python, blocking sockets, {kind}"] = partial(plain.flood, MESSAGES)
            floods[f"gandy, {kind}"] = partial(pinger.flood, MESSAGES, is_reliable)
        report("Messages one way", "messages", race(floods, REPEATS), "Python, blocking sockets, udp")
