"""The commands that a worker has installed."""

from collections.abc import Iterator
from threading import Thread

import pytest

from gandy.worker import commands as commands_module
from gandy.worker.commands import Command, Commands, list_built_in


def boil() -> None: ...


def test_command_can_be_replaced_when_there_is_no_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_module, "MAX_COMMANDS", len(list_built_in()) + 1)
    commands = Commands()
    commands.add(boil, slots=1)
    commands.add(boil, slots=2)
    assert [command.slots for command in commands if command.name == "boil"] == [2]


class SlowCommands(Commands):
    """While it is read, another thread installs a command elsewhere."""

    thread: Thread | None = None

    def __iter__(self) -> Iterator[Command]:
        if self.thread is not None and not self.thread.ident:
            self.thread.start()
            self.thread.join(0.2)
        return super().__iter__()


def test_command_that_is_installed_during_another_change_is_offered() -> None:
    commands, slow = Commands(), SlowCommands()
    commands.include(slow)
    slow.thread = Thread(target=commands.add, args=(boil,))
    commands.add(boil, name="fry")
    slow.thread.join()
    assert {"boil", "fry"} <= {command.name for command in commands}
