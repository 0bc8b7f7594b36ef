"""What all commands have in common: help with examples and exit codes, and how they start the long-running ones."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gandy.cli import main
from gandy.doors.pingpong.opening import PingPongOpening
from gandy.doors.roundrobin.opening import RoundRobinOpening
from gandy.doors.v1.opening import V1Opening
from gandy.foreman.doors import Doors


def find_commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from find_commands(found, (*path, name))


PATHS = list(find_commands(main.program))


def test_commands_are_those_of_the_book() -> None:
    told = {" ".join(path) for path in PATHS}
    verbs = ["list", "show", "wait", "output", "cancel", "hold", "release", "retry", "explain", "forget"]
    assert told >= {f"job {verb}" for verb in verbs}
    assert told >= {"up", "submit", "status", "foreman run", "worker run", "worker list", "worker stop", "worker drain"}


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_has_examples_and_exit_codes(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main.program, [*path, "--help"])
    assert result.exit_code == 0
    assert f"\n    gandy {' '.join(path)}" in result.stdout or f"| gandy {' '.join(path)}" in result.stdout
    assert "Exit codes:\n    0  done\n" in result.stdout


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the programs behind the commands were told."""
    told: dict[str, Any] = {}

    def run(**options: Any) -> int:
        told.update(options)
        return 5

    for name in ("gandy.foreman.main", "gandy.worker.main", "gandy.up"):
        module = ModuleType(name)
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent != "gandy":
            package = ModuleType(parent)
            setattr(package, child, module)
            monkeypatch.setitem(sys.modules, parent, package)
    monkeypatch.setenv("GANDY_HOME", "/home/x")
    monkeypatch.delenv("GANDY_FOREMAN", raising=False)
    return told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "up --slots 4 --store memory: --commands kitchen --reserve 2 --listen tcp://h:1",
            {
                "slots": 4,
                "store": "memory:",
                "preload": (),
                "commands": ("kitchen",),
                "reserve": 2,
                "listen": ("tcp://h:1",),
            },
        ),
        ("up", {"slots": None, "store": None, "preload": (), "commands": (), "reserve": 0, "listen": ()}),
        (
            "foreman run --store memory: --listen tcp://[::]:1 --v1-listen h:1 --grace 2min --insecure "  # noqa: ISC004
            "--roundrobin tcp://h:2 --roundrobin-command 0x20=a --roundrobin-expiry 1 --roundrobin-limit 9 "
            "--pingpong tcp://h:3 --pingpong-command b --pingpong-expiry 2 --curve keys",
            {
                "doors": Doors(
                    ("tcp://[::]:1",),
                    (
                        V1Opening("h:1"),
                        RoundRobinOpening("tcp://h:2", "keys", ("0x20=a",), 1.0, 9.0),
                        PingPongOpening("tcp://h:3", "keys", "b", 2.0),
                    ),
                ),
                "store": "memory:",
                "grace": 120.0,
                "insecure": True,
                "keep_results": 2_592_000.0,
            },
        ),
        (
            "foreman run",
            {
                "doors": Doors(),
                "store": None,
                "grace": 15.0,
                "insecure": False,
                "keep_results": 2_592_000.0,
            },
        ),
        (
            "worker run --foreman tcp://h --slots 2 --tag a --tag b --name hut --insecure --keep-output 5M "  # noqa: ISC004
            "--preload m --commands kitchen:cook --reserve 1 --ensemble band",
            {
                "foreman": ("tcp://h",),
                "slots": 2,
                "tags": ("a", "b"),
                "name": "hut",
                "insecure": True,
                "keep_output": 5_000_000,
                "preload": ("m",),
                "commands": ("kitchen:cook",),
                "reserve": 1,
                "ensemble": "band",
            },
        ),
        (
            "worker run --ensemble band",
            {
                "foreman": ("ensemble:band",),
                "slots": None,
                "tags": (),
                "name": None,
                "insecure": False,
                "keep_output": 10_000_000_000,
                "preload": (),
                "commands": (),
                "reserve": 0,
                "ensemble": "band",
            },
        ),
        (
            "worker run",
            {
                "foreman": (),
                "slots": None,
                "tags": (),
                "name": None,
                "insecure": False,
                "keep_output": 10_000_000_000,
                "preload": (),
                "commands": (),
                "reserve": 0,
                "ensemble": None,
            },
        ),
    ],
)
def test_programs_are_told_what_the_command_line_says(started: dict[str, Any], line: str, told: dict[str, Any]) -> None:
    result = CliRunner().invoke(main.program, line.split())
    assert result.exit_code == 5
    assert started == {"home": "/home/x", **told}


def test_bad_address_is_told(started: dict[str, Any]) -> None:
    result = CliRunner().invoke(main.program, ["status", "--foreman", "http://x/y"])
    assert (result.exit_code, result.stderr) == (
        1,
        "gandy: 'http://x/y' is not an address; write unix:PATH or tcp://HOST:PORT\n",
    )
