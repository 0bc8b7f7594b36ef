"""A foreman's keys, in one folder: its identity, its keyring, and a key of each role for its own home."""

import secrets
import ssl
from pathlib import Path
from typing import Final

import msgspec

from gandy.clocks import read_wall
from gandy.core.keyring import Invitation, Key, Keyring, RingState, hash_secret
from gandy.core.roles import KEYED, CrewRole
from gandy.errors import ConfigError, Rejected
from gandy.keys.crew import CrewKeys, Membership, compute_fingerprint
from gandy.keys.ensemble import OWN_FOLDER
from gandy.keys.files import create, lock_folder, read_secret, replace
from gandy.wire.joining import ALPN_JOIN, ALPN_NATIVE, Token, format_token

FOLDER: Final = OWN_FOLDER
CERTIFICATE: Final = "foreman.pem"
SECRET: Final = "foreman.key"  # noqa: S105 - the name of a file
RING: Final = "ring.json"
SECRET_BYTES: Final = 16  # of an invitation


class ForemanKeys:
    """Makes what is missing. Changes are on disk before any peer learns of them."""

    def __init__(self, folder: Path) -> None:
        """Raises: ConfigError."""
        self.folder = folder
        try:
            with lock_folder(folder):  # two foremen that start at once must agree on all of it
                self._pem = self._open_secret()
                self.identity = self._open_identity()
                self.fingerprint = compute_fingerprint(self.identity)
                found = self._open_ring()
                self.ring = Keyring(found or RingState())
                if found is None:
                    self._make_home_keys()
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot save keys in {folder}: {error}") from None

    def _open_secret(self) -> bytes:
        path = self.folder / SECRET
        if not path.exists():
            # Imported here and below: the module is slow to import, and seldom needed.
            from gandy.keys.certificates import make_secret

            create(path, make_secret().pem)
        return read_secret(path)

    def _open_identity(self) -> bytes:
        path = self.folder / CERTIFICATE
        if not path.exists():
            from gandy.keys.certificates import make_identity

            create(path, ssl.DER_cert_to_PEM_cert(make_identity(self._pem)).encode())
        return ssl.PEM_cert_to_DER_cert(path.read_text())

    def _open_ring(self) -> RingState | None:
        path = self.folder / RING
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(read_secret(path), type=RingState)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{path} is damaged: {error}. If you remove it, no key is valid any more: invite all peers again."
            ) from None

    def _make_home_keys(self) -> None:
        """Make a key of each role. The keyring is saved last: until then, the next start begins again."""
        from gandy.keys.certificates import make_secret

        for role in KEYED:
            secret = make_secret()
            certificate = self._sign(secret.public, role, role, "made at the foreman's first start")
            about = Membership(self.fingerprint, role, role)
            CrewKeys.save(self.folder / role, about, secret.pem, certificate, self.identity)
        self.save()

    def check_newcomer(self, public: bytes, name: str) -> None:
        """Check that `add` would accept this key and name. Raises: Rejected."""
        from gandy.keys.certificates import load_public

        self.ring.check_name(name, read_wall())
        load_public(public)

    def add(self, public: bytes, name: str, role: CrewRole, origin: str, seconds: float | None = None) -> bytes:
        """Add a key, and return its certificate. Raises: Rejected; OSError."""
        certificate = self._sign(public, name, role, origin, seconds)
        self.save()
        return certificate

    def _sign(self, public: bytes, name: str, role: CrewRole, origin: str, seconds: float | None = None) -> bytes:
        from gandy.keys.certificates import sign

        now = read_wall()
        self.ring.check_name(name, now)
        expires = None if seconds is None else now + seconds
        certificate = sign(self.identity, self._pem, public, name, expires)
        self.ring.add(Key(compute_fingerprint(certificate), name, role, now, origin, expires))
        return certificate

    def invite(self, role: CrewRole, seconds: float, uses: int, addresses: tuple[str, ...]) -> tuple[str, Invitation]:
        """A token and its invitation. Raises: Rejected."""
        if role not in KEYED:
            raise Rejected(f"an invitation cannot be for the role {role}")
        now = read_wall()
        secret = secrets.token_bytes(SECRET_BYTES)
        invitation = Invitation(secrets.token_hex(4), hash_secret(secret), role, now + seconds, uses)
        self.ring.invite(invitation, now)
        self.save()
        token = Token(invitation.id, secret, bytes.fromhex(self.fingerprint), addresses, role)
        return format_token(token), invitation

    def save(self) -> None:
        replace(self.folder / RING, msgspec.json.encode(self.ring.state))

    def make_context(self) -> ssl.SSLContext:
        """A TLS context for the foreman's listeners. Raises: ConfigError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # a peer that reconnects must show its key again: it may be revoked
        context.set_alpn_protocols([ALPN_NATIVE, ALPN_JOIN])
        try:
            context.load_cert_chain(self.folder / CERTIFICATE, self.folder / SECRET)
            context.load_verify_locations(self.folder / CERTIFICATE)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the keys in {self.folder} do not work: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL  # a peer that joins has no certificate yet
        return context
