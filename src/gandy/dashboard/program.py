"""The dashboard as a program: a client of the crew, and a server for browsers, until a signal."""

import asyncio
import logging
import os
import signal
import ssl
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gandy.client.aio import AsyncClient
from gandy.config import Address
from gandy.dashboard.api.table import ENDPOINTS
from gandy.dashboard.app import App
from gandy.dashboard.bus_view import join_ensemble
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.guard import LOOPBACK_NAMES, Guard
from gandy.dashboard.limits import MIN_TOKEN
from gandy.dashboard.server import HttpServer
from gandy.dashboard.sessions import Sessions
from gandy.errors import ConfigError
from gandy.net import loop
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.terminal.say import say

DEFAULT_PORT: Final = 5430
TRIED_PORTS: Final = 20  # from the default one on, if that is taken
WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised, not bound
TOKEN_VARIABLE: Final = "GANDY_DASHBOARD_TOKEN"  # noqa: S105 - a name


class Options(NamedTuple):
    """What the user asked for."""

    foreman: tuple[str, ...] = ()
    listen: Address | None = None  # None: the default port or the next free one, on this machine
    names: tuple[str, ...] = ()  # of the server, besides the one in `listen`
    own_token: str | None = None
    has_open_metrics: bool = False
    opens_browser: bool = False
    certificate: tuple[str, str] | None = None  # files of the certificate and its key
    ensemble: str | None = None


def run(options: Options) -> int:
    """Run until a signal. Returns the exit code. Raises: ConfigError."""
    begin_log(logging.WARNING)
    allow_many_files()
    loop.run(_run(options))
    return 0


async def _run(options: Options) -> None:
    client = AsyncClient(options.foreman)
    crew = ShownCrew(client, await join_ensemble(options.ensemble))
    dashboard = Dashboard(options, crew)
    should_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, should_stop.set)
    try:
        await dashboard.start()
        await dashboard.wait(should_stop)
    finally:
        await dashboard.stop()
        await client.close()


class Dashboard:
    """The server and what it shows. `start` returns when browsers can come."""

    def __init__(self, options: Options, crew: ShownCrew) -> None:
        self._options = options
        self.crew = crew
        self._url = ""
        self._server: HttpServer | None = None
        self._start_file: Path | None = None
        self._work: list[asyncio.Task[None]] = []
        self.token = ""  # for the next browser
        self.port = 0

    async def start(self) -> None:
        """Raises: ConfigError."""
        for address in _list_addresses(self._options.listen):
            sessions = Sessions(self._options.own_token, self._print_token)
            app = App(
                self.crew,
                Guard(_list_names(self._options, address), address.host in WILDCARDS),
                sessions,
                ENDPOINTS,
                cookie=f"gandy_{address.port}",
                is_secure=self._options.certificate is not None,
                has_open_metrics=self._options.has_open_metrics,
            )
            server = HttpServer(app, _make_context(self._options.certificate))
            try:
                self.port = await server.listen(address)
            except ConfigError:
                if address.port == DEFAULT_PORT + TRIED_PORTS - 1 or self._options.listen is not None:
                    raise
                continue
            break
        self._server = server
        app.cookie = f"gandy_{self.port}"
        self._url = _format_url(address, self.port, self._options)
        self._work = [asyncio.create_task(each) for each in (self.crew.run(), server.run())]
        sessions.print_next()
        if self._options.opens_browser and _has_display(os.environ):
            self._start_file = write_start_file(f"{self._url}?token={self.token}")
            await asyncio.to_thread(webbrowser.open, self._start_file.as_uri())

    async def wait(self, should_stop: asyncio.Event) -> None:
        """Until it should stop. Raises: what ended the work before that."""
        stopping = asyncio.create_task(should_stop.wait())
        ended, _ = await asyncio.wait([stopping, *self._work], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in ended:
            task.result()

    async def stop(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._server is not None:
            await self._server.close()
        if self._start_file is not None:
            self._start_file.unlink(missing_ok=True)

    def count_connections(self) -> int:
        return 0 if self._server is None else self._server.count_connections()

    def _print_token(self, token: str) -> None:
        first = not self.token
        self.token = token
        say("The dashboard is open. In a browser, go to:" if first else "For another browser:", err=True)
        say(f"{self._url}?token={token}")
        sys.stdout.flush()
        if first:
            say("The address works once, then the next one is printed. Ctrl-C stops the dashboard.", err=True)


def _list_addresses(listen: Address | None) -> Sequence[Address]:
    if listen is not None:
        return [listen]
    return [Address("tcp", "127.0.0.1", DEFAULT_PORT + number) for number in range(TRIED_PORTS)]


def _list_names(options: Options, address: Address) -> Sequence[str]:
    named = () if address.host in WILDCARDS else (address.host,)
    return (*LOOPBACK_NAMES, *named, *options.names)


def _format_url(address: Address, port: int, options: Options) -> str:
    scheme = "https" if options.certificate is not None else "http"
    host = options.names[0] if options.names else "127.0.0.1" if address.host in WILDCARDS else address.host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _make_context(certificate: tuple[str, str] | None) -> ssl.SSLContext | None:
    """Raises: ConfigError."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(*certificate)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"cannot use the certificate {certificate[0]}: {error.strerror or error}") from None
    return context


def read_token(file: str | None, environ: Mapping[str, str]) -> str | None:
    """The user's own token, if there is one. Raises: ConfigError."""
    if file is None:
        token, where = environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        if not token:
            return None
    else:
        where = file
        try:
            token = Path(file).read_text(encoding="ascii").strip()
        except OSError as error:
            raise ConfigError(f"cannot read the token in {file}: {error.strerror}") from None
        except ValueError:
            raise ConfigError(f"the token in {file} has characters that are not ASCII") from None
    if len(token) < MIN_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(f"the token in {where} needs at least {MIN_TOKEN} characters, without spaces")
    return token


def write_start_file(url: str) -> Path:
    """A page that leads to the dashboard. All users of this machine see what programs are started with; not this."""
    descriptor, path = tempfile.mkstemp(prefix="gandy-", suffix=".html")  # for this user only
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">\n')
    return Path(path)


def _has_display(environ: Mapping[str, str]) -> bool:
    return sys.platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
