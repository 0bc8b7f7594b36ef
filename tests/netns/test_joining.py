"""A crew on several machines: joined by a token, over TLS, and safe from eavesdroppers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from tests.netns.capture import Capture, listening
from tests.netns.machines import PORT, Home
from tests.netns.namespaces import Network, a_network, make_ipv6
from tests.netns.traps import a_forward
from tests.waiting import until

from gandy.core.keyring import hash_secret
from gandy.wire.joining import parse_token

# Each is sent in one way only, so that finding it shows what was not encrypted.
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
    yield from (Secret("secret of the token", form) for form in (secret, secret.hex().encode(), hash_secret(secret)))
    paths = [path for home in homes for path in home.home.rglob("*.key")]
    assert len(paths) == 9, "the foreman's, those of its home, one of each peer, and the ensemble's of all of them"
    for path in paths:
        if path.name == "ensemble.key":
            text = path.read_bytes().strip()
            yield from (Secret(str(path), form) for form in (text, bytes.fromhex(text.decode())))
            continue
        pem = path.read_bytes()
        key = load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        yield Secret(str(path), key.private_numbers().private_value.to_bytes(32, "big"))
        yield from (Secret(str(path), line) for line in pem.splitlines()[1:-1])


def test_a_crew_on_two_machines_cannot_be_overheard(network: Network, tmp_path: Path) -> None:
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


def test_a_crew_without_keys_can_be_overheard(network: Network, tmp_path: Path) -> None:
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


def list_joined(foreman: Home) -> list[dict[str, Any]]:
    """Keys that came from invitations."""
    return [row for row in foreman.show("key", "list") if row["origin"].startswith("invitation ")]


# Tokens in the environment


def test_workers_with_a_token_join_by_themselves(network: Network, tmp_path: Path) -> None:
    here, there = network.hosts
    with ExitStack() as stack:
        foreman = stack.enter_context(Home(here, tmp_path / "foreman"))
        foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}")
        token = foreman.make_token("worker", f"tcp://{here.ip}:{PORT}", uses=3)

        def make_home(name: str) -> Home:
            return stack.enter_context(Home(there, tmp_path / name, GANDY_TOKEN=token))

        first, second, third, fourth = map(make_home, ("first", "second", "third", "fourth"))
        running = [first.run_worker("w1"), first.run_worker("w2"), second.run_worker("w3"), third.run_worker("w4")]
        foreman.until_working("w1", "w2", "w3", "w4")  # those of one home at the same time, with one use

        done = fourth.run("worker", "run", code=1)
        assert b"the invitation is not valid: it was used, has expired or was revoked" in done.stderr
        assert len(list_joined(foreman)) == 3

        running[2].end()
        foreman.until_working("w1", "w2", "w4")
        second.run_worker("w3")
        foreman.until_working("w1", "w2", "w3", "w4")


def test_a_worker_with_a_token_waits_for_its_foreman(network: Network, tmp_path: Path) -> None:
    here, there = network.hosts
    with Home(here, tmp_path / "foreman") as foreman, Home(there, tmp_path / "worker") as worker:
        running = foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}")
        worker.environment["GANDY_TOKEN"] = foreman.make_token("worker", f"tcp://{here.ip}:{PORT}")
        running.end()
        worker.run_worker("hut").until_said("cannot join at")
        foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}")
        foreman.until_working("hut")


# A foreman that moves


def test_a_foreman_that_moves_is_found_again_and_tasks_survive(tmp_path: Path) -> None:
    ensemble = ("--ensemble", "band")
    with (
        a_network(3) as network,
        Home(network.hosts[0], tmp_path / "foreman") as foreman,
        Home(network.hosts[1], tmp_path / "worker") as worker,
        Home(network.hosts[1], tmp_path / "client") as client,
        Home(network.hosts[2], tmp_path / "foreman") as moved,
    ):
        running = foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}", *ensemble)
        for home, role in ((worker, "worker"), (client, "client")):
            home.join(foreman.make_token(role, f"tcp://10.77.0.1:{PORT}"))
        worker.run_worker("hut")
        gate = tmp_path / "gate"
        client.run("submit", "--", "sh", "-c", f"echo began > {gate}.began; until test -e {gate}; do sleep 0.05; done")
        until((tmp_path / "gate.began").exists)
        running.kill()
        running = foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}", *ensemble)
        foreman.until_working("hut")
        running.kill()

        moved.run_foreman("--listen", f"tcp://0.0.0.0:{PORT + 1}", *ensemble)
        moved.until_working("hut")
        gate.touch()
        client.run("job", "wait", "1")
        (task,) = client.show("job", "show", "1", "--tasks")
        assert (task["state"], task["attempt"]) == ("finished", 1)
        about = json.loads((tmp_path / "client" / "crew" / "crew.json").read_text())
        assert about["addresses"] == [f"tcp://10.77.0.3:{PORT + 1}", f"tcp://10.77.0.1:{PORT}"]


# Addresses


def test_addresses_of_every_kind(network: Network, tmp_path: Path) -> None:
    here, there = network.hosts
    with Home(here, tmp_path / "foreman") as foreman, Home(there, tmp_path / "client") as client:
        foreman.run_foreman("--listen", f"tcp://[::]:{PORT}")
        told = parse_token(foreman.make_token("client")).addresses
        assert told[:2] == (f"tcp://{here.ip}:{PORT}", f"tcp://[{make_ipv6(1)}]:{PORT}")

        client.join(foreman.make_token("client", f"tcp://{here.ip}:{PORT}"))
        client.join(foreman.make_token("client", f"tcp://[{make_ipv6(1)}]:{PORT}"))
        client.run("status")
        with a_forward(there, 7000, (here.ip, PORT)):
            nowhere = f"tcp://{there.ip}:{PORT}"
            client.join(foreman.invite("--client", "--address", nowhere, "--address", "tcp://localhost:7000"))
            assert client.run("status", "--output", "json").stdout
        origins = [row["origin"].rpartition(":")[0] for row in list_joined(foreman)]
        assert [origin.rpartition(" ")[2] for origin in origins] == [there.ip, f"[{make_ipv6(2)}]", there.ip]
        done = foreman.run("invite", "--client", "--address", f"plain://{here.ip}:{PORT}", code=1)
        assert b"no machine can join at plain://" in done.stderr


def test_a_second_crew_takes_the_place_of_the_first(network: Network, tmp_path: Path) -> None:
    here, there = network.hosts
    with (
        Home(here, tmp_path / "first") as first,
        Home(here, tmp_path / "second") as second,
        Home(there, tmp_path / "client") as client,
    ):
        for home, port in ((first, PORT), (second, PORT + 1)):
            home.run_foreman("--listen", f"tcp://{here.ip}:{port}")
        client.join(first.make_token("client"))
        (row,) = list_joined(first)
        done = client.run("join", second.make_token("client"))
        former = f"tcp://{here.ip}:{PORT}; there, 'gandy key revoke {row['id']}' revokes the key"
        assert f"this replaces the crew at {former}" in done.stderr.decode()
        client.run("submit", "--hold", "--", "true")
        assert (len(first.show("job", "list")), len(second.show("job", "list"))) == (0, 1)

        assert b"left the crew at tcp://10.77.0.1:5430" in client.run("leave").stdout
        assert b"no foreman is running at unix:" in client.run("status", code=1).stderr
        assert b"has not joined a crew" in client.run("leave", code=1).stderr
        assert [path.name for path in (tmp_path / "client" / "crew").iterdir()] == [".lock"]
