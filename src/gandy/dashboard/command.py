"""`gandy dashboard`: shows a crew in browsers, and to programs as JSON."""

import os
from importlib.util import find_spec
from typing import Final

import click

from gandy.config import Address, parse_address
from gandy.errors import ConfigError
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.options import foreman_option
from gandy.terminal.say import say

EXTRA_MISSING: Final = "the dashboard needs the package h11: run  pip install 'gandy[dashboard]'"


@click.command(
    epilog=make_epilog(
        "gandy dashboard",
        "gandy dashboard --listen 127.0.0.1:8000 --open",
        "gandy dashboard --listen 0.0.0.0:8443 --cert cert.pem --key key.pem --host hut.example.org",
        "gandy dashboard --token-file token --open-metrics",
        exits=EXIT_HELP,
    )
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where browsers connect. Default: 127.0.0.1:5430, or the next port that is free.",
)
@click.option("--open/--no-open", "opens_browser", default=False, help="Open a browser, if there is a display.")
@foreman_option
@click.option("--host", "names", multiple=True, metavar="NAME", help="Another name by which browsers call this server.")
@click.option("--token-file", metavar="FILE", help="A token for programs. Or set GANDY_DASHBOARD_TOKEN.")
@click.option("--open-metrics", "has_open_metrics", is_flag=True, help="Serve /metrics without a token.")
@click.option("--cert", metavar="FILE", help="Serve HTTPS with this certificate, in PEM.")
@click.option("--key", metavar="FILE", help="The key of the certificate, in PEM.")
@click.option(
    "--insecure", is_flag=True, help="Let other machines connect without HTTPS: tokens can be read on the way."
)
@click.option("--ensemble", metavar="NAME", help="Also show this ensemble of the bus.")
def dashboard(
    listen: str | None,
    opens_browser: bool,
    foreman: tuple[str, ...],
    names: tuple[str, ...],
    token_file: str | None,
    has_open_metrics: bool,
    cert: str | None,
    key: str | None,
    insecure: bool,
    ensemble: str | None,
) -> None:
    """Show the crew in a browser, and to programs as JSON.

    The dashboard is a client of the crew, on any machine that joined it: the page can do what its key
    allows. It prints an address with a token, which works once.
    """
    if find_spec("h11") is None:
        raise ConfigError(EXTRA_MISSING)
    from gandy.dashboard.program import Options, read_token, run

    address = None if listen is None else _parse_listen(listen)
    certificate = _pair(cert, key)
    if address is not None and not _is_loopback(address.host) and certificate is None:
        if not insecure:
            raise click.UsageError(
                f"--listen {listen}: other machines could connect, and tokens and cookies would cross the network "
                "readable by all; give --cert and --key, or say --insecure"
            )
        say("gandy: INSECURE: tokens and cookies cross the network readable by all", err=True)
    token = read_token(token_file, os.environ)
    options = Options(foreman, address, names, token, has_open_metrics, opens_browser, certificate, ensemble)
    raise click.exceptions.Exit(run(options))


def _parse_listen(text: str) -> Address:
    try:
        address = parse_address(text)
    except ConfigError:
        raise click.UsageError(f"--listen {text}: write HOST:PORT, with a port up to 65535") from None
    if address.scheme != "tcp" or "://" in text or ":" not in text.removeprefix("["):
        raise click.UsageError(f"--listen {text}: write HOST:PORT, with a port up to 65535")
    return address


def _pair(cert: str | None, key: str | None) -> tuple[str, str] | None:
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together.")
    return None if cert is None or key is None else (cert, key)


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
