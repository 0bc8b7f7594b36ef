"""The main job of gandy in half a minute: a crew, an array of tasks, and a foreman that is killed in the middle.

Run it with `make demo`. It works in a temporary folder, which it deletes afterwards.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

GANDY = [sys.executable, "-m", "gandy"]
TASKS = 200


class Demo:
    """Starts real processes and types real commands."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {**os.environ, "GANDY_HOME": str(home)}
        self.ran = home / "ran"
        self.programs: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A program in the background."""
        program = subprocess.Popen(
            [*GANDY, *arguments], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.programs.append(program)
        return program

    def type(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command as a person would type it, with its output on the screen."""
        say(f"\n$ gandy {shlex.join(arguments)}")
        return subprocess.Popen([*GANDY, *arguments], env=self.environment)

    def wait_for(self, what: str, *arguments: str) -> None:
        """Wait until a command prints this."""
        command = [*GANDY, *arguments]
        while what not in subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout:
            time.sleep(0.1)

    def wait_for_tasks(self, count: int) -> None:
        while not self.ran.exists() or len(self.ran.read_text().splitlines()) < count:
            time.sleep(0.02)

    def run(self) -> None:
        say("A foreman and two workers start. Each is a process of its own.")
        foreman = self.start("foreman", "run")
        for name in ("anna", "bert"):
            self.start("worker", "run", "--name", name, "--slots", "2")
        for name in ("anna", "bert"):
            self.wait_for(name, "worker", "list")
        self.type("worker", "list").wait()

        line = f"sleep 0.05; echo $GANDY_TASK >> {self.ran}; echo task $GANDY_TASK is done"
        waiting = self.type("submit", "--name", "count", "--tasks", str(TASKS), "--wait", line)
        self.wait_for_tasks(TASKS // 3)
        foreman.send_signal(signal.SIGKILL)
        foreman.wait()
        say("\n*** the foreman was killed with -9; workers go on with what they have ***")
        time.sleep(1)
        self.start("foreman", "run")
        say("*** another foreman was started; it finds everything in its store ***")
        waiting.wait()
        self.show_nothing_was_lost()

        self.type("job", "output", "1", "--task", "7").wait()
        self.type("submit", "--name", "oops", "--wait", "echo no such planet >&2; exit 3").wait()
        self.type("job", "explain", "2").wait()
        self.type("job", "list", "--all").wait()

    def show_nothing_was_lost(self) -> None:
        runs = Counter(self.ran.read_text().split())
        twice = sum(count > 1 for count in runs.values())
        say(f"\n{len(runs)} of {TASKS} tasks ran, {twice} of them more than once.")
        if len(runs) != TASKS or twice:
            raise SystemExit("this should not be")

    def stop(self) -> None:
        for program in self.programs:
            program.terminate()
        for program in self.programs:
            program.wait()


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gandy-") as folder:
        demo = Demo(Path(folder))
        try:
            demo.run()
        finally:
            demo.stop()
    say("\nTry it yourself: 'gandy up' in one terminal, 'gandy submit' in another. The README goes on from here.")


if __name__ == "__main__":
    main()
