"""The process of a crew that a program has started: a foreman and a worker with a guardian, as in `gandy up`.

It stops when its standard input ends, which the program holds open. It dies when the program is dead, even if a process
that the program forked still holds that pipe. Its standard output says that it is ready, or why it cannot be.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gandy.client.aio import AsyncClient
from gandy.core.policy import Policy
from gandy.crew.options import CrewOptions
from gandy.errors import ConfigError, GandyError
from gandy.files import write_all
from gandy.foreman.main import ForemanProgram, stop_on_signals
from gandy.net import loop
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.processes import is_dead
from gandy.reach import Reach
from gandy.worker.commands import Commands, load_all
from gandy.worker.guardian import GUARDIAN_DIED, guard
from gandy.worker.main import OUTPUT_NAME, explain_shortage, make_about
from gandy.worker.service import WorkerService
from gandy.worker.temporary import mark_temporary

LOOK_PERIOD: Final = 0.005  # seconds between two looks for the worker, until it is there
PROGRAM_PERIOD: Final = 0.2  # seconds between two looks at the program, where the kernel does not report its death

Report = Callable[[dict[str, str]], None]


def main() -> int:
    """Run the crew that the arguments describe, for the program with the given pid. Returns the exit code."""
    program, options = int(sys.argv[1]), CrewOptions.parse(sys.argv[2])
    report = _take_output()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started us may have blocked signals
    watched = _open_program(program)
    begin_log(logging.INFO if options.log else logging.WARNING)
    try:
        with explain_shortage():
            return _serve(options, program, watched, report)
    except GandyError as error:
        report({"error": type(error).__name__, "text": str(error)})
        return 1


def _take_output() -> Report:
    """Keep standard output for our report. What commands print goes to the log."""
    output = os.dup(1)
    os.dup2(2, 1)

    def report(words: dict[str, str]) -> None:
        write_all(output, json.dumps(words).encode() + b"\n")

    return report


def _open_program(program: int) -> int | None:
    """Return a descriptor that is readable when the program is dead; None if the kernel has no such thing."""
    try:
        watched: int | None = os.pidfd_open(program)
    except ProcessLookupError:
        os._exit(1)
    except (OSError, AttributeError):
        watched = None
    if os.getppid() != program:  # it died before, and its pid may belong to another process now
        os._exit(1)
    return watched


def _serve(options: CrewOptions, program: int, watched: int | None, report: Report) -> int:
    """Raises: GandyError."""
    at_end = None
    if not options.is_kept:
        _make_folder(options.folder)
        at_end = partial(shutil.rmtree, options.folder, ignore_errors=True)
    try:
        guard(at_end)
        allow_many_files()
        commands = load_all(options.commands)
        return loop.run(_run(options, commands, program, watched, report))
    except BaseException:
        if at_end is not None and os.getppid() == program:  # there is no guardian
            at_end()
        raise


def _make_folder(folder: str) -> None:
    try:
        Path(folder).mkdir(0o700)
        mark_temporary(Path(folder))  # for the watchdog, if all other processes are killed
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from None


async def _run(options: CrewOptions, commands: Commands, program: int, watched: int | None, report: Report) -> int:
    about = make_about(options.slots, (), None, options.reserve)
    foreman = ForemanProgram(options.folder, None, Policy(), is_temporary=not options.is_kept)
    await foreman.start()
    folder = Path(options.folder) / OUTPUT_NAME / about.name
    reach = Reach((options.address,))
    worker = WorkerService(reach, about, folder, preload=options.preload, commands=commands, reserved=options.reserve)
    running = asyncio.get_running_loop()
    stop_on_signals(foreman)
    running.add_signal_handler(GUARDIAN_DIED, worker.die)
    watching = asyncio.create_task(_watch_program(program, watched, worker.die))
    running.add_reader(0, _on_input, foreman.on_signal)
    working = asyncio.create_task(worker.run())
    greeting = asyncio.create_task(_greet(options, report))
    await foreman.wait()
    greeting.cancel()
    await worker.stop()
    await asyncio.gather(working, greeting, return_exceptions=True)
    await foreman.stop()
    watching.cancel()
    return 1 if foreman.has_failed else 0


async def _greet(options: CrewOptions, report: Report) -> None:
    """Report that the crew is ready, when the foreman knows the worker and its commands."""
    async with AsyncClient(str(options.address)) as client:
        while not any(row.connected and row.commands for row in await client.workers()):
            await asyncio.sleep(LOOK_PERIOD)
    report({})


async def _watch_program(program: int, watched: int | None, die: Callable[[], None]) -> None:
    """Die when the program is dead."""
    if watched is not None:
        asyncio.get_running_loop().add_reader(watched, die)
        return
    while not is_dead(program):
        await asyncio.sleep(PROGRAM_PERIOD)
    die()


def _on_input(stop: Callable[[], None]) -> None:
    """The program wants the crew to end, or has closed the pipe."""
    asyncio.get_running_loop().remove_reader(0)
    stop()


if __name__ == "__main__":
    sys.exit(main())
