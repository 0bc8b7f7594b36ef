"""Commands that a worker has installed, by name, and how each of them runs. Calls nothing.

A coroutine function or an asynchronous generator runs on the worker's loop; a plain function or generator runs in a
thread, or, isolated, in a process that can be killed.
"""

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from enum import Enum
from functools import cache, partial
from importlib import import_module
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar, overload

from gandy.errors import ConfigError, GandyError
from gandy.limits import MAX_COMMANDS, MAX_OFFER_BYTES
from gandy.wire.calls import Offer, encode_target

F = TypeVar("F", bound=Callable[..., Any])

PIECE: Final = b"\1" * 32_768


class Way(Enum):
    """How a command runs."""

    AT_ONCE = "at once"  # on the loop, for commands that take no time
    LOOP = "loop"
    LOOP_STREAM = "loop, stream"
    THREAD = "thread"
    THREAD_STREAM = "thread, stream"
    PROCESS = "process"

    @property
    def is_stream(self) -> bool:
        return self in (Way.LOOP_STREAM, Way.THREAD_STREAM)


class Command(NamedTuple):
    """A function under the name by which it is called."""

    name: str
    function: Callable[..., Any]
    way: Way
    slots: int = 1


def ping() -> str:
    """Answer, to show that the worker is there."""
    return "pong"


def echo(value: Any = None) -> Any:
    """Return the argument."""
    return value


async def stream(count: int) -> AsyncIterator[bytes]:
    """Stream this many bytes, in pieces."""
    while count > 0:
        piece = PIECE[:count]
        yield piece
        count -= len(piece)


BUILT_IN: Final = (
    Command("ping", ping, Way.AT_ONCE),
    Command("echo", echo, Way.AT_ONCE),
    Command("stream", stream, Way.LOOP_STREAM),
)
MORE_BUILT_IN: Final = ("gandy.doors.roundrobin.builtins",)  # modules of doors that add commands


@cache
def list_built_in() -> tuple[Command, ...]:
    """List the commands that every worker offers."""
    return (*BUILT_IN, *(command for name in MORE_BUILT_IN for command in import_module(name).BUILT_IN))


class Commands:
    """The commands of a worker. Any thread may change them; `on_change` is called then."""

    def __init__(self) -> None:
        self._own = {command.name: command for command in list_built_in()}
        self._included: list[Commands] = []
        self._lock = Lock()
        self.on_change: Callable[[], None] = lambda: None
        self._renew()

    def __iter__(self) -> Iterator[Command]:
        return iter(list(self._all.values()))

    def find(self, name: bytes) -> Command | None:
        """Find a command by its name as the wire has it."""
        return self._by_bytes.get(name)

    def offers(self, slots: int) -> list[Offer]:
        """List what the worker announces. No call takes more than the worker's `slots`."""
        return [Offer(command.name, min(command.slots, slots)) for command in self]

    def add(self, function: Callable[..., Any], name: str = "", slots: int = 1, isolate: bool = False) -> Command:
        """Install a function. It replaces a command of the same name. Raises: ConfigError."""
        command = Command(name or _name_function(function), function, _choose_way(function, isolate), slots)
        try:
            encode_target(command.name)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if slots < 1:
            raise ConfigError(f"a call takes at least one slot, not {slots}")
        with self._lock:
            names = {*self._own, command.name}
            if len(names) > MAX_COMMANDS or sum(map(len, names)) > MAX_OFFER_BYTES // 4:
                raise ConfigError(
                    f"a worker cannot have so many commands: {MAX_COMMANDS:,}, with short names, is the limit"
                )
            self._own[command.name] = command
        self._renew()
        return command

    def remove(self, name: str) -> None:
        """Remove a command. Its calls that run go on. Raises: ConfigError."""
        with self._lock:
            if self._own.pop(name, None) is None:
                raise ConfigError(f"there is no command {name}")
        self._renew()

    def include(self, more: "Commands") -> None:
        """Also offer the commands of another object, following its changes."""
        self._included.append(more)
        more.on_change = self._renew
        self._renew()

    def _renew(self) -> None:
        with self._lock:  # or a thread that is slower could replace the tables of a later change
            self._all = {**self._own, **{command.name: command for part in self._included for command in part}}
            self._by_bytes = {name.encode(): command for name, command in self._all.items()}
            quick = (command for command in self._all.values() if command.way is Way.AT_ONCE)
            # Functions that take no time, by the encoded name with which a call begins.
            self.at_once = {encode_target(command.name): command.function for command in quick}
        self.on_change()

    @overload
    def command(self, function: F, /) -> F: ...

    @overload
    def command(self, /, *, name: str = "", slots: int = 1, isolate: bool = False) -> Callable[[F], F]: ...

    def command(
        self, function: F | None = None, /, *, name: str = "", slots: int = 1, isolate: bool = False
    ) -> F | Callable[[F], F]:
        """Decorate a function: install it, under its own name or another one. Raises: ConfigError."""

        def mark(marked: F) -> F:
            self.add(marked, name, slots, isolate)
            return marked

        return mark if function is None else mark(function)


def _name_function(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", "")
    if not name or name == "<lambda>":
        raise ConfigError(f"{function!r} has no name of its own: give one, command(name=...)")
    return str(name)


def _choose_way(function: Callable[..., Any], isolate: bool) -> Way:
    inner = function.func if isinstance(function, partial) else function
    if not callable(inner):
        raise ConfigError(f"{function!r} cannot be called")
    if not inspect.isroutine(inner):  # an object that can be called
        inner = type(inner).__call__
    ways = {
        Way.LOOP: inspect.iscoroutinefunction(inner),
        Way.LOOP_STREAM: inspect.isasyncgenfunction(inner),
        Way.THREAD_STREAM: inspect.isgeneratorfunction(inner),
    }
    way = next((way for way, applies in ways.items() if applies), Way.PROCESS if isolate else Way.THREAD)
    if isolate and way is not Way.PROCESS:
        raise ConfigError(
            f"{_name_function(function)} is asynchronous or a generator: only plain functions can be isolated"
        )
    return way


def load_all(places: Iterable[str]) -> Commands:
    """Load the commands at these places (MODULE or MODULE:NAME), with the built-in ones. Raises: ConfigError."""
    commands = Commands()
    if "" not in sys.path:
        sys.path.insert(0, "")  # find modules in the folder where the program was started
    for place in places:
        commands.include(_load(place))
    return commands


def _load(place: str) -> Commands:
    """Load the commands of the `gandy.Worker` at MODULE:NAME, or of the only one in MODULE. Raises: ConfigError."""
    module_name, _, name = place.partition(":")
    try:
        module = import_module(module_name)
    except GandyError:
        raise  # by the module's own worker: its text says enough
    except Exception as error:
        text = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"cannot import {module_name or repr(module_name)}: {text}") from error
    found = {key: commands for key, value in vars(module).items() if (commands := _find_commands(value)) is not None}
    if name and name not in found:
        raise ConfigError(f"{module_name} has no gandy.Worker called {name}")
    if not name and len({id(commands) for commands in found.values()}) != 1:
        what = "no gandy.Worker" if not found else f"several workers ({', '.join(sorted(found))}): say MODULE:NAME"
        raise ConfigError(f"{module_name} has {what}")
    return found[name] if name else next(iter(found.values()))


def _find_commands(value: Any) -> Commands | None:
    commands = None if isinstance(value, type) else getattr(value, "commands", None)
    return commands if isinstance(commands, Commands) else None
