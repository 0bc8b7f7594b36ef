"""Keys on a real disk: for one user only, whole or not at all, and the same for all processes that start at once."""

import asyncio
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.as_root import can_be_nobody

from gandy.core.roles import KEYED, CrewRole
from gandy.errors import ConfigError, Rejected
from gandy.keys.certificates import BEGINNING, END, make_identity, make_secret, sign
from gandy.keys.crew import CrewKeys, Membership, compute_fingerprint, is_pinned
from gandy.keys.foreman import ForemanKeys
from gandy.keys.session import TlsSession

ABOUT = Membership("f" * 64, "hut", CrewRole.WORKER, ("tcp://h:1",))


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """What others may read must not hang on it."""
    before = os.umask(0o000)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "keys"


def some_keys(folder: Path, about: Membership = ABOUT) -> CrewKeys:
    secret, authority = make_secret(), make_secret()
    certificate = sign(make_identity(authority.pem), authority.pem, secret.public, about.name, None)
    return CrewKeys.save(folder, about, secret.pem, certificate)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_no_other_user_can_read_anything(folder: Path) -> None:
    ForemanKeys(folder)
    for path in folder.rglob("*"):
        assert mode_of(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode_of(folder) == 0o700
    assert {path.name for path in folder.iterdir()} == {".lock", "foreman.key", "foreman.pem", "ring.json", *KEYED}


def read_extensions(certificate: bytes) -> tuple[x509.KeyUsage, set[x509.ObjectIdentifier]]:
    found = x509.load_der_x509_certificate(certificate).extensions
    usages = found.get_extension_for_class(x509.ExtendedKeyUsage).value
    return found.get_extension_for_class(x509.KeyUsage).value, set(usages)


def test_certificates_say_what_they_are_for(folder: Path) -> None:
    foreman = ForemanKeys(folder)
    usage, purposes = read_extensions(foreman.identity)
    assert (usage.digital_signature, usage.key_cert_sign, usage.key_encipherment) == (True, True, False)
    assert purposes == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    usage, purposes = read_extensions(ssl.PEM_cert_to_DER_cert((folder / "worker" / "peer.pem").read_text()))
    assert (usage.digital_signature, usage.key_cert_sign) == (True, False)
    assert purposes == {ExtendedKeyUsageOID.CLIENT_AUTH}


def shake_hands(foreman: ForemanKeys, peer: CrewKeys) -> bytes | None:
    """The certificate that the foreman gets to see."""
    ours = TlsSession(foreman.make_context(), is_server=True)
    theirs = TlsSession(peer.make_context(), is_server=False)
    theirs.begin()
    while not (ours.is_open and theirs.is_open):
        ours.receive(theirs.data_to_send())
        theirs.receive(ours.data_to_send())
    return ours.certificate


def make_plain_identity(pem: bytes) -> bytes:
    """As gandy made them before certificates said what they are for."""
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gandy foreman")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(BEGINNING).not_valid_after(END)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_foreman_of_today_or_of_before_knows_the_keys_that_it_signed(folder: Path, is_old: bool) -> None:
    if is_old:
        folder.mkdir(mode=0o700)
        secret = make_secret()
        for name, data in (("foreman.key", secret.pem), ("foreman.pem", make_plain_identity(secret.pem))):
            (folder / name).write_bytes(data)
            (folder / name).chmod(0o600)
    foreman = ForemanKeys(folder)
    for role in KEYED:
        peer = CrewKeys.find(folder / role)
        assert peer is not None
        certificate = shake_hands(foreman, peer)
        assert certificate is not None
        assert foreman.ring.check(compute_fingerprint(certificate), 0.0).role is role


def test_a_key_of_the_crew_does_not_pass_for_its_foreman(folder: Path) -> None:
    """Also where a peer looks only at who signed a certificate."""
    foreman = ForemanKeys(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "worker" / "peer.pem", folder / "worker" / "peer.key")
    peer = CrewKeys.find(folder / "client")
    assert peer is not None
    ours, theirs = TlsSession(context, is_server=True), TlsSession(peer.make_context(), is_server=False)
    theirs.begin()
    ours.receive(theirs.data_to_send())
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported"):
        theirs.receive(ours.data_to_send())
    assert foreman.fingerprint


def test_the_second_start_finds_what_the_first_made(folder: Path) -> None:
    first = ForemanKeys(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    second = ForemanKeys(folder)
    assert (second.fingerprint, second.ring.state) == (first.fingerprint, first.ring.state)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "mode", "mend"),
    [
        ("", 0o755, "chmod 700 {}"),
        ("", 0o710, "chmod 700 {}"),
        ("foreman.key", 0o644, "chmod 600 {}"),
        ("foreman.key", 0o620, "chmod 600 {}"),
        ("ring.json", 0o640, "chmod 600 {}"),
        ("..", 0o777, "chmod go-w {}"),
        ("..", 0o770, "chmod go-w {}"),
    ],
)
def test_a_foreman_whose_keys_others_reach_does_not_start_and_says_how_to_mend_it(
    folder: Path, name: str, mode: int, mend: str
) -> None:
    ForemanKeys(folder)
    path = folder.parent if name == ".." else folder / name
    path.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        ForemanKeys(folder)
    command = mend.format(path)
    assert command in str(caught.value)
    subprocess.run(command, shell=True, check=True)
    ForemanKeys(folder)


def test_a_folder_in_a_place_like_tmp_is_safe(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    ForemanKeys(tmp_path / "keys")


@pytest.mark.skipif(not can_be_nobody(), reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        ForemanKeys(folder)


@pytest.mark.parametrize(("name", "mode"), [("peer.key", 0o644), ("", 0o777), ("..", 0o777)])
def test_keys_of_a_crew_that_others_reach_are_not_used(folder: Path, name: str, mode: int) -> None:
    some_keys(folder)
    (folder.parent if name == ".." else folder / name).chmod(mode)
    with pytest.raises(ConfigError, match="chmod"):
        CrewKeys.find(folder)


def test_only_of_damaged_keys_a_user_is_told_to_remove_them(folder: Path) -> None:
    """Keys that cannot be read for another reason, such as their permissions, may be good."""
    some_keys(folder)
    (folder / "crew.json").write_bytes(b"{")
    with pytest.raises(ConfigError, match=r"are damaged.*remove it, and join again"):
        CrewKeys.find(folder)
    (folder / "crew.json").unlink()
    (folder / "crew.json").mkdir()
    with pytest.raises(ConfigError, match=r"cannot read the keys in .*: Is a directory$"):
        CrewKeys.find(folder)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"keys": 7}', b"\xff\xfe", b'{"keys":[{"fingerprint":1}]}'])
def test_a_damaged_ring_is_told_and_left_alone(folder: Path, data: bytes) -> None:
    ForemanKeys(folder)
    (folder / "ring.json").write_bytes(data)
    with pytest.raises(ConfigError, match=r"ring\.json is damaged"):
        ForemanKeys(folder)
    assert (folder / "ring.json").read_bytes() == data


def test_without_its_ring_a_foreman_makes_new_keys_for_its_home_and_knows_no_other(folder: Path) -> None:
    first = ForemanKeys(folder)
    asyncio.run(first.add(make_secret().public, "anna", CrewRole.CLIENT, "test"))
    (folder / "ring.json").unlink()
    second = ForemanKeys(folder)
    assert second.fingerprint == first.fingerprint
    assert [key.name for key in second.ring.list_keys()] == list(KEYED)
    for role in KEYED:
        check_home_key(second, role)


def check_home_key(keys: ForemanKeys, role: CrewRole) -> None:
    found = CrewKeys.find(keys.folder / role)
    assert found is not None
    found.make_context()
    certificate = ssl.PEM_cert_to_DER_cert((found.folder / "peer.pem").read_text())
    assert keys.ring.check(compute_fingerprint(certificate), 0.0).role is role


def test_damaged_keys_are_told(folder: Path) -> None:
    ForemanKeys(folder)
    (folder / "foreman.pem").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError):
        ForemanKeys(folder).make_context()


STARTS = """
import sys
from pathlib import Path
from gandy.keys.foreman import ForemanKeys
from gandy.keys.session import TlsSession
sys.stdin.readline()
keys = ForemanKeys(Path(sys.argv[1]))
print(keys.fingerprint, *sorted(key.fingerprint for key in keys.ring.list_keys()))
"""


def test_many_that_start_at_once_agree(folder: Path) -> None:
    words = [sys.executable, "-c", STARTS, str(folder)]
    starts = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)
    ]
    for each in starts:
        assert each.stdin is not None
        each.stdin.write(b"go\n")
        each.stdin.flush()
    said = {each.communicate(timeout=60) for each in starts}
    assert len(said) == 1, said
    keys = ForemanKeys(folder)
    assert said.pop()[0].split()[0].decode() == keys.fingerprint
    for role in KEYED:
        check_home_key(keys, role)


# Kills

# Each life is a child that dies at its next step on disk; the last one lives to the end.
LIVES = """
import os, signal, sys
from itertools import count
from pathlib import Path
from gandy.core.roles import CrewRole
from gandy.keys import certificates, crew, files, foreman

steps, last = 0, 0
def dying(work):
    def step(*args, **options):
        global steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*args, **options)
    return step
os.replace, os.link, os.fsync = dying(os.replace), dying(os.link), dying(os.fsync)
Path.unlink, Path.mkdir = dying(Path.unlink), dying(Path.mkdir)

def start(folder):
    foreman.ForemanKeys(folder)

def join(folder, name="new"):
    secret = certificates.make_secret()
    identity = certificates.make_identity(secret.pem)
    certificate = certificates.sign(identity, secret.pem, secret.public, name, None)
    about = crew.Membership("e" * 64, name, CrewRole.WORKER)
    with files.lock_folder(folder):
        crew.CrewKeys.save(folder, about, secret.pem, certificate)

work, home = {"start": start, "join": join}[sys.argv[1]], Path(sys.argv[2])
for last in count(1) if len(sys.argv) == 3 else [0]:
    folder = home / f"keys{last}"
    if work is join and last:
        steps = -1000
        join(folder, "old")
    steps = 0
    if (child := os.fork()) == 0:
        work(folder)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGKILL:
        sys.exit(status)
"""


def live(work: str, home: Path) -> list[Path]:
    """What each life left behind; the last one was not killed."""
    home.chmod(0o700)
    subprocess.run([sys.executable, "-c", LIVES, work, str(home)], timeout=120, check=True)
    found = sorted(home.glob("keys*"), key=lambda folder: int(folder.name.removeprefix("keys")))
    assert len(found) > 8
    return found


def test_a_first_start_that_is_killed_anywhere_is_done_by_the_next(tmp_path: Path) -> None:
    for folder in live("start", tmp_path):
        keys = ForemanKeys(folder)
        for role in KEYED:
            check_home_key(keys, role)


def test_keys_of_a_crew_are_whole_or_not_there_when_it_was_killed(tmp_path: Path) -> None:
    names = []
    for folder in live("join", tmp_path):
        found = CrewKeys.find(folder)
        names.append("none" if found is None else found.about.name)
        if found is not None:
            found.make_context()  # the secret is that of the certificate
    assert set(names) == {"old", "none", "new"}
    assert names == sorted(names, key=["old", "none", "new"].index)


def test_two_that_join_at_once_do_not_mix_their_keys(folder: Path) -> None:
    words = [sys.executable, "-c", LIVES, "join", str(folder.parent), "once"]
    joins = [subprocess.Popen(words) for _ in range(6)]
    assert [each.wait(60) for each in joins] == [0] * 6
    found = CrewKeys.find(folder.parent / "keys0")
    assert found is not None
    found.make_context()


# Keys themselves


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e12])
def test_a_time_that_no_certificate_can_have_is_refused(folder: Path, seconds: float) -> None:
    keys = ForemanKeys(folder)
    with pytest.raises(Rejected):
        asyncio.run(keys.add(make_secret().public, "anna", CrewRole.CLIENT, "test", seconds))
    assert len(keys.ring.list_keys()) == len(KEYED)


def test_no_invitation_is_for_the_owner(folder: Path) -> None:
    for role in (CrewRole.OWNER, CrewRole.ANYBODY):
        with pytest.raises(Rejected, match="an invitation cannot be for"):
            asyncio.run(ForemanKeys(folder).invite(role, 60.0, 1, ()))


def test_secrets_are_not_shown() -> None:
    secret = make_secret()
    assert repr(secret) == str(secret) == "Secret()"
    identity = make_identity(secret.pem)
    assert is_pinned(identity, compute_fingerprint(identity))
    assert not is_pinned(identity, "0" * 64)
