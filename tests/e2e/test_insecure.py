"""Doors without keys: none is opened by accident, and each start warns of them."""

import socket
from pathlib import Path

import pytest
import zmq
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member
from tests.free_ports import find_port
from tests.waiting import until

from gandy.doors.sockets.curve import ServerKeys


def read_error(crew: Crew, *words: str) -> str:
    done = crew.run(*words, code=1)
    assert done.stdout == b""
    return done.stderr.decode().splitlines()[-1]


HERE, NETWORK = "everyone on this machine", "everyone on the network"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
@pytest.mark.parametrize(
    "words",
    [
        ("foreman", "run", "--roundrobin"),
        ("foreman", "run", "--pingpong"),
        ("console", "server", "-d", "0", "--address"),
    ],
    ids=" ".join,
)
def test_a_zeromq_door_needs_keys_or_courage(tmp_path: Path, words: tuple[str, ...], host: str) -> None:
    error = read_error(Crew(tmp_path), *words, f"tcp://{host}:6714")
    assert f"tcp://{host}:6714 would be without keys" in error
    assert "--curve FOLDER" in error
    assert f"With --insecure, {NETWORK if host == '0.0.0.0' else HERE}" in error


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (("foreman", "run", "--listen", "plain://127.0.0.1:0"), "--listen tcp://HOST:PORT"),
        (("foreman", "run", "--v1-listen", "tcp://127.0.0.1:0"), "unix:PATH is for you alone"),
        (("worker", "run", "--foreman", "plain://127.0.0.1:1"), "tcp://HOST:PORT"),
        (("worker", "run", "--roundrobin", "tcp://127.0.0.1:1"), "--curve FOLDER"),
        (("worker", "run", "--pingpong", "tcp://127.0.0.1:1", "--pingpong-command", "x"), "--curve FOLDER"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_each_refusal_names_both_ways_out(tmp_path: Path, words: tuple[str, ...], way_out: str) -> None:
    error = read_error(Crew(tmp_path), *words)
    assert "--insecure" in error
    assert way_out in error


def test_nothing_listens_where_something_was_refused(tmp_path: Path) -> None:
    crew, port = Crew(tmp_path), find_port()
    crew.run("foreman", "run", "--roundrobin", f"tcp://127.0.0.1:{port}", code=1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE)
    assert not (tmp_path / "foreman.sock").exists()


def start(crew: Crew, name: str, *words: str, until_said: str) -> Member:
    member = Member(crew, name, *words)
    until(lambda: until_said in member.log.read_text())
    return member


def test_a_foreman_names_its_open_doors_at_each_start_and_in_its_status(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    here, everywhere, pingpong = (find_port() for _ in range(3))
    doors = ["--listen", f"plain://127.0.0.1:{here}", "--v1-listen", f"tcp://0.0.0.0:{everywhere}"]
    doors += ["--pingpong", f"tcp://127.0.0.1:{pingpong}", "--insecure"]
    names = [
        (f"plain://127.0.0.1:{here}", HERE),
        (f"tcp://0.0.0.0:{everywhere} (v1)", NETWORK),
        (f"tcp://127.0.0.1:{pingpong} (ping-pong: pingpong)", HERE),
    ]
    for life in range(2):
        foreman = start(crew, f"foreman{life}", "foreman", "run", *doors, until_said=f"{names[-1][0]} is without keys")
        for name, audience in names:
            assert f"INSECURE: {name} is without keys, and open to {audience}" in foreman.log.read_text()
        (status,) = crew.show("status")
        assert status["insecure"] is True
        assert status["insecure_doors"] == [name for name, _ in names]
        assert set(status["insecure_doors"]) < set(status["listening"])
        assert "INSECURE: without keys: plain://" in crew.run("status").stdout.decode()
        foreman.end()
    entries = crew.show("audit")
    assert [entry["insecure"] for entry in entries] == [" and ".join(name for name, _ in names)] * 2


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_foreman_without_an_open_door_is_not_insecure(tmp_path: Path, is_allowed: bool) -> None:
    crew = Crew(tmp_path)
    words = ["--listen", f"tcp://127.0.0.1:{find_port()}", "--v1-listen", f"unix:{tmp_path}/v1"]
    words += ["--roundrobin", f"tcp://127.0.0.1:{find_port()}", "--curve", str(tmp_path / "curve")]
    words += ["--insecure"] if is_allowed else []
    foreman = start(crew, "foreman", "foreman", "run", *words, until_said="listens at")
    (status,) = crew.show("status")
    assert (status["insecure"], status["insecure_doors"], len(status["listening"])) == (False, [], 4)
    assert "INSECURE" not in crew.run("status").stdout.decode()
    foreman.end()
    assert "INSECURE" not in foreman.log.read_text()


def test_a_worker_names_the_link_that_may_be_anybodys(tmp_path: Path) -> None:
    crew, url = Crew(tmp_path), f"plain://127.0.0.1:{find_port()}"
    crew.environment["GANDY_HOME"] = str(tmp_path / "worker")
    warning = f"INSECURE: {url} has no key: a program that poses as it can run commands here as you"
    start(crew, "worker", "worker", "run", "--foreman", url, "--insecure", until_said=warning).end()
    for option in ("--roundrobin", "--pingpong"):
        url = f"tcp://127.0.0.1:{find_port()}"
        words = ["worker", "run", option, url, "--insecure", "--commands", "tests.e2e.stews"]
        words += ["--pingpong-command", "cook"] if option == "--pingpong" else []
        crew.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        start(crew, option, *words, until_said=f"INSECURE: {url} has no key").end()


def test_a_worker_on_the_unix_socket_is_not_insecure(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        worker = start(crew, "worker", "worker", "run", "--insecure", until_said="at work")
        worker.end()
    assert "INSECURE" not in worker.log.read_text()


@pytest.mark.parametrize("level", ["0", "1"])
def test_a_console_server_says_that_it_is_open(tmp_path: Path, level: str) -> None:
    words = ("console", "server", "-d", level, "--address", f"tcp://127.0.0.1:{find_port()}")
    told = Crew(tmp_path).run(*words, "--insecure", data=b"quit\n").stderr.decode()
    assert f"SERVER: INSECURE: it has no keys, and is open to {HERE}" in told
    told = Crew(tmp_path).run(*words, "--curve", str(tmp_path / "keys"), data=b"quit\n").stderr.decode()
    assert "INSECURE" not in told


def test_a_peer_without_a_key_at_a_curve_door_is_in_the_audit(tmp_path: Path) -> None:
    crew, url = Crew(tmp_path), f"tcp://127.0.0.1:{find_port()}"
    foreman = start(
        crew,
        "foreman",
        "foreman",
        "run",
        "--pingpong",
        url,
        "--curve",
        str(tmp_path / "curve"),
        until_said="listens at",
    )
    context = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        dealer.curve_serverkey = ServerKeys.open(tmp_path / "curve").public
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.connect(url)
        until(lambda: any(entry["what"] == "refused" for entry in crew.show("audit")))
    finally:
        context.destroy(linger=0)
    refused = next(entry for entry in crew.show("audit") if entry["what"] == "refused")
    foreman.end()
    told = (refused["who"], refused["from"], refused["why"])
    assert told == ("a stranger", "127.0.0.1", "no key for the ping-pong door")
