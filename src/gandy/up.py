"""`gandy up`: a foreman and a worker on this machine, in one process with a guardian, in the foreground."""

import asyncio
import logging
import sys
from pathlib import Path

from gandy.core.policy import Policy
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram, socket_address, stop_on_signals
from gandy.net import loop
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.commands import Commands, load_all
from gandy.worker.guardian import GUARDIAN_DIED, guard
from gandy.worker.main import OUTPUT_NAME, make_about
from gandy.worker.restart import drop_token
from gandy.worker.service import WorkerService


def run(
    *,
    home: str,
    slots: int | None,
    store: str | None,
    preload: tuple[str, ...] = (),
    commands: tuple[str, ...] = (),
    reserve: int = 0,
    listen: tuple[str, ...] = (),
) -> int:
    """Run until a signal. Returns the exit code. Raises: GandyError."""
    drop_token()
    guard()
    begin_log(logging.WARNING)
    allow_many_files()
    about = make_about(slots, (), None, reserve)
    loop.run(_run(home, about, store, preload, load_all(commands), reserve, Doors(listen)))
    return 0


async def _run(
    home: str, about: About, store: str | None, preload: tuple[str, ...], commands: Commands, reserve: int, doors: Doors
) -> None:
    program = ForemanProgram(home, store, Policy())
    await program.start(doors)
    folder = Path(home) / OUTPUT_NAME / about.name
    worker = WorkerService(
        Reach((socket_address(home),)), about, folder, preload=preload, commands=commands, reserved=reserve
    )
    running = asyncio.get_running_loop()
    stop_on_signals(program)
    running.add_signal_handler(GUARDIAN_DIED, worker.die)
    working = asyncio.create_task(worker.run())
    print(f"A crew of one machine with {about.slots + reserve} slots is up. In another terminal, try:", file=sys.stderr)
    print("    gandy submit --tasks 10 --wait -- sh -c 'echo task $GANDY_TASK'", file=sys.stderr)
    print("    gandy dashboard          # shows it in a browser", file=sys.stderr)
    if doors.listen:
        print("For another machine, 'gandy invite --worker' prints a line.", file=sys.stderr)
    print("Ctrl-C stops it; jobs that are not done go on when it is started again.", file=sys.stderr)
    await program.wait()
    await worker.stop()
    await asyncio.gather(working, return_exceptions=True)
    await program.stop()
