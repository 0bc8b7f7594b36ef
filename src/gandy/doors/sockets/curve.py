"""CURVE keys in one folder: it makes them at the first use, and reads them again when they change. Opens no socket.

The folder has server.key and server.key_secret, and in clients/ a *.key for each peer that may connect. The pair
clients/crew.key* is there from the start: a peer needs copies of server.key and of clients/crew.key_secret.
"""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import zmq
from zmq import auth
from zmq.utils import z85

from gandy.errors import ConfigError
from gandy.keys.files import create, make_private_folder, refuse_readable

SERVER: Final = "server"
CLIENTS: Final = "clients"
CREW: Final = "crew"
PUBLIC: Final = ".key"
SECRET: Final = ".key_secret"  # noqa: S105

KEY_BYTES: Final = 32

DOMAIN: Final = b"gandy"  # without a domain, libzmq admits every peer


class Pair(NamedTuple):
    """A public key and its secret key, as text of 40 characters (Z85)."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"Pair({self.public.decode()})"  # a secret must not get into a log


class _Known(NamedTuple):
    """The key in a file, and the state of the file when it was read."""

    stamp: tuple[int, int, int]
    key: bytes


class ServerKeys:
    """The keys of a door: its own, and those of the peers that may connect."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.public = pair.public
        self._secret = pair.secret
        self._clients = folder / CLIENTS
        self._known: dict[str, _Known] = {}

    @classmethod
    def open(cls, folder: str | Path) -> "ServerKeys":
        """The keys of this folder. Makes what is missing; two processes that start at once get the same keys.

        Raises: ConfigError: other users can read a secret or add a key, or a file is not a key.
        """
        folder = Path(folder)
        try:
            make_private_folder(folder)
            _refuse_writable(folder)
            pair = _open_server(folder)
            _make_clients(folder)
            _refuse_writable(folder / CLIENTS)
            for path in (folder / CLIENTS).glob(f"*{SECRET}"):
                refuse_readable(path)
        except OSError as error:
            raise ConfigError(f"cannot save keys in {folder}: {error}") from None
        return cls(folder, pair)

    def apply(self, socket: "zmq.Socket[bytes]") -> None:
        """To be called before the socket binds. A `ZapSocket` in its context must answer for DOMAIN to admit peers."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        # Without this, libzmq admits every peer that knows our public key while no ZapSocket answers.
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def find_name(self, key: bytes) -> str | None:
        """The name of the peer with this public key: that of its file without the suffix. Reads files that changed.

        Raises: OSError: the folder cannot be read.
        """
        known: dict[str, _Known] = {}
        with os.scandir(self._clients) as entries:
            for entry in entries:
                if entry.name.endswith(PUBLIC):
                    # One bad file, or one that goes away at this moment, must not keep the other peers out.
                    with suppress(OSError, ConfigError):
                        known[entry.name] = self._read_key(entry)
        self._known = known
        return next((name.removesuffix(PUBLIC) for name, each in known.items() if each.key == key), None)

    def _read_key(self, entry: os.DirEntry[str]) -> _Known:
        state = entry.stat()
        stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
        known = self._known.get(entry.name)
        if known is not None and known.stamp == stamp:
            return known
        if not stat.S_ISREG(state.st_mode):  # opening a pipe would wait forever
            raise ConfigError(f"{entry.path} is not a file")
        return _Known(stamp, _load_public(Path(entry.path)))


class ClientKeys:
    """The keys of a peer: its own, and the one by which it recognises the door."""

    def __init__(self, server: bytes, pair: Pair) -> None:
        self.server = server
        self.public = pair.public
        self._secret = pair.secret

    @classmethod
    def open(cls, folder: str | Path) -> "ClientKeys":
        """The keys of this folder.

        Raises: ConfigError: they are missing or invalid, or other users can read the secret.
        """
        folder = Path(folder)
        try:
            return cls(_load_public(folder / f"{SERVER}{PUBLIC}"), _load_pair(folder / CLIENTS / f"{CREW}{SECRET}"))
        except FileNotFoundError as error:
            raise ConfigError(
                f"{error.filename} is not there; copy {SERVER}{PUBLIC} and {CLIENTS}/{CREW}{SECRET} from the folder "
                f"of the door to {folder}"
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot read keys in {folder}: {error}") from None

    def apply(self, socket: "zmq.Socket[bytes]") -> None:
        """To be called before the socket connects."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.server)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._secret)


def _open_server(folder: Path) -> Pair:
    public, secret = folder / f"{SERVER}{PUBLIC}", folder / f"{SERVER}{SECRET}"
    is_public_there = public.exists()  # checked first, as the secret key is made first
    if not secret.exists():
        if is_public_there:
            raise ConfigError(
                f"{folder} has {public.name} and not {secret.name}, as a peer's folder has. Name the folder of the "
                f"door; or remove {public.name}, and the door makes new keys, which the peers need then."
            )
        create(secret, _format_keys(*zmq.curve_keypair()))
    pair = _load_pair(secret)
    if not is_public_there:
        create(public, _format_keys(pair.public))
    elif _load_public(public) != pair.public:
        raise ConfigError(
            f"{public} does not belong to {secret.name}; remove {public.name}, and the door makes it "
            "again; copy it to the peers"
        )
    return pair


def _make_clients(folder: Path) -> None:
    """Make the folder of clients with one pair, in one step. If it exists, a key that was removed stays removed."""
    if (folder / CLIENTS).is_dir():
        return
    made = Path(tempfile.mkdtemp(prefix=f".{CLIENTS}-", dir=folder))
    try:
        pair = Pair(*zmq.curve_keypair())
        create(made / f"{CREW}{SECRET}", _format_keys(*pair))
        create(made / f"{CREW}{PUBLIC}", _format_keys(pair.public))
        with suppress(FileExistsError):
            _rename_folder(made, folder / CLIENTS)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _rename_folder(source: Path, target: Path) -> None:
    """Raises: FileExistsError: another process was first."""
    try:
        source.rename(target)
    except OSError:  # the kernel has several errors for a folder that exists
        if target.is_dir():
            raise FileExistsError(target) from None
        raise


def _format_keys(public: bytes, secret: bytes | None = None) -> bytes:
    """As pyzmq and czmq write certificates."""
    if secret is None:
        return f'# A public key of ZeroMQ CURVE.\nmetadata\ncurve\n    public-key = "{public.decode()}"\n'.encode()
    text = (
        "# A SECRET key of ZeroMQ CURVE: for its owner only.\nmetadata\ncurve\n"
        f'    public-key = "{public.decode()}"\n    secret-key = "{secret.decode()}"\n'
    )
    return text.encode()


def _load_public(path: Path) -> bytes:
    """Raises: ConfigError, OSError."""
    return _load(path)[0]


def _load_pair(path: Path) -> Pair:
    """Raises: ConfigError, OSError."""
    refuse_readable(path)
    public, secret = _load(path)
    if secret is None or zmq.curve_public(secret) != public:
        raise ConfigError(f"{path} has no secret key that belongs to its public one; remove it, or copy it again")
    return Pair(public, secret)


def _load(path: Path) -> tuple[bytes, bytes | None]:
    with path.open("rb"):  # for an error that names the file
        pass
    try:
        public, secret = auth.load_certificate(path)
        for key in (public, secret):
            if key is not None and len(z85.decode(key)) != KEY_BYTES:
                raise ValueError(key)
    except (ValueError, KeyError, IndexError, zmq.ZMQError):
        raise ConfigError(f"{path} is not a key file of ZeroMQ; remove it, or copy it again") from None
    return public, secret


def _refuse_writable(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022:
        raise ConfigError(
            f"other users can put keys into {folder} (mode {mode:04o}), and so give themselves access. "
            f"Run: chmod 700 {folder}"
        )
