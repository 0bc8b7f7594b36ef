"""Opens the doors for ZeroMQ peers, and remembers who registered at the round-robin door when the foreman is gone.

Its workers do not notice that their server was started again. So the next foreman asks those of the last one, as they
connect, and takes back whoever answers.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gandy.config import Address
from gandy.core.doors.pingpong import PingPongDoor
from gandy.core.doors.registered import MAX_LOST, Times, Workers
from gandy.core.doors.roundrobin import RoundRobinDoor
from gandy.errors import ConfigError
from gandy.foreman.gate import DoorGate, ForemanRoll
from gandy.foreman.main import Doors
from gandy.foreman.server import Server
from gandy.gateway.addresses import check_bind
from gandy.gateway.curve import ServerKeys
from gandy.gateway.router import Router
from gandy.interfaces import ANY, ANY_IPV4
from gandy.net.links import STRANGER, Visitor
from gandy.wire.calls import encode_target
from gandy.wire.command_codes import CommandCodes

MEMORY_NAME: Final = "roundrobin.json"
ANYWHERE: Final = (ANY_IPV4, ANY, "*")
SAVE_PAUSE: Final = 0.5  # seconds from a change until it is written, with all that follow

log = logging.getLogger("gandy.foreman")


def open_doors(server: Server, doors: Doors, home: str, insecure: bool) -> list[tuple[Address, str]]:
    """Where they are, also for people. Raises: ConfigError."""
    opened = []
    keys = ServerKeys.open(doors.curve) if doors.curve is not None else None
    if doors.roundrobin is not None:
        address = check_bind(doors.roundrobin, curve=keys is not None, insecure=insecure)
        router = Router(address, curve=keys)
        codes = CommandCodes(doors.roundrobin_commands)
        times = Times(expiry=doors.roundrobin_expiry, call_limit=doors.roundrobin_limit)
        door = RoundRobinDoor(server.lane.switchboard, ForemanRoll(server), codes, times)
        memory = Memory(Path(home) / MEMORY_NAME, door.workers)
        memory.open(server.lane.begin())
        server.on_stop.append(memory.save)
        if address.host in ANYWHERE:
            log.warning(
                "original peers of the round-robin queue call their server by the address that they connect to: "
                "let it listen at that one, not at %s",
                address.host,
            )
        router.on_refused = _make_refusal(server, "round-robin")
        server.lane.add_gate(DoorGate("round-robin", door, router, server.lane))
        opened.append((address, f"{router.address} (round-robin)"))
    if doors.pingpong is not None:
        _check_name(doors.pingpong_command)
        address = check_bind(doors.pingpong, curve=keys is not None, insecure=insecure)
        router = Router(address, curve=keys)
        pingpong = PingPongDoor(
            server.lane.switchboard, ForemanRoll(server), doors.pingpong_command, doors.pingpong_expiry
        )
        router.on_refused = _make_refusal(server, "ping-pong")
        server.lane.add_gate(DoorGate("ping-pong", pingpong, router, server.lane))
        opened.append((address, f"{router.address} (ping-pong: {doors.pingpong_command})"))
    return opened


def _make_refusal(server: Server, name: str) -> Callable[[str], None]:
    return lambda place: server.on_refused(Visitor(STRANGER, place), f"no key for the {name} door")


def _check_name(name: str) -> None:
    try:
        encode_target(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


class Memory:
    """Routing ids and slots of workers, in a file. Without it workers have to be told to register, and that is all."""

    def __init__(self, path: Path, workers: Workers) -> None:
        self._path = path
        self._workers = workers
        self._saving: asyncio.TimerHandle | None = None

    def open(self, now: float) -> None:
        for routing_id, slots in self._load().items():
            self._workers.lost[routing_id] = (slots, now)
        self._workers.on_change = self._save_soon

    def _save_soon(self) -> None:
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_PAUSE, self.save)

    def _load(self) -> dict[bytes, int]:
        try:
            told = json.loads(self._path.read_bytes())
            return {b64decode(key): int(slots) for key, slots in list(told.items())[:MAX_LOST]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, Base64Error) as error:
            log.warning("who was at the round-robin door cannot be read from %s: %s", self._path, error)
            return {}

    def save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
        self._saving = None
        slots = self._workers.list_slots()
        text = json.dumps({b64encode(key).decode(): count for key, count in slots.items()})
        other = self._path.with_suffix(".new")
        try:
            other.touch(mode=0o600)
            other.write_text(text)
            other.replace(self._path)
        except OSError as error:
            log.warning("who is at the round-robin door cannot be written to %s: %s", self._path, error)
