"""`gandy worker run --roundrobin`: a worker for a round-robin server, in the foreground."""

from pathlib import Path

from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.worker import RoundRobinService
from gandy.doors.zmq_worker import prepare, work
from gandy.errors import ConfigError
from gandy.worker.commands import load_all
from gandy.worker.main import OUTPUT_NAME, make_about


def run(
    *,
    home: str,
    url: str,
    insecure: bool,
    curve: str | None,
    codes: tuple[str, ...],
    slots: int | None,
    name: str | None,
    preload: tuple[str, ...],
    commands: tuple[str, ...],
) -> int:
    """Raises: ConfigError, GandyError."""
    address, keys = prepare(url, insecure, curve)
    about = make_about(slots, (), name)
    installed = load_all(commands)
    table = CommandCodes(codes)
    missing = [entry.name for entry in table if installed.find(entry.name.encode()) is None]
    if missing:
        raise ConfigError(f"no command {missing[0]} is installed: --commands MODULE says where it is")
    folder = Path(home) / OUTPUT_NAME / f"roundrobin-{about.name}"
    return work(lambda: RoundRobinService(address, about.slots, installed, table, folder, preload, keys))
