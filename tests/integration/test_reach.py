"""Whom clients and workers trust with their first word."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.as_root import can_be_nobody

from gandy.config import parse_address
from gandy.errors import LinkError
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
