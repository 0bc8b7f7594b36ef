"""Secrets stay where they are needed: a canary in a job's environment, and keys, looked for in all that comes out."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member
from tests.free_ports import find_port
from tests.waiting import until

from gandy import Client
from gandy.doors.sockets.curve import ClientKeys, Pair, ServerKeys
from gandy.keys.certificates import make_secret
from gandy.keys.crew import CrewKeys
from gandy.keys.foreman import ForemanKeys

CANARY = "canary-5f1b"


class Aviary(Crew):
    """A foreman, a worker and an observer, and whatever they write."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "foreman")
        self.home.mkdir()
        self.url = f"tcp://127.0.0.1:{find_port()}"
        self.members = [Member(self, "foreman", "foreman", "run", "--listen", self.url)]
        until(lambda: "listens at" in self.members[0].log.read_text())
        self.observer, self.worker = Crew(home / "observer"), Crew(home / "worker")
        for other, role in ((self.observer, "observer"), (self.worker, "worker")):
            other.run("join", "-", "--name", f"our {role}", data=self.run("invite", f"--{role}").stdout)
        self.members.append(Member(self.worker, "worker", "worker", "run"))
        until(lambda: "at work" in self.members[1].log.read_text())

    def end(self) -> None:
        for member in reversed(self.members):
            member.end()


@pytest.fixture(scope="module")
def aviary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aviary]:
    aviary = Aviary(tmp_path_factory.mktemp("home"))
    yield aviary
    aviary.end()


LOOKS = [
    ("job", "list", "--all"),
    ("job", "show", "{job}"),
    ("job", "show", "{job}", "--tasks"),
    ("job", "show", "{job}", "--task", "1"),
    ("job", "explain", "{job}"),
    ("job", "wait", "{job}"),
    ("worker", "list"),
    ("status",),
]


def test_values_of_an_environment_reach_the_task_and_no_other_process(aviary: Aviary) -> None:
    held = aviary.submit("--hold", "--env", f"SECRET={CANARY}", "true")
    job = aviary.submit("--wait", "--env", f"SECRET={CANARY}", "--env", "EMPTY=", "test ${#SECRET} = 11; exit $?")
    assert aviary.show("job", "show", job)[0]["env"] == {"SECRET": None, "EMPTY": None}
    assert "SECRET EMPTY" in aviary.run("job", "show", job).stdout.decode()
    shown = []
    for crew in (aviary, aviary.observer):
        for words in LOOKS:
            for form in ("table", "json", "quiet"):
                if "explain" in words and form != "table":
                    continue
                done = crew.run(*(word.format(job=job) for word in words), "--output", form)
                shown += [done.stdout, done.stderr]
    for verb in ("release", "hold", "cancel", "forget"):
        for form in ("table", "json"):
            other = aviary.submit("--hold", "--env", f"SECRET={CANARY}", "true")
            if verb == "forget":
                aviary.run("job", "cancel", other)
            done = aviary.run("job", verb, other, "--output", form)
            shown += [done.stdout, done.stderr]
    shown.append(aviary.run("audit", "--last", "1000").stdout)
    for member in aviary.members:
        shown.append(member.log.read_bytes())
        shown.append(Path(f"/proc/{member.process.pid}/cmdline").read_bytes())
    shown.append((aviary.home / "audit.jsonl").read_bytes())
    assert not [text for text in shown if CANARY.encode() in text]
    aviary.run("job", "cancel", held)


def test_a_client_in_python_gets_names_and_no_values(aviary: Aviary) -> None:
    with Client(f"unix:{aviary.home}/foreman.sock") as client:
        job = client.submit("true", env={"SECRET": CANARY})
        rows = [job.status(), job.wait(), *(row for row in client.jobs() if row.job == job.id)]
    assert [row.spec.env for row in rows] == [{"SECRET": ""}] * 3


def test_a_job_that_is_tried_again_has_its_values_still(aviary: Aviary) -> None:
    """Blank ones are for those who look: nothing that was told is taken for what is kept."""
    words = ("--env", f"SECRET={CANARY}", "--cwd", str(aviary.home))
    job = aviary.submit(*words, "test -e again || exit 1; test ${#SECRET} = 11")
    aviary.run("job", "wait", job, code=1)
    (aviary.home / "again").touch()
    aviary.run("job", "retry", job)
    aviary.run("job", "wait", job)


def test_the_secrets_of_keys_are_in_their_own_files_only(aviary: Aviary) -> None:
    """Neither whole nor as their base64 line, in logs, the audit, the store or the ring."""
    keys = [*aviary.home.rglob("*.key"), *aviary.observer.home.rglob("*.key"), *aviary.worker.home.rglob("*.key")]
    assert len(keys) == 8
    secrets = [path.read_bytes().splitlines()[path.name != "ensemble.key"] for path in keys]
    others = [path for path in aviary.home.parent.rglob("*") if path.is_file() and path not in keys]
    assert {"audit.jsonl", "jobs.sqlite", "ring.json", "foreman.log", "worker.log"} <= {path.name for path in others}
    for path in others:
        data = path.read_bytes()
        assert not [secret for secret in secrets if secret in data], path


def test_an_invitation_is_not_on_disk(aviary: Aviary) -> None:
    token = aviary.run("invite", "--client", "--output", "quiet").stdout.strip()
    for path in aviary.home.rglob("*"):
        if path.is_file():
            assert token not in path.read_bytes(), path


def test_no_key_shows_its_secret(tmp_path: Path) -> None:
    secret = make_secret()
    foreman = ForemanKeys(tmp_path / "keys")
    server = ServerKeys.open(tmp_path / "curve")
    found = CrewKeys.find(tmp_path / "keys" / "client")
    client = ClientKeys.open(tmp_path / "curve")
    pair = Pair(b"p" * 40, b"s" * 40)
    shown = " ".join(f"{each!r} {each!s}" for each in (secret, foreman, server, client, found, pair, foreman.ring))
    lines = secret.pem.decode().splitlines() + (tmp_path / "keys" / "foreman.key").read_text().splitlines()
    assert not [line for line in lines if line in shown]
    assert "s" * 40 not in shown
    assert (tmp_path / "curve" / "server.key_secret").read_text().split('"')[3] not in shown


def test_a_task_that_cannot_start_does_not_tell_its_environment(aviary: Aviary) -> None:
    job = aviary.submit("--env", f"SECRET={CANARY}", "--", "/no/such/program")
    aviary.run("job", "wait", job, code=1)
    told = aviary.run("job", "explain", job).stdout + json.dumps(aviary.show("job", "show", job, "--tasks")).encode()
    assert b"/no/such/program" in told
    assert CANARY.encode() not in told


def test_a_foreman_that_is_stopped_by_a_signal_says_nothing_secret(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run") as foreman:
        crew.submit("--env", f"SECRET={CANARY}", "true")
        foreman.terminate()
        assert CANARY.encode() not in foreman.communicate(timeout=PATIENCE)[1]


# Files


@pytest.fixture
def _open_umask() -> Iterator[None]:
    """What others may read must not hang on it."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_nothing_under_a_home_is_for_other_users(tmp_path: Path) -> None:
    """Of a foreman, of a worker that joined it, and of a client: folders, files and sockets."""
    foreman, worker, client = (Crew(tmp_path / "deep" / name) for name in ("foreman", "worker", "client"))
    (tmp_path / "deep").mkdir(mode=0o700)
    url = f"tcp://127.0.0.1:{find_port()}"
    with foreman.running("foreman", "run", "--listen", url):
        worker.environment["GANDY_TOKEN"] = (
            foreman.run("invite", "--worker", "--output", "quiet").stdout.decode().strip()
        )
        client.run("join", "-", data=foreman.run("invite", "--client").stdout)
        with worker.running("worker", "run", "--slots", "2"):
            job = client.submit("--wait", "--tasks", "3", "echo out; echo err >&2; umask")
            assert client.run("job", "output", job).stdout.count(b"0000") == 3  # tasks keep what the user has
            with Client(f"unix:{foreman.home}/foreman.sock") as owner:
                assert owner.run(len, bytes(3_000_000)).result() == 3_000_000
                assert len(owner.run(bytes, 3_000_000).result()) == 3_000_000
            seen = [path for home in (foreman, worker, client) for path in (home.home, *home.home.rglob("*"))]
            open_to_others = {str(path): oct(path.stat().st_mode) for path in seen if path.stat().st_mode & 0o077}
    assert len(seen) > 20
    assert open_to_others == {}
