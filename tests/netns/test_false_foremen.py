"""A false foreman on the same network announces itself first: workers and clients that have joined send it nothing."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tests.netns.machines import PORT, Home
from tests.netns.namespaces import Namespace, a_network
from tests.netns.traps import Trap, a_trap, a_unix_trap
from tests.waiting import until

from gandy.bus import Ensemble
from gandy.bus.crew import Search, Signpost, name_service
from gandy.bus.limits import MAX_ADDRESSES_PER_PROCESS
from gandy.config import parse_address
from gandy.keys.foreman import ForemanKeys

BAND: Final = "band"
OURS: Final = "a1" * 32
THEIRS: Final = "b2" * 32
NEW_PORT: Final = 5500
TLS_TRAP: Final = 6001
PLAIN_TRAP: Final = 6002


def test_a_false_foreman_that_was_first_learns_nothing(tmp_path: Path) -> None:
    with (
        a_network(3) as network,
        Home(network.hosts[0], tmp_path / "true") as foreman,
        Home(network.hosts[1], tmp_path / "worker", GANDY_ENSEMBLE=BAND) as worker,
        Home(network.hosts[1], tmp_path / "client", GANDY_ENSEMBLE=BAND) as client,
        Home(network.hosts[2], tmp_path / "false") as false,
        a_unix_trap(tmp_path / "trap.sock") as unix_trap,
    ):
        here, _, there = network.hosts
        running = foreman.run_foreman("--listen", f"tcp://0.0.0.0:{PORT}")
        worker.join(foreman.make_token("worker", f"tcp://{here.ip}:{PORT}"))
        client.join(foreman.make_token("client", f"tcp://{here.ip}:{PORT}"))
        running.end()

        # A foreman of another crew, with keys of its own; and a process that claims to have the certificate of ours,
        # first without the ensemble's key, then as one of the crew, with it.
        doors = ("--listen", f"tcp://0.0.0.0:{PORT}", "--listen", f"plain://0.0.0.0:{PORT + 1}")
        false.run_foreman("--ensemble", BAND, "--insecure", *doors)
        pin = ForemanKeys(tmp_path / "true" / "keys").fingerprint
        with (
            a_trap(here, PORT, tmp_path / "liar") as old,
            a_trap(there, TLS_TRAP, tmp_path / "liar") as tls_trap,
            a_trap(there, PLAIN_TRAP) as plain_trap,
        ):
            with there.inside():
                stranger = Ensemble(BAND, insecure=True)
                liar = Ensemble(BAND, key=(tmp_path / "worker/crew/ensemble.key").read_text(), ip=there.ip)
            with stranger, liar:
                told = (
                    f"unix:{tmp_path}/trap.sock",
                    f"tcp://{there.ip}:{TLS_TRAP}",
                    f"plain://{there.ip}:{PLAIN_TRAP}",
                )
                for band in (stranger, liar):
                    Signpost(band, [parse_address(each) for each in told], pin)
                    band.service(f"{name_service(pin)}-no..host:1").offer()
                worker.run_worker("hut")
                done = client.run("submit", "--", "true", code=1)
                assert b"is not our foreman: its certificate is another one" in done.stderr
                for trap in (old, tls_trap):
                    trap.until_visited()

                foreman.run_foreman("--listen", f"tcp://0.0.0.0:{NEW_PORT}", "--ensemble", BAND)
                foreman.until_working("hut")
                client.run("submit", "--wait", "--", "true")
                assert_untouched(old, tls_trap)
                assert plain_trap.visits == 0
                assert unix_trap.list_unread() == []

                # A client without a key, and with --insecure, falls for it: so these traps work.
                with Home(network.hosts[1], tmp_path / "careless") as careless:
                    careless.run_worker("careless", "--ensemble", BAND, "--insecure")
                    plain_trap.until_visited()
                    assert plain_trap.heard != b""
        assert "hut" not in str(false.show("worker", "list"))
        assert false.show("job", "list") == []
        noted = [json.loads(line)["what"] for line in (false.home / "audit.jsonl").read_text().splitlines()]
        assert noted == ["started the foreman"], "no peer came, and none was refused"


def assert_untouched(*traps: Trap) -> None:
    """No HELLO, and not even a certificate."""
    for trap in traps:
        assert trap.heard == b""
        assert "CERTIFICATE" not in trap.handshakes
        assert "CLIENT_HELLO" in trap.handshakes


def test_a_socket_of_another_user_is_told_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with a_network(1) as network, Home(network.hosts[0], tmp_path / "client") as client:
        path = tmp_path / "trap.sock"
        with a_unix_trap(path) as trap:
            done = client.run("status", "--foreman", f"unix:{path}", code=1)
            assert b"belongs to another user" in done.stderr
            trap.expect("heard b''")


@contextmanager
def a_foreman_at(host: Namespace, address: str, pin: str) -> Iterator[Ensemble]:
    """As far as others on the same machine are told."""
    with host.inside(), Ensemble(BAND) as band:
        Signpost(band, [parse_address(address)], pin)
        yield band


def find(search: Search, *wanted: str) -> list[str]:
    """All that is found, until these are."""
    found: list[str] = []
    while not set(wanted) <= set(found):
        more = search.find_more()
        assert more, found
        found += map(str, more)
    return found


def test_two_foremen_in_one_ensemble_are_both_found(host: Namespace) -> None:
    ours, theirs = "tcp://10.0.0.1:5429", "tcp://10.0.0.2:5429"
    with a_foreman_at(host, ours, OURS), a_foreman_at(host, theirs, THEIRS), host.inside():
        with closing(Search(BAND)) as search:
            find(search, ours, theirs)
        with closing(Search(BAND, OURS)) as search:
            assert find(search, ours) == [ours]


def test_a_process_that_names_too_many_addresses_does_not_hide_our_foreman(host: Namespace) -> None:
    ours = "tcp://10.0.0.1:5429"
    with a_foreman_at(host, ours, OURS), a_foreman_at(host, "tcp://10.0.0.2:5429", OURS) as liar, host.inside():
        for port in range(1, 40):
            liar.service(f"{name_service(OURS)}-10.0.0.2:{port}").offer()
        liar.service(f"{name_service(OURS)}-nonsense:").offer()
        with closing(Search(BAND, OURS)) as search:
            assert len(find(search, ours)) <= MAX_ADDRESSES_PER_PROCESS + 1


def test_a_false_foreman_that_makes_us_wait_does_not_hide_ours(host: Namespace) -> None:
    ours, theirs = "tcp://10.0.0.1:5429", "tcp://10.0.0.2:5429"
    with a_foreman_at(host, theirs, OURS), host.inside(), closing(Search(BAND, OURS, timeout=0)) as search:
        found: list[str] = []

        def has_found(place: str) -> bool:
            found.extend(map(str, search.find_more()))
            return place in found

        until(lambda: has_found(theirs))
        with a_foreman_at(host, ours, OURS):  # it comes late, and there is no time left to wait
            until(lambda: has_found(ours))


def test_answers_that_make_no_sense_are_skipped(host: Namespace) -> None:
    ours = "tcp://10.0.0.1:5429"
    with a_foreman_at(host, ours, OURS), host.inside(), Ensemble(BAND) as liar:
        service = liar.service(name_service(THEIRS))
        service.add(lambda reply_to: liar.send(reply_to, 1, 2.0, "nowhere:", "unix:"), "/where", "s")
        with closing(Search(BAND)) as search:
            assert find(search, ours) == [ours]


def test_names_of_services_fit_the_bus() -> None:
    assert len(f"{name_service('0' * 64)}-255.255.255.255:65535") <= 64
