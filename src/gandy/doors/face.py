"""The options and examples that doors add to `gandy foreman run` and `gandy worker run`.

A door has one line here, in FACES. It describes itself in the `face` module of its folder.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import click

from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import refuse_options

# To remove a door, delete its folder and its line here, as tests/integration/doors/test_removal.py does. Round-robin
# also has one line in cli/main.py for its consoles, and one in worker/commands.py (MORE_BUILT_IN) for its command
# rr_stream; and `gandy wire` uses the bytes of v1.
FACES: Final = (
    "gandy.doors.v1.face",
    "gandy.doors.roundrobin.face",
    "gandy.doors.pingpong.face",
)

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Any], Any]  # what click.option returns
Values = dict[str, Any]  # of options, by name


class WorkerFace(NamedTuple):
    """What a door adds to `gandy worker run`, for workers of another kind of server."""

    options: tuple[Option, ...]
    refused: tuple[tuple[str, tuple[str, ...]], ...]  # reasons, and the options of other workers that they refuse
    run: Callable[[Values, Values], int]  # with the door's own options, and the remaining ones
    examples: tuple[str, ...] = ()


class DoorFace(NamedTuple):
    """What one door adds. The option `switch` opens the door; the names of its other options begin with that."""

    switch: str
    options: tuple[Option, ...]  # of `gandy foreman run`
    make_opening: Callable[[Values, str | None], DoorOpening]  # with the door's options, and the folder of keys
    has_curve: bool = True  # False: it does not use ZeroMQ
    examples: tuple[str, ...] = ()
    worker: WorkerFace | None = None

    @property
    def flag(self) -> str:
        return "--" + self.switch.replace("_", "-")

    def take_own(self, ctx: click.Context, values: Values) -> Values | None:
        """Take this door's options out of all. None: it is not opened. Raises: UsageError if its switch is missing."""
        names = [name for name in values if name == self.switch or name.startswith(f"{self.switch}_")]
        own = {name: values.pop(name) for name in names}
        if own[self.switch] is not None:
            return own
        refuse_options(ctx, f"needs {self.flag}", *names)
        return None


curve_option: Final = click.option(
    "--curve",
    metavar="FOLDER",
    help="Keys for ZeroMQ. A foreman makes them there; peers need copies of server.key and clients/crew.key_secret.",
)


@cache
def _load() -> tuple[DoorFace, ...]:
    return tuple(import_module(name).FACE for name in FACES)


def _list_keyed() -> list[DoorFace]:
    return [face for face in _load() if face.has_curve]


def _list_worker_faces() -> list[tuple[DoorFace, WorkerFace]]:
    return [(face, face.worker) for face in _load() if face.worker is not None]


def _add(command: F, options: Iterable[Option]) -> F:
    curve = (curve_option,) if _list_keyed() else ()
    for option in reversed((*options, *curve)):
        command = option(command)
    return command


def _refuse_curve(ctx: click.Context) -> None:
    refuse_options(ctx, f"needs {' or '.join(face.flag for face in _list_keyed())}", "curve")


def foreman_options(command: F) -> F:
    """Add the options of all doors to `gandy foreman run`."""
    return _add(command, (option for face in _load() for option in face.options))


def foreman_examples() -> tuple[str, ...]:
    return tuple(example for face in _load() for example in face.examples)


def take_doors(ctx: click.Context, values: Values) -> tuple[DoorOpening, ...]:
    """The doors to be opened. Takes their options out of `values`. Raises: UsageError."""
    curve = values.pop("curve", None)
    found = [(face, face.take_own(ctx, values)) for face in _load()]
    chosen = [(face, own) for face, own in found if own is not None]
    if not any(face.has_curve for face, _ in chosen):
        _refuse_curve(ctx)
    return tuple(face.make_opening(own, curve) for face, own in chosen)


def worker_options(command: F) -> F:
    """Add the options of all doors to `gandy worker run`."""
    return _add(command, (option for _, worker in _list_worker_faces() for option in worker.options))


def worker_examples() -> tuple[str, ...]:
    return tuple(example for _, worker in _list_worker_faces() for example in worker.examples)


def run_worker(ctx: click.Context, values: Values) -> int | None:
    """Run a worker for another kind of server, if its switch is given.

    Otherwise returns None, and takes the options of doors out of `values`.

    Raises: UsageError, ConfigError, GandyError.
    """
    found = [(face, worker, face.take_own(ctx, values)) for face, worker in _list_worker_faces()]
    chosen = [(face, worker, own) for face, worker, own in found if own is not None]
    if not chosen:
        values.pop("curve", None)
        _refuse_curve(ctx)
        return None
    if len(chosen) > 1:
        flags = " or ".join(face.flag for face, _, _ in chosen)
        raise click.UsageError(f"a worker has one server: {flags}", ctx)
    ((_, worker, own),) = chosen
    for why, names in worker.refused:
        refuse_options(ctx, why, *names)
        for name in names:
            del values[name]
    return worker.run(own, values)
