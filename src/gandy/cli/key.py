"""`gandy key`, `gandy invite`, `gandy join`, `gandy leave`: manage keys, and how a machine gets one."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import click

from gandy.clocks import read_wall
from gandy.config import find_home
from gandy.errors import ConfigError
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import Format, Seconds, open_owner, output_option
from gandy.terminal.say import print_json, say

LIST_KEYS: Final = "id, name, role, state, made, expires, origin, links and uses"
ROLES: Final = ("worker", "client", "observer")


@click.group(epilog=make_epilog("gandy key list", "gandy key new worker --to usb-stick/hut", "gandy key revoke hut"))
def key() -> None:
    """List, make and revoke keys of this machine's foreman.

    Only the foreman's own user may do so, on its machine. Other machines get a key with 'gandy invite'.
    """


@key.command(
    "list",
    epilog=make_epilog("gandy key list", "gandy key list --output json"),
    help="List keys and open invitations. Links are those that are open now in the whole crew; a worker has one to "
    f"each shard of its jobs (see 'gandy foreman list').\n\nWith --output json, each has the keys {LIST_KEYS}.",
)
@output_option
def list_keys(output: Format) -> None:
    with open_owner() as client:
        rows = client.keys()
    _show(rows, output)


@key.command(epilog=make_epilog("gandy key new worker", "gandy key new client --name anna --ttl 30d --to keys-of-anna"))
@click.argument("role", type=click.Choice(ROLES))
@click.option("--name", metavar="TEXT", help="The name of its owner. Default: the role and some digits.")
@click.option("--ttl", type=Seconds(), metavar="TIME", help="How long it is valid. Default: until it is revoked.")
@click.option("--to", metavar="FOLDER", help="Where to put it. Default: the key of this home for the role.")
def new(role: str, name: str | None, ttl: float | None, to: str | None) -> None:
    """Make a key, in a folder whose files can be copied to GANDY_HOME/crew on another machine.

    The folder also gets the key of the crew's ensembles, except for observers. Without --to, the new key replaces the
    one that this home has for the role; the old one is valid until it is revoked.
    """
    from gandy.core.roles import CrewRole
    from gandy.keys.certificates import make_secret
    from gandy.keys.crew import CrewKeys, Membership
    from gandy.keys.ensemble import OWN_FOLDER, note_shared, open_own_key
    from gandy.keys.files import lock_folder

    home = find_home(os.environ, sys.platform)
    folder = Path(to) if to is not None else Path(home) / OWN_FOLDER / role
    secret = make_secret()
    name = name or f"{role}-{secrets.token_hex(3)}"
    with open_owner() as client:
        made = client.make_key(secret.public, name, role, ttl)
    addresses = made.addresses if to is not None else ()
    about = Membership(made.foreman, name, CrewRole(role), addresses, made.ensemble)
    shared = b""
    if to is not None and about.role is not CrewRole.OBSERVER:
        shared = open_own_key(home).secret
        note_shared(home)
    with lock_folder(folder):
        CrewKeys.save(folder, about, secret.pem, made.certificate, made.identity, shared)
    say(f"a key for a {role} is in {folder}")
    if to is None:
        return
    say("copy its files to GANDY_HOME/crew on another machine", err=True)
    if not addresses:
        say("the foreman accepts no other machines yet: start it with --listen", err=True)


@key.command(epilog=make_epilog("gandy key revoke hut", "gandy key revoke 4f1c93a0b2d1 --output json"))
@click.argument("wanted", metavar="KEY")
@output_option
def revoke(wanted: str, output: Format) -> None:
    """Revoke a key, or an open invitation, by its name or its id.

    Links with that key are cut at once, and tasks of its worker go to other workers. Workers and clients also have the
    key of the crew's ensembles, which stays valid: 'gandy key rotate' makes another one.
    """
    with open_owner() as client:
        rows = client.revoke_key(wanted)
    if output != "table":
        _show(rows, output)
        return
    for row in rows:
        say(f"the key {row.id} of {row.name} ({row.role}) is revoked")
    if not rows:
        say(f"{wanted} has no valid key")
    elif any(row.role != "observer" for row in rows):
        say("its owner can still be in the crew's ensembles: 'gandy key rotate' ends that", err=True)


@key.command(epilog=make_epilog("gandy key rotate"))
def rotate() -> None:
    """Make a new key for the crew's ensembles: the old one is not accepted there any more.

    Programs use it from their next start. So restart the foreman and every program of this home that is in an ensemble;
    other machines get the new key when they join again. Until then, programs with the old key and the new one do not
    find each other.
    """
    from gandy.keys.ensemble import renew_own_key
    from gandy.keys.foreman import CERTIFICATE, FOLDER

    home = find_home(os.environ, sys.platform)
    if not (Path(home) / FOLDER / CERTIFICATE).exists():
        raise ConfigError("this key is made in the foreman's home, and no foreman was ever started in this one")
    renew_own_key(home)
    say("the ensembles of this crew have a new key")
    say("next: restart the foreman, and let other machines join again with 'gandy invite'", err=True)


@click.command(
    epilog=make_epilog(
        "gandy invite --worker",
        "gandy invite --client --ttl 1d --uses 5",
        "gandy invite --worker --address tcp://crew.example.org:5429",
        "gandy invite --foreman",
    )
)
@click.option("--worker", "role", flag_value="worker", help="For a machine that works for this crew.")
@click.option("--client", "role", flag_value="client", help="For a user who submits jobs and calls commands.")
@click.option("--observer", "role", flag_value="observer", help="For a user who may look, but change nothing.")
@click.option("--foreman", "role", flag_value="foreman", help="For another foreman of this crew, over one PostgreSQL.")
@click.option("--ttl", type=Seconds(), default="10min", show_default=True, metavar="TIME", help="How long it is valid.")
@click.option(
    "--uses",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="How many may use it.",
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="URL",
    help="Where other machines reach the foreman, if it cannot know: tcp://HOST:PORT behind a port forward. Default: "
    "where it listens.",
)
@output_option
def invite(role: str | None, ttl: float, uses: int, addresses: tuple[str, ...], output: Format) -> None:
    """Print a line that lets another machine join this crew.

    The crew is that of this machine's foreman. Anyone who has the line can join: treat it like a password. One for a
    foreman gives the whole crew away: its owner can run commands on every worker, and make keys.

    With --output json, an object with the keys token, role, expires and uses is printed; with --output quiet, the
    token alone.
    """
    if role is None:
        raise click.UsageError("say who joins: --worker, --client, --observer or --foreman")
    from gandy.config import parse_address
    from gandy.net.exposure import is_loopback
    from gandy.terminal.people import format_seconds
    from gandy.wire.joining import parse_token

    with open_owner() as client:
        made = client.invite(role, ttl, uses, addresses)
    if output == "json":
        print_json({"token": made.token, "role": role, "expires": made.expires, "uses": uses})
    elif output == "quiet":
        say(made.token)
    else:
        often = "once" if uses == 1 else f"{uses} times"
        where = "On the other machine"
        if all(is_loopback(parse_address(each).host) for each in parse_token(made.token).addresses):
            where = "On this machine alone (others need a foreman with --listen tcp://0.0.0.0:5429)"
        say(f"{where}, within {format_seconds(ttl)} and {often}:", err=True)
        say(f"gandy join {made.token}")


@click.command(epilog=make_epilog("gandy join gandy1-hVs...", "gandy invite --worker | ssh hut gandy join -"))
@click.argument("token")
@click.option("--name", metavar="TEXT", help="The name of this machine in the crew. Default: its host name.")
@output_option
def join(token: str, name: str | None, output: Format) -> None:
    """Make this machine part of a crew.

    'gandy invite', on the foreman's machine, prints the line to run here. The key is kept under GANDY_HOME, and from
    then on gandy's commands need no address. A home has one key for one crew: a second one replaces the first, and
    another role on the same machine needs another GANDY_HOME.

    With a line of 'gandy invite --foreman', this home becomes that of another foreman of the crew. Keys of a foreman
    that was here before are kept beside them.

    While this runs, other users see the token in the list of processes. With -, it is read from standard input; in
    containers and batch systems, GANDY_TOKEN does the same. With --output json, an object with the keys name, role,
    foreman and addresses is printed.
    """
    from gandy.keys.crew import CREW
    from gandy.keys.files import lock_folder
    from gandy.net.join import join as join_crew
    from gandy.wire.joining import parse_token

    if token == "-":  # noqa: S105 - it is none
        token = (sys.stdin.read().split() or [""])[-1]  # also from the whole line that 'gandy invite' prints
    home = find_home(os.environ, sys.platform)
    folder = Path(home) / CREW
    is_foreman = parse_token(token).role == "foreman"
    with lock_folder(folder), _keep_foremen_out(home) if is_foreman else nullcontext():
        before = _describe_former_crew(folder)
        if is_foreman:
            before = " and ".join(filter(None, (before, _describe_former_keys(home))))
        about = join_crew(token, home, name).about
    if before:
        say(before, err=True)
    if output == "json":
        print_json({"name": about.name, "role": about.role, "foreman": about.foreman, "addresses": about.addresses})
    elif output == "quiet":
        say(about.addresses[0])
    else:
        say(f"joined the crew at {about.addresses[0]} as the {about.role} {about.name}")
        say(f"next: {_NEXT[about.role]}", err=True)


_NEXT: Final = {
    "worker": "gandy worker run",
    "client": "gandy submit -- hostname",
    "observer": "gandy status",
    "foreman": "gandy foreman run --store postgresql://... --listen tcp://0.0.0.0:5429, with the crew's database",
}


@click.command(epilog=make_epilog("gandy leave"))
def leave() -> None:
    """Forget the crew that this machine joined. Its key is valid until it is revoked there."""
    from gandy.keys.crew import CREW, CrewKeys
    from gandy.keys.files import lock_folder

    home = Path(find_home(os.environ, sys.platform))
    folder = home / CREW
    found = CrewKeys.find(folder)
    if found is None:
        _refuse_foreman(home)
        raise ConfigError("this machine has not joined a crew")
    text = f"left the crew at {found.about.addresses[0]}; there, 'gandy key revoke {found.id}' revokes the key"
    with lock_folder(folder):
        found.remove()
    say(text)


def _refuse_foreman(home: Path) -> None:
    """Raises: ConfigError, if this home has joined as a foreman's."""
    from gandy.keys.crew import CrewKeys
    from gandy.keys.foreman import FOLDER

    found = CrewKeys.find(home / FOLDER / "foreman")
    if found is not None and found.has_joined:
        raise ConfigError(
            f"this home is that of a foreman: 'gandy foreman drain' here, 'gandy key revoke {found.id}' at another "
            f"foreman of the crew, and then remove {home / FOLDER}"
        )


@contextmanager
def _keep_foremen_out(home: str) -> Iterator[None]:
    """No foreman runs or starts in this home meanwhile. Raises: StoreError."""
    from gandy.config import SOCKET_NAME
    from gandy.store.lock import FileLock

    lock = FileLock(Path(home) / SOCKET_NAME)
    try:
        yield
    finally:
        lock.release()


def _describe_former_keys(home: str) -> str:
    from gandy.keys.foreman_home import choose_old_folder

    old = choose_old_folder(Path(home))
    return "" if old is None else f"the keys of the foreman that was here are in {old} now"


def _describe_former_crew(folder: Path) -> str:
    """Describe the crew that this machine was part of in a sentence; empty if there was none."""
    from gandy.keys.crew import CrewKeys

    try:
        found = CrewKeys.find(folder)
        if found is None:
            return ""
        return (
            f"this replaces the crew at {found.about.addresses[0]}; "
            f"there, 'gandy key revoke {found.id}' revokes the key"
        )
    except ConfigError as error:
        return f"this replaces keys that did not work: {error}"


def _show(rows: Any, output: Format) -> None:
    from gandy.terminal.rows import view_keys

    view_keys(read_wall()).print(output, rows)
