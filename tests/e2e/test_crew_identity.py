"""Foremen on several machines are one crew, as real processes: they join it, and have one keyring and one audit."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member
from tests.free_ports import find_port
from tests.postgres import Postgres
from tests.waiting import until

from gandy import Client


class Post(Crew):
    """The home of a foreman that listens on the network."""

    def __init__(self, home: Path, store: str) -> None:
        home.mkdir(mode=0o700)
        super().__init__(home)
        self.url = f"tcp://127.0.0.1:{find_port()}"
        self.words = ("foreman", "run", "--store", store, "--listen", self.url)

    @contextmanager
    def at_work(self) -> Iterator[Member]:
        (self.home / "foreman.log").unlink(missing_ok=True)  # of its last life
        member = Member(self, "foreman", *self.words)
        try:
            until(lambda: b"listens at" in member.log.read_bytes() or member.process.poll() is not None)
            assert member.process.poll() is None, member.log.read_text()
            yield member
        finally:
            if member.process.poll() is None:
                member.end()

    def admit(self, role: str, home: Path) -> Crew:
        """Another machine, which has joined here."""
        home.mkdir(mode=0o700, exist_ok=True)
        other = Crew(home)
        other.run("join", "-", "--name", home.name, data=self.invite(role).encode())
        return other

    def invite(self, role: str) -> str:
        return self.run("invite", f"--{role}", "--output", "quiet").stdout.decode().strip()

    def list_keys(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.show("key", "list") if row["state"] != "open"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    found = Postgres.start()
    yield found
    found.stop()


@contextmanager
def two_posts(folder: Path, postgres: Postgres) -> Iterator[tuple[Post, Post, Member]]:
    folder.chmod(0o700)
    store = postgres.url(f"identity_{folder.name.replace('-', '_')}")
    first, second = Post(folder / "first", store), Post(folder / "second", store)
    with first.at_work():
        done = second.run("join", "-", "--name", "second", data=first.invite("foreman").encode())
        assert b"gandy foreman run --store postgresql://" in done.stderr
        with second.at_work() as member:
            yield first, second, member


def test_a_crew_of_two_machines(tmp_path: Path, postgres: Postgres) -> None:
    """A worker of one foreman runs what a client of the other submits; and each has all keys."""
    with two_posts(tmp_path, postgres) as (first, second, _):
        worker, client = first.admit("worker", tmp_path / "hut"), second.admit("client", tmp_path / "anna")
        with worker.running("worker", "run", "--slots", "1"):
            job = client.submit("echo", "hello")
            client.run("job", "wait", job)
            assert client.run("job", "output", job).stdout == b"hello\n"
        assert first.list_keys().keys() == second.list_keys().keys() >= {"hut", "anna", "second"}
        assert first.list_keys()["second"]["role"] == "foreman"


def test_a_key_that_is_revoked_at_one_foreman_is_refused_at_the_other(tmp_path: Path, postgres: Postgres) -> None:
    with two_posts(tmp_path, postgres) as (first, second, _):
        client = first.admit("client", tmp_path / "anna")
        client.environment["GANDY_FOREMAN"] = second.url
        client.run("status")
        first.run("key", "revoke", "anna")
        time.sleep(1.0)  # what is promised
        assert b"revoked" in client.run("status", code=1).stderr


def test_a_foreman_whose_key_is_revoked_stops(tmp_path: Path, postgres: Postgres) -> None:
    with two_posts(tmp_path, postgres) as (first, second, member):
        first.run("key", "revoke", "second")
        assert member.process.wait(PATIENCE) == 1
        assert "the key of this foreman was revoked" in member.log.read_text()
        assert b"the key of this foreman was revoked" in second.run(*second.words, code=1).stderr
        second.run("join", "-", "--name", "second", data=first.invite("foreman").encode())
        with second.at_work():
            assert second.list_keys()["second"]["state"] == "good"


def test_a_home_of_another_identity_is_refused_on_the_network_only(tmp_path: Path, postgres: Postgres) -> None:
    with two_posts(tmp_path, postgres) as (first, _second, _member):
        third = Post(tmp_path / "third", first.words[3])
        assert b"this database belongs to a crew with another identity" in third.run(*third.words, code=1).stderr
        with third.running(*third.words[:4]), Client(f"unix:{third.home}/foreman.sock") as client:
            until(lambda: len(client.foremen()) == 3)
        done = third.run("join", "-", "--name", "third", data=first.invite("foreman").encode())
        assert f"the keys of the foreman that was here are in {third.home}/keys.old-1 now" in done.stderr.decode()
        with third.at_work():
            assert third.list_keys().keys() == first.list_keys().keys()


def test_a_home_cannot_join_as_a_foreman_while_one_runs_in_it(tmp_path: Path, postgres: Postgres) -> None:
    with two_posts(tmp_path, postgres) as (first, second, _):
        token = first.invite("foreman").encode()
        assert b"another foreman uses it" in second.run("join", "-", data=token, code=1).stderr
        assert b"this home is that of a foreman" in second.run("leave", code=1).stderr
        assert b"the token is for a foreman" in run_with_token(Crew(first.home / "hut"), token.decode())


def run_with_token(crew: Crew, token: str) -> bytes:
    crew.environment["GANDY_TOKEN"] = token
    return crew.run("status", code=1).stderr


def test_the_audit_has_lines_of_all_foremen(tmp_path: Path, postgres: Postgres) -> None:
    with two_posts(tmp_path, postgres) as (first, second, _):
        second.admit("client", tmp_path / "anna")
        until(lambda: {("joined", "second"), ("joined", "anna")} <= list_noted(first))
        assert list_noted(second) >= {("joined", "second"), ("joined", "anna")}
        with first.start("audit", "--follow", "--last", "1", "--output", "quiet") as following:
            assert following.stdout is not None
            assert following.stdout.readline()
            second.run("invite", "--worker")
            assert b"owner invited\n" in iter(following.stdout.readline, b"")
            following.kill()
    # What the foremen of this home noted is also in a file.
    assert ("joined", "anna") in list_noted(second)
    assert ("joined", "anna") not in list_noted(first)


def list_noted(post: Post) -> set[tuple[str, str]]:
    return {(entry["what"], entry["who"]) for entry in post.show("audit", "--last", "1000")}
