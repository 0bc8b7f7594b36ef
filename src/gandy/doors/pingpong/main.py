"""`gandy worker run --pingpong`: a worker for a ping-pong broker, in the foreground."""

from pathlib import Path

from gandy.doors.pingpong.worker import PingPongService
from gandy.doors.zmq_worker import prepare, work
from gandy.worker.commands import load_all
from gandy.worker.main import OUTPUT_NAME, make_about


def run(
    *,
    home: str,
    url: str,
    insecure: bool,
    curve: str | None,
    command: str,
    name: str | None,
    preload: tuple[str, ...],
    commands: tuple[str, ...],
) -> int:
    """Raises: ConfigError, GandyError."""
    address, keys = prepare(url, insecure, curve)
    about = make_about(1, (), name)
    installed = load_all(commands)
    folder = Path(home) / OUTPUT_NAME / f"pingpong-{about.name}"
    return work(lambda: PingPongService(address, command, installed, folder, preload, keys))
