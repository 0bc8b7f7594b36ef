"""Starts a worker for a ZeroMQ server instead of a foreman."""

from collections.abc import Callable

from gandy.doors.sockets.curve import ClientKeys
from gandy.errors import ConfigError
from gandy.net import loop
from gandy.net.exposure import parse_tcp
from gandy.net.open_files import allow_many_files
from gandy.worker.guardian import guard
from gandy.worker.main import RunnableWorker, configure_logging, serve, warn_insecure
from gandy.worker.restart import drop_token


def prepare(url: str, insecure: bool, curve: str | None) -> tuple[str, ClientKeys | None]:
    """The server's address, and keys for it. Raises: ConfigError."""
    drop_token()
    guard()
    configure_logging()
    allow_many_files()
    address = parse_tcp(url)
    if curve:
        return str(address), ClientKeys.open(curve)
    if not insecure:
        # On loopback, too: any user of this machine can listen at the port while the server does not.
        raise ConfigError(
            f"{url} would be without keys: a program that poses as that server can run the commands of this "
            "worker. Use --curve FOLDER for keys, or --insecure for none."
        )
    warn_insecure(str(address))
    return str(address), None


def work(make_service: Callable[[], RunnableWorker]) -> int:
    """Run until a signal or the server ends it."""
    loop.run(serve(make_service))
    return 0
