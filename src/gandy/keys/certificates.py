"""Makes the identity of a crew, and signs the certificates of its members. Opens no file and no socket."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gandy.errors import Rejected
from gandy.moments import Wall
from gandy.wire import server_names

CURVE: Final = ec.SECP256R1()  # fast, and known to every TLS library
BEGINNING: Final = datetime(2020, 1, 1, tzinfo=UTC)  # a new key must be valid for a peer whose clock is wrong
END: Final = datetime(9999, 12, 31, tzinfo=UTC)  # RFC 5280: "no well-defined expiration date"
IDENTITY: Final = "gandy foreman"


class Secret(NamedTuple):
    """A secret key for a file, and its public key for the wire."""

    pem: bytes
    public: bytes  # DER

    def __repr__(self) -> str:
        return "Secret()"  # the secret must not get into a log


def make_secret() -> Secret:
    key = ec.generate_private_key(CURVE)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Secret(pem, _encode_public(key.public_key()))


def make_identity(pem: bytes) -> bytes:
    """The certificate of a crew, DER: signed by itself, and able to sign those of its members."""
    key = _load(pem)
    name = _make_name(IDENTITY)
    builder = _make_builder(name, key.public_key(), None).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = _limit_usage(builder, signs_certificates=True)
    # OpenSSL accepts a client certificate only if its issuer's certificate is for clients, too.
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(usages, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def sign(
    identity: bytes, pem: bytes, public: bytes, name: str, expires: Wall | None, *, is_foreman: bool = False
) -> bytes:
    """A certificate, DER, for a peer's public key. Raises: Rejected."""
    key = load_public(public)
    if expires is not None and not BEGINNING.timestamp() < float(expires) < END.timestamp() - 86_400.0:
        raise Rejected("a key cannot be valid for so long")
    issuer = x509.load_der_x509_certificate(identity).subject
    builder = _make_builder(_make_name(name), key, expires).issuer_name(issuer)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = _limit_usage(builder, signs_certificates=False)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if is_foreman:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        # Old certificates of peers do not say what they are for, and OpenSSL takes them for servers; none has this.
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(server_names.FOREMAN)]), False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(_load(pem), hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def load_public(public: bytes) -> ec.EllipticCurvePublicKey:
    """Raises: Rejected: not a public key on P-256."""
    try:
        key = serialization.load_der_public_key(public)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Rejected("this is not a public key") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Rejected("a key must be on the curve P-256")
    return key


def _make_builder(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, expires: Wall | None
) -> x509.CertificateBuilder:
    # A day of margin for clocks: the keyring enforces the exact moment.
    end = END if expires is None else datetime.fromtimestamp(float(expires), UTC) + timedelta(days=1)
    serial = x509.random_serial_number()
    builder = x509.CertificateBuilder().subject_name(subject).public_key(public).serial_number(serial)
    return builder.not_valid_before(BEGINNING).not_valid_after(end)


def _limit_usage(builder: x509.CertificateBuilder, *, signs_certificates: bool) -> x509.CertificateBuilder:
    """Every key signs handshakes; only a foreman's also signs certificates."""
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return builder.add_extension(usage, critical=True)


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text.encode()[:64].decode(errors="ignore"))])


def _load(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _encode_public(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
