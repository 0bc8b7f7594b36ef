"""`gandy worker run`: a worker in the foreground, until a signal or the foreman stops it."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from gandy import __version__
from gandy.bounds import describe
from gandy.config import Addresses
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, GandyError, LinkError
from gandy.functions.tag import PYTHON_TAG
from gandy.limits import MAX_AHEAD, MAX_SLOTS
from gandy.net import loop
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.reach import Reach, find_reach
from gandy.wire.messages import About
from gandy.worker.commands import load_all
from gandy.worker.files import fit_slots
from gandy.worker.guardian import GUARDIAN_DIED, guard
from gandy.worker.restart import drop_token
from gandy.worker.service import WorkerService
from gandy.worker.shortage import find_shortage

log = logging.getLogger("gandy.worker")

OUTPUT_NAME = "output"
FIRST_JOIN_PAUSE, LONGEST_JOIN_PAUSE = 1.0, 30.0  # seconds between two tries to join; it doubles

# Tasks that may wait on the worker for each slot, so that no slot is idle while its last result is being sent.
# If another worker is idle, the foreman takes them back.
AHEAD_PER_SLOT = 500  # the foreman sends fewer if tasks take longer


def make_about(
    slots: int | None, tags: tuple[str, ...], name: str | None, reserved: int = 0, takes_tasks: bool = True
) -> About:
    """Describe this worker for HELLO. Slots that are reserved for calls are not counted.

    The id is new at each start, since tasks of an earlier start died with that worker.

    Raises: ConfigError.
    """
    count = len(os.sched_getaffinity(0)) if slots is None else slots
    if not 1 <= count <= MAX_SLOTS:
        raise ConfigError(f"a worker has 1 to {MAX_SLOTS} slots, not {count}")
    if not 0 <= reserved < count:
        raise ConfigError(f"a worker with {count} slots can reserve 0 to {count - 1} of them for calls, not {reserved}")
    count = _fit(count, reserved) - reserved
    name = name or socket.gethostname()
    ahead = min(MAX_AHEAD, count * AHEAD_PER_SLOT) if takes_tasks else 0
    tags = (*tags, PYTHON_TAG) if takes_tasks else tags
    about = About(f"{name}-{secrets.token_hex(6)}", name, count, tags, __version__, ahead, takes_tasks=takes_tasks)
    try:
        return msgspec.convert(msgspec.to_builtins(about), About)  # with the checks that the foreman will make
    except msgspec.ValidationError as error:
        raise ConfigError(f"no foreman would accept this worker: {describe(error)}") from None


def _fit(count: int, reserved: int) -> int:
    """Reduce the slots to as many as there are files for. Raises: ConfigError."""
    fitting = fit_slots(count)
    if fitting <= reserved:
        raise ConfigError(f"there are open files for {fitting} slots, and {reserved} are reserved for calls: ulimit -n")
    if fitting < count:
        log.warning("there are open files for only %d of %d slots: raise the limit with ulimit -n", fitting, count)
    return fitting


def configure_logging() -> None:
    """Log to standard error, unless the program has configured logging itself."""
    begin_log(logging.INFO)


def find_work(foreman: Addresses | None, insecure: bool) -> Reach:
    """Find how a worker reaches its foreman. Raises: ConfigError, LinkError, NotAllowed."""
    reach = find_reach(foreman, os.environ, sys.platform, CrewRole.WORKER, insecure)
    if any(place.scheme == "plain" for place in reach.places) and not insecure:
        raise ConfigError(
            f"{reach} is without keys: with --insecure, a program that poses as that foreman can run commands here "
            "as you. With keys: tcp://HOST:PORT"
        )
    if insecure and (open_places := [str(each) for each in reach.places if each.scheme in ("plain", "ensemble")]):
        warn_insecure(" or ".join(open_places))
    return reach


def wait_for_work(foreman: Addresses | None, insecure: bool) -> Reach:
    """Like `find_work`, but wait for the foreman that GANDY_TOKEN names. Raises: ConfigError, NotAllowed."""
    pause = FIRST_JOIN_PAUSE
    while True:
        try:
            return find_work(foreman, insecure)
        except LinkError as error:
            log.info("%s; trying again in %.0f s", error, pause)
            time.sleep(pause)
            pause = min(LONGEST_JOIN_PAUSE, 2 * pause)


def warn_insecure(places: str) -> None:
    """Warn of links without keys, at each start."""
    log.warning("INSECURE: %s has no key: a program that poses as it can run commands here as you", places)


def run(
    *,
    home: str,
    foreman: Addresses | None,
    slots: int | None,
    tags: tuple[str, ...],
    name: str | None,
    insecure: bool,
    keep_output: int,
    preload: tuple[str, ...],
    commands: tuple[str, ...] = (),
    reserve: int = 0,
    ensemble: str | None = None,
) -> int:
    """Run a worker until it stops. `ensemble`: whose clock it follows. Raises: ConfigError, GandyError."""
    configure_logging()
    reach = wait_for_work(foreman, insecure)
    drop_token()  # the token is used up; before the limits are raised, which the exec would keep
    guard()  # after `drop_token`, or tasks could read the token in the environment of the guardian
    allow_many_files()
    about = make_about(slots, tags, name, reserve)
    installed = load_all(commands)
    folder = Path(home) / OUTPUT_NAME / about.name

    def make_service() -> WorkerService:
        return WorkerService(reach, about, folder, keep_output, preload, installed, reserve, ensemble, insecure)

    with explain_shortage():
        loop.run(_serve_guarded(make_service))
    return 0


async def _serve_guarded(make_service: Callable[[], WorkerService]) -> None:
    def make() -> WorkerService:
        service = make_service()
        asyncio.get_running_loop().add_signal_handler(GUARDIAN_DIED, service.die)
        return service

    await serve(make)


@contextmanager
def explain_shortage() -> Iterator[None]:
    """Turn an OSError about a shortage into a GandyError that explains it."""
    try:
        yield
    except OSError as error:
        shortage = find_shortage(error)
        if shortage is None:
            raise
        raise GandyError(f"the worker cannot go on: it is short of {shortage}") from error


class RunnableWorker(Protocol):
    """A worker of a foreman or of another server."""

    async def run(self) -> None: ...

    async def stop(self) -> None: ...


async def serve(make_service: Callable[[], RunnableWorker]) -> None:
    """Run a worker until a signal or the foreman ends it."""
    service = make_service()
    running = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()

    def stop(number: int) -> None:
        # Only a second Ctrl-C hurries: SIGTERM to a process group comes twice, once forwarded by the guardian.
        if number == signal.SIGINT or not stopping:
            stopping.add(asyncio.ensure_future(service.stop()))

    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, stop, number)
    await service.run()
    await asyncio.gather(*stopping, return_exceptions=True)
