"""A crew on several machines: joined by a token, over TLS, and nobody on the way reads along."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from tests.netns.capture import Capture, listening
from tests.netns.machines import PORT, Home
from tests.netns.namespaces import Network, a_network

from gandy.core.keyring import tell_check
from gandy.wire.joining import parse_token

# Each is said in one way only, so that whoever finds it knows what went in clear.
LINE: Final = "canary-of-a-shell-line"
OUTPUT: Final = LINE.upper()
ARGUMENT: Final = "canary-of-an-argument"
VALUE: Final = ARGUMENT[::-1]
CALLED: Final = "canary-of-a-call"
CANARIES: Final = (LINE, OUTPUT, ARGUMENT, VALUE, CALLED)

PROGRAM: Final = f"""
import gandy
def turn(text):
    return text[::-1]
with gandy.Client() as client:
    print(client.run(turn, {ARGUMENT!r}).result(60))
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with a_network(2) as network:
        yield network


def use_all(client: Home) -> None:
    """A shell line and its output, a Python function, and a call of a command."""
    client.run("submit", "--wait", "--", "sh", "-c", f"echo {LINE} | tr a-z A-Z")
    assert client.run("job", "output", "1").stdout.decode() == f"{OUTPUT}\n"
    assert client.run_python(PROGRAM) == f"{VALUE}\n"
    assert CALLED in client.run("call", "echo", f'"{CALLED}"').stdout.decode()


class Secret(NamedTuple):
    name: str
    data: bytes


def list_secrets(token: str, *homes: Home) -> Iterator[Secret]:
    yield Secret("token", token.encode())
    secret = parse_token(token).secret
    yield from (Secret("secret of the token", form) for form in (secret, secret.hex().encode(), tell_check(secret)))
    paths = [path for home in homes for path in home.home.rglob("*.key")]
    assert len(paths) == 6, "the foreman's, those of its home, and one of each peer"
    for path in paths:
        pem = path.read_bytes()
        key = load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        yield Secret(str(path), key.private_numbers().private_value.to_bytes(32, "big"))
        yield from (Secret(str(path), line) for line in pem.splitlines()[1:-1])


def test_a_crew_on_two_machines_and_nobody_reads_along(network: Network, tmp_path: Path) -> None:
    here, there = network.hosts
    with (
        listening(network.switch, "port1") as capture,
        Home(here, tmp_path / "foreman") as foreman,
        Home(there, tmp_path / "worker") as worker,
        Home(there, tmp_path / "client") as client,
    ):
        foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}")
        tokens = [foreman.invite("--worker"), foreman.invite("--client")]
        worker.join(tokens[0])
        client.join(tokens[1])
        worker.run_worker("hut")
        foreman.until_working("hut")
        use_all(client)
    assert_silent(capture)
    found = [
        secret.name
        for token in tokens
        for secret in list_secrets(token, foreman, worker, client)
        if capture.holds(secret.data)
    ]
    assert found == []


def assert_silent(capture: Capture) -> None:
    assert len(capture.list_streams()) > 2 * 5, "joining, a worker and clients, each in both directions"
    assert [canary for canary in CANARIES if capture.holds(canary.encode())] == []


def test_without_keys_everybody_reads_along(network: Network, tmp_path: Path) -> None:
    """So what the other test does not find was not there."""
    here, there = network.hosts
    address = f"plain://10.77.0.1:{PORT}"
    with (
        listening(network.switch, "port1") as capture,
        Home(here, tmp_path / "foreman") as foreman,
        Home(there, tmp_path / "crew", GANDY_FOREMAN=address) as crew,
    ):
        foreman.run_foreman("--listen", f"plain://0.0.0.0:{PORT}", "--insecure")
        crew.run_worker("hut", "--insecure")
        foreman.until_working("hut")
        use_all(crew)
    assert [canary for canary in CANARIES if not capture.holds(canary.encode())] == []
