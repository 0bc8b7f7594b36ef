"""What doors add to the command line, and which mistakes of its user are refused."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from gandy.cli.foreman import run as foreman_run
from gandy.cli.worker import run as worker_run
from gandy.doors import face as faces
from gandy.terminal.options import FOREMAN_ONLY

SWITCHES = ("v1_listen", "roundrobin", "pingpong")
WORKER_SWITCHES = ("roundrobin", "pingpong")


def refuse(command: click.Command, *words: str) -> str:
    """The message of a usage error."""
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2, result.output
    return result.output.rpartition("Error: ")[2].strip()


def find_value(option: click.Parameter) -> str:
    return "1s" if option.metavar == "TIME" else "0x20=cook" if option.metavar == "CODE=NAME" else "1"


def list_options(command: click.Command, switches: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Each option of a door beside its switch, with a value and the switch."""
    for option in command.params:
        name = option.name or ""
        for switch in switches:
            if name != switch and name.startswith(switch):
                yield option.opts[0], find_value(option), "--" + switch.replace("_", "-")


FOREMAN_CASES = list(list_options(foreman_run, SWITCHES))
WORKER_CASES = list(list_options(worker_run, WORKER_SWITCHES))


def test_each_door_is_known_by_its_switch() -> None:
    assert tuple(face.switch for face in faces._load()) == SWITCHES
    assert tuple(face.switch for face in faces._load() if face.worker is not None) == WORKER_SWITCHES
    assert {option for option, _, _ in FOREMAN_CASES} == {
        "--roundrobin-command", "--roundrobin-expiry", "--roundrobin-limit", "--pingpong-command", "--pingpong-expiry",
    }  # fmt: skip
    assert {option for option, _, _ in WORKER_CASES} == {"--roundrobin-command", "--pingpong-command"}


def list_names(options: tuple[faces.Option, ...]) -> list[str]:
    @click.command
    def probe() -> None: ...

    for option in options:
        probe = option(probe)
    return [parameter.name or "" for parameter in probe.params]


@pytest.mark.parametrize("face", faces._load(), ids=lambda face: face.switch)
def test_the_names_of_a_doors_options_begin_with_its_switch(face: faces.DoorFace) -> None:
    for options in (face.options, *((face.worker.options,) if face.worker is not None else ())):
        names = list_names(options)
        assert face.switch in names
        assert all(name.startswith(f"{face.switch}_") for name in names if name != face.switch)


@pytest.mark.parametrize(("option", "value", "switch"), FOREMAN_CASES)
def test_a_foremans_option_needs_the_switch_of_its_door(option: str, value: str, switch: str) -> None:
    assert refuse(foreman_run, option, value) == f"{option} needs {switch}"


@pytest.mark.parametrize(("option", "value", "switch"), WORKER_CASES)
def test_a_workers_option_needs_the_switch_of_its_door(option: str, value: str, switch: str) -> None:
    assert refuse(worker_run, option, value) == f"{option} needs {switch}"


@pytest.mark.parametrize(("option", "value", "switch"), FOREMAN_CASES)
def test_the_switch_of_another_door_is_not_enough(option: str, value: str, switch: str) -> None:
    assert refuse(foreman_run, "--v1-listen", "unix:x", option, value) == f"{option} needs {switch}"


@pytest.mark.parametrize(
    ("command", "words"),
    [(foreman_run, ()), (foreman_run, ("--v1-listen", "unix:x")), (worker_run, ())],
    ids=["foreman", "v1", "worker"],
)
def test_keys_for_zeromq_need_a_door_of_zeromq(command: click.Command, words: tuple[str, ...]) -> None:
    assert refuse(command, "--curve", "keys", *words) == "--curve needs --roundrobin or --pingpong"


def test_a_worker_has_one_server() -> None:
    message = refuse(worker_run, "--roundrobin", "tcp://h:1", "--pingpong", "tcp://h:2", "--pingpong-command", "cook")
    assert message == "a worker has one server: --roundrobin or --pingpong"


VALUES = {"foreman": "unix:x", "ensemble": "band", "tags": "gpu", "reserve": "1", "keep_output": "1G"}


@pytest.mark.parametrize("name", FOREMAN_ONLY)
@pytest.mark.parametrize("switch", ["--roundrobin", "--pingpong"])
def test_options_for_a_foremans_workers_are_refused(name: str, switch: str) -> None:
    (option,) = [each.opts[0] for each in worker_run.params if each.name == name]
    message = refuse(worker_run, switch, "tcp://h:1", option, VALUES[name])
    assert message == f"{option} is for workers of a foreman, and not with {switch}"


def test_a_ping_pong_worker_has_one_slot_and_one_command() -> None:
    message = refuse(worker_run, "--pingpong", "tcp://h:1", "--slots", "2")
    assert message == "--slots is not with --pingpong: its workers have one slot and one command"
    assert refuse(worker_run, "--pingpong", "tcp://h:1").startswith("--pingpong needs --pingpong-command NAME")


def test_help_has_an_example_of_each_zeromq_door() -> None:
    for command, examples in ((foreman_run, faces.foreman_examples()), (worker_run, faces.worker_examples())):
        assert command.epilog is not None
        for flag in ("--roundrobin", "--pingpong"):
            assert any(flag in example for example in examples)
        assert all(example in command.epilog for example in examples)
