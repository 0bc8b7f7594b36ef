"""Whom clients and workers trust with their first word."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.as_root import can_be_nobody

from gandy.config import parse_address
from gandy.core.roles import CrewRole
from gandy.errors import LinkError
from gandy.keys.crew import CrewKeys, Membership
from gandy.limits import MAX_FOREMAN_ADDRESSES
from gandy.moments import Wall
from gandy.reach import Reach

POSER = """
import os, socket, sys
door = socket.socket(socket.AF_UNIX)
os.setgid(65534); os.setuid(65534)
door.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
door.listen()
print("ready", flush=True)
link, _ = door.accept()
try:
    link.sendall(b"run this")
    print(link.recv(100), flush=True)
except ConnectionError:  # it was cut with our words unread
    print(b"", flush=True)
"""


class Ear(asyncio.Protocol):
    heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data


@pytest.mark.skipif(not can_be_nobody(), reason="only root can be another user")
def test_a_socket_of_another_user_is_neither_heard_nor_told_anything(tmp_path: Path) -> None:
    """It could answer HELLO before it came, and then have a worker run something."""
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    path = tmp_path / "foreman.sock"
    made: list[Ear] = []

    def make(_place: object) -> Ear:
        made.append(Ear())
        return made[-1]

    with subprocess.Popen([sys.executable, "-c", POSER, str(path)], stdout=subprocess.PIPE) as poser:
        assert poser.stdout is not None
        assert poser.stdout.readline() == b"ready\n"
        with pytest.raises(LinkError, match="belongs to another user"):
            asyncio.run(Reach((parse_address(f"unix:{path}"),)).dial(make))
        assert poser.stdout.readline() == b"b''\n"
    assert made == []


def test_a_socket_without_a_listener_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "foreman.sock"
    reach = Reach((parse_address(f"unix:{path}"),))
    with pytest.raises(LinkError, match="no foreman is running"):
        asyncio.run(reach.dial(lambda _place: Ear()))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(LinkError, match="no foreman is running"):
        asyncio.run(reach.dial(lambda _place: Ear()))


NOW = Wall(1e9)
FOREMEN = (("unix:/a/foreman.sock", "tcp://a:1", "tcp://a:2"), ("tcp://b:1",), ("tcp://c:1", "tcp://c:2"))


def some_keys(folder: Path, *addresses: str) -> CrewKeys:
    about = Membership("f" * 64, "hut", CrewRole.WORKER, addresses)
    return CrewKeys.save(folder / "crew", about, b"secret", b"certificate")


def find_addresses(folder: Path) -> tuple[str, ...]:
    found = CrewKeys.find(folder / "crew")
    assert found is not None
    return found.about.addresses


def test_a_peer_that_joined_remembers_the_addresses_of_all_foremen(tmp_path: Path) -> None:
    """After the one that is used: the first of each foreman before the second of any, and then those known before."""
    keys = some_keys(tmp_path, "tcp://used:1", "tcp://old:1", "tcp://b:1")
    Reach((), keys).remember_foremen(FOREMEN, NOW)
    expected = ("tcp://used:1", "tcp://b:1", "tcp://c:1", "tcp://a:1", "tcp://c:2", "tcp://a:2", "tcp://old:1")
    assert find_addresses(tmp_path) == expected
    Reach((), keys).remember_foremen([[f"tcp://d:{port}"] for port in range(1, 20)], NOW)
    assert len(find_addresses(tmp_path)) == MAX_FOREMAN_ADDRESSES


def test_a_peer_that_has_not_joined_remembers_nothing(tmp_path: Path) -> None:
    Reach((), some_keys(tmp_path)).remember_foremen(FOREMEN, NOW)
    Reach(()).remember_foremen(FOREMEN, NOW)
    assert find_addresses(tmp_path) == ()


def test_places_are_added_after_our_own() -> None:
    reach = Reach((parse_address("unix:/a"),)).add_places(["tcp://b:1", "unix:/a"])
    assert [str(place) for place in reach.places] == ["unix:/a", "tcp://b:1"]
