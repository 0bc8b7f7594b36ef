"""A crew whose members know one another by the name of their ensemble alone: real commands, in their own network."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kitchens import Kitchen
from tests.e2e.members import Member
from tests.netns.namespaces import Namespace, find_hindrance
from tests.waiting import until

HINDRANCE = find_hindrance()
pytestmark = pytest.mark.skipif(HINDRANCE is not None, reason=str(HINDRANCE))

ENSEMBLE = "the crew"


@pytest.fixture
def kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    """Its foreman is in the ensemble."""
    with Namespace() as namespace, namespace.inside():
        kitchen = Kitchen(tmp_path, "--ensemble", ENSEMBLE)
        try:
            yield kitchen
        finally:
            kitchen.end()


def hire(kitchen: Kitchen, home: Path) -> Member:
    """A worker that knows nothing but the name, and has the key: not even the foreman's home."""
    home.mkdir()
    (home / "keys").mkdir(mode=0o700)
    shutil.copy(Path(kitchen.environment["GANDY_HOME"]) / "keys" / "ensemble.key", home / "keys")
    kitchen.environment["GANDY_HOME"] = str(home)
    return Member(kitchen, "w1", "worker", "run", "--name", "w1", "--ensemble", ENSEMBLE)


def test_workers_and_clients_find_the_foreman_by_name(kitchen: Kitchen, tmp_path: Path) -> None:
    kitchen.workers.append(hire(kitchen, tmp_path / "elsewhere"))
    until(lambda: "ping" in kitchen.list_offers("w1"))
    done = kitchen.run("call", "--foreman", f"ensemble:{ENSEMBLE}", "echo", "7")
    assert done.stdout == b"7\n"


def test_a_foreman_that_is_not_there_is_named(kitchen: Kitchen) -> None:
    kitchen.foreman.end()
    done = kitchen.run("status", "--foreman", "ensemble:nobody", code=1)
    assert b"no foreman is in the ensemble nobody" in done.stderr


def test_a_worker_finds_the_next_foreman(kitchen: Kitchen, tmp_path: Path) -> None:
    kitchen.workers.append(hire(kitchen, tmp_path / "elsewhere"))
    until(lambda: "ping" in kitchen.list_offers("w1"))
    kitchen.foreman.kill()
    kitchen.environment["GANDY_HOME"] = str(tmp_path)
    kitchen.restart_foreman()
    until(lambda: "ping" in kitchen.list_offers("w1"))
