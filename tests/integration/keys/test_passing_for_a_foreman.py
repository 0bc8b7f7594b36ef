"""Nothing but a foreman passes for one: the crew's identity signed the keys of workers and clients as well."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gandy.config import parse_address
from gandy.core.roles import KEYED, CrewRole
from gandy.errors import LinkError
from gandy.keys.certificates import BEGINNING, END, make_identity, make_secret, sign
from gandy.keys.crew import CrewKeys
from gandy.keys.foreman import ForemanKeys
from gandy.reach import Reach
from gandy.wire.joining import ALPN_NATIVE

FOREMAN = x509.SubjectAlternativeName([x509.DNSName("foreman")])
SERVER = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


class Site:
    """A crew's identity, a client that trusts it, and certificates of all kinds."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.folder = folder
        self.keys = ForemanKeys(folder / "keys")
        client = CrewKeys.find(folder / "keys" / CrewRole.CLIENT)
        assert client is not None
        self.client = client

    def write(self, name: str, chain: list[bytes], pem: bytes) -> tuple[Path, Path]:
        """Files for a server, from certificates in DER."""
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_text("".join(map(ssl.DER_cert_to_PEM_cert, chain)))
        secret.write_bytes(pem)
        return certificate, secret

    def make_signed(self, *, is_foreman: bool) -> tuple[Path, Path]:
        secret = make_secret()
        keys = self.keys
        made = sign(keys.identity, keys.identity_secret, secret.public, "x", None, is_foreman=is_foreman)
        return self.write("signed", [made], secret.pem)


class Ear(asyncio.Protocol):
    """What a server hears inside TLS."""

    def __init__(self, heard: "list[bytes]", clients: "list[bytes | None]") -> None:
        self._heard, self._clients = heard, clients

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._clients.append(transport.get_extra_info("ssl_object").getpeercert(binary_form=True))

    def data_received(self, data: bytes) -> None:
        self._heard.append(data)


class Client(asyncio.Protocol):
    """Would say a secret at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"secret")
        transport.close()


@asynccontextmanager
async def a_listener(files: tuple[Path, Path]) -> AsyncIterator[tuple[str, list[bytes]]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    context.set_alpn_protocols([ALPN_NATIVE])
    heard: list[bytes] = []
    server = await asyncio.get_running_loop().create_server(lambda: Ear(heard, []), "127.0.0.1", 0, ssl=context)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()


async def refuse(site: Site, files: tuple[Path, Path]) -> None:
    """The client says nothing to a server with these files, whichever way it dials."""
    async with a_listener(files) as (address, heard):
        reach, place = Reach((parse_address(address),), site.client), parse_address(address)
        with pytest.raises(LinkError, match="not our foreman"):
            await reach.dial(lambda _place: Client())
        with pytest.raises(LinkError, match="not our foreman"):
            await reach.dial_shard(1, (place,), lambda _place: Client())
        assert heard == []


async def accept(site: Site, files: tuple[Path, Path]) -> None:
    async with a_listener(files) as (address, _):
        assert isinstance(await Reach((parse_address(address),), site.client).dial(lambda _place: Client()), Client)


def make_certificate(
    issuer: str, signer: bytes, public: ec.EllipticCurvePublicKey, *more: x509.ExtensionType, end: datetime = END
) -> bytes:
    """A certificate with these extensions alone."""
    key = serialization.load_pem_private_key(signer, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("x", issuer))
    builder = x509.CertificateBuilder(by, name, public, x509.random_serial_number())
    builder = builder.not_valid_before(BEGINNING).not_valid_after(end)
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def load_public(pem: bytes) -> ec.EllipticCurvePublicKey:
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.public_key()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_identity_and_a_foremans_certificate_pass(site: Site) -> None:
    async def test() -> None:
        await accept(site, (site.keys.folder / "foreman.pem", site.keys.folder / "foreman.key"))
        await accept(site, site.make_signed(is_foreman=True))

    run(test())


@pytest.mark.parametrize("role", KEYED)
def test_a_stolen_key_of_a_role_does_not_pass(site: Site, role: CrewRole) -> None:
    found = CrewKeys.find(site.keys.folder / role)
    assert found is not None
    run(refuse(site, (found.certificate_path, found.secret_path)))


def test_a_stolen_key_from_before_keys_said_what_they_are_for_does_not_pass(site: Site) -> None:
    """OpenSSL takes it for a server: what it lacks is the name of a foreman."""
    secret = make_secret()
    made = make_certificate("gandy foreman", site.keys.identity_secret, load_public(secret.pem))
    run(refuse(site, site.write("old", [made], secret.pem)))


def test_a_worker_cannot_sign_a_foreman(site: Site) -> None:
    """Its chain leads to the identity, and the last certificate says all that a foreman's does."""
    worker = CrewKeys.find(site.keys.folder / CrewRole.WORKER)
    assert worker is not None
    secret = make_secret()
    made = make_certificate("worker", worker.secret_path.read_bytes(), load_public(secret.pem), FOREMAN, SERVER)
    chain = [made, ssl.PEM_cert_to_DER_cert(worker.certificate_path.read_text())]
    run(refuse(site, site.write("below", chain, secret.pem)))


def test_a_foreman_of_another_crew_does_not_pass(site: Site) -> None:
    """Neither by its identity, which has the same name, nor by what that signed."""
    secret, other = make_secret(), make_secret()
    identity = make_identity(other.pem)
    made = sign(identity, other.pem, secret.public, "x", None, is_foreman=True)

    async def test() -> None:
        await refuse(site, site.write("identity", [identity], other.pem))
        await refuse(site, site.write("foreman", [made], secret.pem))
        await refuse(site, site.write("both", [made, site.keys.identity], secret.pem))

    run(test())


def test_a_peer_that_knows_only_the_fingerprint_accepts_only_the_identity(site: Site) -> None:
    """It cannot verify a signature, so no certificate's own word counts."""
    (site.client.folder / "foreman.pem").unlink()

    async def test() -> None:
        await refuse(site, site.make_signed(is_foreman=True))
        await accept(site, (site.keys.folder / "foreman.pem", site.keys.folder / "foreman.key"))

    run(test())
