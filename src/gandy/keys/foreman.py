"""A foreman's keys, in one folder: the identity of its crew, the keyring, and keys for the programs of its home.

A foreman of a crew with many foremen also has a key of its own, in the folder `foreman`, by which the others know it.
"""

import secrets
import socket
import ssl
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Final, NamedTuple

from gandy.clocks import read_wall
from gandy.core.keyring import Invitation, Key, Keyring, NameTaken, RingState, hash_secret
from gandy.core.roles import INVITED, KEYED, CrewRole
from gandy.errors import ConfigError, Rejected
from gandy.keys.crew import CrewKeys, Membership, compute_fingerprint
from gandy.keys.ensemble import OWN_FOLDER
from gandy.keys.files import create, lock_folder, make_private_folder, read_secret
from gandy.keys.kept_ring import KeptRing, RingFile, RingPlace
from gandy.keys.session import note_server_names
from gandy.limits import MAX_KEY_NAME
from gandy.moments import Wall
from gandy.wire import server_names
from gandy.wire.joining import ALPN_JOIN, ALPN_NATIVE, Token, format_token

FOLDER: Final = OWN_FOLDER
CERTIFICATE: Final = "foreman.pem"
SECRET: Final = "foreman.key"  # noqa: S105 - the name of a file
RING: Final = "ring.json"
SECRET_BYTES: Final = 16  # of an invitation


class Made(NamedTuple):
    """A new key, and its certificate in DER."""

    key: Key
    certificate: bytes


class ForemanKeys:
    """Makes what is missing. Changes are saved before any peer learns of them."""

    def __init__(self, folder: Path, is_temporary: bool = False) -> None:
        """`is_temporary`: the folder is new, and only this process uses it. Keys are made when they are needed: most
        such foremen need none, and making them takes longer than the rest of their start.

        Raises: ConfigError.
        """
        self.folder = folder
        if is_temporary:
            self.own: CrewKeys | None = None
            self.kept = KeptRing(Keyring(RingState()), RingFile(folder / RING))
            return
        try:
            with lock_folder(folder):  # two foremen that start at once must agree on all of it
                self._open_all()
                self.own = CrewKeys.find(folder / CrewRole.FOREMAN)
                file = RingFile(folder / RING)
                found = file.read()
                ring = Keyring(found or RingState())
                if found is None and not self.has_joined:
                    self._make_first_keys(ring, file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot save keys in {folder}: {error}") from None
        self.kept = KeptRing(ring, file)

    @property
    def ring(self) -> Keyring:
        return self.kept.ring

    @property
    def has_joined(self) -> bool:
        """True if the crew was there before this foreman, which got the identity by `gandy join`."""
        return self.own is not None and self.own.has_joined

    @property
    def identity_secret(self) -> bytes:
        """PEM. For another foreman of the crew, and for no other peer."""
        return self._pem

    @property
    def is_revoked(self) -> bool:
        """True if this foreman's own key was revoked: the others refuse its links."""
        found = None if self.own is None else self.ring.find(self.own.fingerprint)
        return found is not None and found.revoked is not None

    @cached_property
    def _pem(self) -> bytes:
        make_private_folder(self.folder)
        path = self.folder / SECRET
        if not path.exists():
            # Imported here and below: the module is slow to import, and seldom needed.
            from gandy.keys.certificates import make_secret

            create(path, make_secret().pem)
        return read_secret(path)

    @cached_property
    def identity(self) -> bytes:
        """The crew's certificate, in DER."""
        path = self.folder / CERTIFICATE
        if not path.exists():
            from gandy.keys.certificates import make_identity

            create(path, ssl.DER_cert_to_PEM_cert(make_identity(self._pem)).encode())
        return ssl.PEM_cert_to_DER_cert(path.read_text())

    @cached_property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.identity)

    def _open_all(self) -> tuple[bytes, str]:
        """Open the secret and the identity, and make what is missing. Raises: ConfigError, OSError, ValueError."""
        return self._pem, self.fingerprint

    def _make_first_keys(self, ring: Keyring, file: RingFile) -> None:
        """Make a key of each role. The keyring is saved last: until then, the next start begins again."""
        for role in KEYED:
            ring.add(self._make_home_key(role, role, "made at the foreman's first start").about)
        file.write(ring.state)

    def _make_home_key(self, role: CrewRole, name: str, origin: str) -> "HomeKey":
        """Make a key for this home, in its folder. It is not in the ring yet."""
        from gandy.keys.certificates import make_secret

        secret = make_secret()
        made = self._sign(secret.public, name, role, origin)
        about = Membership(self.fingerprint, name, role)
        keys = CrewKeys.save(self.folder / role, about, secret.pem, made.certificate, self.identity)
        return HomeKey(made.key, keys)

    # The crew's keyring

    async def share_ring(self, place: RingPlace) -> None:
        """Keep the ring in the crew's database from now on, and make the keys that this home lacks there.

        Raises: StoreError; ConfigError, if that crew has another identity, or keys cannot be saved.
        """
        try:
            await self.kept.move(place)
            for role in KEYED:
                found = CrewKeys.find(self.folder / role)
                if found is None or self.ring.find(found.fingerprint) is None:
                    await self._add_home_key(role)
            if self.own is None or self.ring.find(self.own.fingerprint) is None:
                self.own = await self._add_home_key(CrewRole.FOREMAN)
            if self.is_revoked:
                raise ConfigError(
                    "the key of this foreman was revoked: 'gandy invite --foreman' at another one and 'gandy join' "
                    "here give it a new one"
                )
        except OSError as error:
            raise ConfigError(f"cannot save keys in {self.folder}: {error}") from None

    async def _add_home_key(self, role: CrewRole) -> CrewKeys:
        """A key for this home, by the name of the role and of this machine; or another one, if that is taken."""
        host = socket.gethostname()
        for ending in ("", f"-{secrets.token_hex(3)}"):
            name = f"{role}-{host}"[: MAX_KEY_NAME - len(ending)] + ending
            try:
                self.ring.check_name(name, read_wall())
                home_key = self._make_home_key(role, name, "made for a foreman's home")
                await self.kept.change(partial(Keyring.add, key=home_key.about))
            except NameTaken:
                continue
            return home_key.keys
        raise ConfigError(f"no name is free for a key of the role {role}")

    def check_newcomer(self, public: bytes, name: str) -> None:
        """Check that `add` would accept this key and name. Raises: Rejected."""
        from gandy.keys.certificates import load_public

        self.ring.check_name(name, read_wall())
        load_public(public)

    async def add(self, public: bytes, name: str, role: CrewRole, origin: str, seconds: float | None = None) -> Made:
        """Add a key. Raises: Rejected; StoreError, OSError."""
        made = self._sign(public, name, role, origin, seconds)
        await self.kept.change(lambda ring: ring.add(made.key))
        return made

    async def redeem(
        self, public: bytes, name: str, invitation: Invitation, use: Callable[[Keyring], object], where: str
    ) -> Made:
        """Add a key for an invitation whose proof was right. `use` uses it up: both are saved, or none.

        Raises: Rejected; StoreError, OSError.
        """
        made = self._sign(public, name, invitation.role, f"invitation {invitation.id}, from {where}")

        def apply(ring: Keyring) -> None:
            use(ring)
            ring.add(made.key)

        await self.kept.change(apply)
        return made

    def _sign(self, public: bytes, name: str, role: CrewRole, origin: str, seconds: float | None = None) -> Made:
        """Raises: Rejected."""
        from gandy.keys.certificates import sign

        now = read_wall()
        expires: Wall | None = None if seconds is None else now + seconds
        is_foreman = role is CrewRole.FOREMAN
        certificate = sign(self.identity, self._pem, public, name, expires, is_foreman=is_foreman)
        return Made(Key(compute_fingerprint(certificate), name, role, now, origin, expires), certificate)

    async def invite(
        self, role: CrewRole, seconds: float, uses: int, addresses: tuple[str, ...]
    ) -> tuple[str, Invitation]:
        """A token and its invitation. Raises: Rejected; StoreError, OSError."""
        if role not in INVITED:
            raise Rejected(f"an invitation cannot be for the role {role}")
        now = read_wall()
        secret = secrets.token_bytes(SECRET_BYTES)
        invitation = Invitation(secrets.token_hex(4), hash_secret(secret), role, now + seconds, uses)
        await self.kept.change(lambda ring: ring.invite(invitation, now))
        token = Token(invitation.id, secret, bytes.fromhex(self.fingerprint), addresses, role)
        return format_token(token), invitation

    # TLS

    def make_context(self) -> ssl.SSLContext:
        """A TLS context for the foreman's listeners. Raises: ConfigError.

        It shows the identity itself: to peers that join, which know nothing else, and to those of old versions, which
        compare its fingerprint. Peers that ask for a foreman or a shard are shown this foreman's own certificate.
        """
        context = self._make_context(self.folder / CERTIFICATE, self.folder / SECRET)
        own = None if self.own is None else self._make_context(self.own.certificate_path, self.own.secret_path)

        def choose(name: str | None) -> ssl.SSLContext | None:
            is_foreman = name == server_names.FOREMAN or server_names.parse_shard_name(name) is not None
            return own if is_foreman else None

        note_server_names(context, choose)
        return context

    def _make_context(self, certificate: Path, secret: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # a peer that reconnects must show its key again: it may be revoked
        context.set_alpn_protocols([ALPN_NATIVE, ALPN_JOIN])
        try:
            context.load_cert_chain(certificate, secret)
            context.load_verify_locations(self.folder / CERTIFICATE)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the keys in {self.folder} do not work: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL  # a peer that joins has no certificate yet
        return context


class HomeKey(NamedTuple):
    """A key for the programs of a home, and the folder where it is."""

    about: Key
    keys: CrewKeys
