"""What doors add to `gandy foreman run` and `gandy worker run`.

To remove a door, delete its folder and its line here.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import click

from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import refuse_options

FACES: Final = (
    "gandy.doors.v1.face",
    "gandy.doors.roundrobin.face",
    "gandy.doors.pingpong.face",
)

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]


class DoorFace(NamedTuple):
    """The options of one door. The one named `switch` opens it; the others mean nothing without it."""

    switch: str
    foreman_options: tuple[Option[Any], ...]
    make_door: Callable[
        [dict[str, Any], str | None], DoorOpening
    ]  # from its options, and the folder of keys for ZeroMQ
    has_curve: bool = True  # whether it has keys for ZeroMQ
    worker_options: tuple[Option[Any], ...] = ()
    worker_refuses: tuple[tuple[str, tuple[str, ...]], ...] = ()  # options that its workers do without, and why
    run_worker: Callable[[dict[str, Any]], int] | None = None

    @property
    def option(self) -> str:
        return "--" + self.switch.replace("_", "-")


curve_option: Final = click.option(
    "--curve",
    metavar="FOLDER",
    help="Keys for ZeroMQ. A foreman makes them there; peers need copies of server.key and clients/crew.key_secret.",
)


def _load() -> Iterator[DoorFace]:
    for name in FACES:
        face = import_module(name).FACE
        assert isinstance(face, DoorFace)
        yield face


def _add(command: F, options: list[Option[Any]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _list_names(options: tuple[Option[Any], ...]) -> list[str]:
    def probe() -> None:
        """Take the options, to be asked for their names."""

    parameters: list[click.Parameter] = _add(probe, list(options)).__click_params__  # type: ignore[attr-defined]
    return [str(parameter.name) for parameter in parameters]


def foreman_options(command: F) -> F:
    """The options of all doors of a foreman."""
    return _add(command, [*(option for face in _load() for option in face.foreman_options), curve_option])


def take_doors(ctx: click.Context, told: dict[str, Any]) -> tuple[DoorOpening, ...]:
    """The doors that were asked for. Takes their options out of `told`. Raises: UsageError."""
    faces = list(_load())
    curve = told.pop("curve")
    doors = []
    for face in faces:
        names = _list_names(face.foreman_options)
        own = {name: told.pop(name) for name in names}
        if own[face.switch] is None:
            refuse_options(ctx, f"is for {face.option}, which is not there", *names)
        else:
            doors.append(face.make_door(own, curve))
    keyed = [face for face in faces if face.has_curve]
    if curve is not None and not any(ctx.params[face.switch] is not None for face in keyed):
        raise click.UsageError(f"--curve is for {' and '.join(face.option for face in keyed)}", ctx)
    return tuple(doors)


def worker_options(command: F) -> F:
    """The options of all doors for a worker that works for another kind of server."""
    return _add(command, [*(option for face in _load() for option in face.worker_options), curve_option])


def run_worker(ctx: click.Context, told: dict[str, Any]) -> int | None:
    """Run a worker for another kind of server, if one was asked for. Else `told` is left without options of doors.

    Raises: UsageError, ConfigError, GandyError.
    """
    faces = [face for face in _load() if face.run_worker is not None]
    chosen = [face for face in faces if told[face.switch] is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"a worker works for one: {' or '.join(face.option for face in chosen)}")
    for face in faces:
        if face not in chosen:
            take_out(ctx, told, f"is for {face.option}", *_list_names(face.worker_options))
    if not chosen:
        take_out(ctx, told, f"is for {' and '.join(face.option for face in faces)}", "curve")
        return None
    (face,) = chosen
    for why, names in face.worker_refuses:
        take_out(ctx, told, why, *names)
    assert face.run_worker is not None
    return face.run_worker(told)


def take_out(ctx: click.Context, told: dict[str, Any], why: str, *names: str) -> None:
    """These options are not for this kind of worker. Raises: UsageError, where the user wrote one."""
    for name in names:
        told.pop(name)
    refuse_options(ctx, why, *names)
