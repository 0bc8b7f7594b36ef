"""What a peer needs to reach its crew: a key, the foreman's fingerprint, and the foreman's last known addresses.

They are in one folder: crew.json, peer.pem and peer.key (our certificate and its secret), and foreman.pem. `gandy join`
writes it, and a foreman writes one for each role at its first start, for the programs that share its home.
"""

import hmac
import ssl
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from gandy.core.roles import CrewRole
from gandy.errors import ConfigError
from gandy.keys.ensemble import CREW_FOLDER, save_ensemble_key
from gandy.keys.ensemble import NAME as ENSEMBLE
from gandy.keys.files import create, lock_folder, make_folder, refuse_readable, refuse_writable, replace
from gandy.keys.session import NO_CHECK_TIME, TlsSession
from gandy.limits import MAX_FOREMAN_ADDRESSES
from gandy.moments import Wall
from gandy.wire import server_names

CREW: Final = CREW_FOLDER  # the folder that `gandy join` writes
CERTIFICATE: Final = "peer.pem"
SECRET: Final = "peer.key"  # noqa: S105 - the name of a file
FOREMAN: Final = "foreman.pem"
ABOUT: Final = "crew.json"


class Membership(Struct, frozen=True, omit_defaults=True):
    """The content of crew.json. It holds no secret."""

    foreman: str  # fingerprint
    name: str
    role: CrewRole
    addresses: tuple[str, ...] = ()
    ensemble: str = ""
    invitation: str = ""  # the id of the one that was used to join
    learned: Wall = Wall(0.0)  # when a foreman last said where all foremen of the crew are


class CrewKeys:
    """A complete folder of keys."""

    def __init__(self, folder: Path, about: Membership) -> None:
        self.folder = folder
        self.about = about

    @classmethod
    def find(cls, folder: Path) -> "CrewKeys | None":
        """The keys of a folder, if it has any.

        Raises: ConfigError: they cannot be read, or other users can read them.
        """
        try:
            about = msgspec.json.decode((folder / ABOUT).read_bytes(), type=Membership)
            refuse_writable(folder)
            refuse_writable(folder.parent)
            refuse_readable(folder / SECRET)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # the keys may be good, so they must not be removed
            raise ConfigError(f"cannot read the keys in {folder}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"the keys in {folder} are damaged: {error}; remove it, and join again") from None
        return cls(folder, about)

    @classmethod
    def save(
        cls,
        folder: Path,
        about: Membership,
        secret: bytes,
        certificate: bytes,
        foreman: bytes = b"",
        ensemble_key: bytes = b"",
    ) -> "CrewKeys":
        """Write the folder, which the caller has locked. Certificates are DER. Raises: ConfigError.

        crew.json is written last, so that a folder that has it is complete.
        """
        make_folder(folder)
        try:
            (folder / ABOUT).unlink(missing_ok=True)
            if ensemble_key:
                save_ensemble_key(folder, ensemble_key)
            else:
                (folder / ENSEMBLE).unlink(missing_ok=True)
            replace(folder / SECRET, secret)
            replace(folder / CERTIFICATE, ssl.DER_cert_to_PEM_cert(certificate).encode())
            (folder / FOREMAN).unlink(missing_ok=True)
            if foreman:
                replace(folder / FOREMAN, ssl.DER_cert_to_PEM_cert(foreman).encode())
            replace(folder / ABOUT, _format(about))
        except OSError as error:
            raise ConfigError(f"cannot save keys in {folder}: {error}") from None
        return cls(folder, about)

    @property
    def has_joined(self) -> bool:
        """True for a crew on another machine: keys of the foreman's own home have no address."""
        return bool(self.about.addresses)

    @property
    def certificate_path(self) -> Path:
        return self.folder / CERTIFICATE

    @property
    def secret_path(self) -> Path:
        return self.folder / SECRET

    @property
    def fingerprint(self) -> str:
        """By which foremen know this key. Raises: ConfigError."""
        try:
            return compute_fingerprint(ssl.PEM_cert_to_DER_cert(self.certificate_path.read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the keys in {self.folder} do not work: {error}") from None

    @property
    def id(self) -> str:
        """The id of this key at the foreman. Raises: ConfigError."""
        return self.fingerprint[:12]

    def remember(self, address: str) -> None:
        """Put the foreman's current address first; also on disk, unless another process has locked the folder."""
        self._update((address,), self.about.learned)

    def learn(self, addresses: Iterable[str], now: Wall) -> None:
        """Note the addresses of all foremen: first the one that we use, then these, then older ones while there is
        room; also on disk, unless another process has locked the folder."""
        self._update((*self.about.addresses[:1], *addresses), now)

    def _update(self, first: tuple[str, ...], learned: Wall) -> None:
        addresses = tuple(dict.fromkeys((*first, *self.about.addresses)))[:MAX_FOREMAN_ADDRESSES]
        before, self.about = self.about, structs.replace(self.about, addresses=addresses, learned=learned)
        with suppress(ConfigError, OSError), lock_folder(self.folder, waits=False):
            found = CrewKeys.find(self.folder)
            if found is not None and found.about == before:  # else another process has changed it
                replace(self.folder / ABOUT, _format(self.about))

    def remove(self) -> None:
        for name in (ABOUT, CERTIFICATE, SECRET, FOREMAN, ENSEMBLE):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def knows_identity(self) -> bool:
        """True if we can verify what the crew's identity signed; folders of old versions have only its fingerprint."""
        return (self.folder / FOREMAN).exists()

    def choose_server_name(self, name: str) -> str | None:
        """Whom to ask for (SNI). None, for which every foreman shows the identity itself, if we know nothing else."""
        return name if self.knows_identity or name != server_names.FOREMAN else None

    def is_foreman(self, session: TlsSession) -> bool:
        """True if the other end, whose handshake is done, is a foreman of our crew.

        It shows the identity itself, or a certificate that the identity signed for a foreman. The identity signed those
        of workers and clients as well: OpenSSL has refused them, except old ones, which do not say what they are for.
        """
        certificate = session.certificate
        if certificate is None:
            return False
        return is_pinned(certificate, self.about.foreman) or server_names.FOREMAN in session.alternative_names

    def learn_identity(self, session: TlsSession) -> bool:
        """Keep the identity, if the other end shows it and we have only its fingerprint. True if we know it now."""
        certificate = session.certificate
        if self.knows_identity or certificate is None or not is_pinned(certificate, self.about.foreman):
            return False
        with suppress(ConfigError, OSError), lock_folder(self.folder, waits=False):
            create(self.folder / FOREMAN, ssl.DER_cert_to_PEM_cert(certificate).encode())
        return self.knows_identity

    def make_context(self) -> ssl.SSLContext:
        """A TLS context for links to the foreman. Raises: ConfigError."""
        context = make_client_context()
        foreman = self.folder / FOREMAN
        try:
            context.load_cert_chain(self.folder / CERTIFICATE, self.folder / SECRET)
            if self.knows_identity:  # so that a false foreman does not even see our certificate
                context.load_verify_locations(foreman)
                context.verify_flags |= NO_CHECK_TIME
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the keys in {self.folder} do not work: {error}; remove it, and join again") from None
        return context


def _format(about: Membership) -> bytes:
    return msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"


def make_client_context() -> ssl.SSLContext:
    """A TLS context without a key, which is enough to join."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Names of hosts play no part: what is sent waits until `CrewKeys.is_foreman`, or `net.join`, has looked.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def compute_fingerprint(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER."""
    return sha256(certificate).hexdigest()


def is_pinned(certificate: bytes, fingerprint: str) -> bool:
    """True if the certificate, in DER, has this fingerprint."""
    return hmac.compare_digest(compute_fingerprint(certificate), fingerprint)
