"""Keys from the command line: invitations, joining, leaving, revoking, and the audit of it all, in real processes."""

import json
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member
from tests.free_ports import find_port
from tests.waiting import until

from gandy.keys.ensemble import open_ensemble_key, open_own_key

TOKEN = re.compile(r"gandy1-[\w-]+")

KEY_KEYS = ["id", "name", "role", "state", "made", "expires", "origin", "links", "uses"]


class Site(Crew):
    """A foreman that takes those who have a key, and homes of other machines."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.url = f"tcp://127.0.0.1:{find_port()}"

    def invite(self, role: str, *words: str) -> str:
        return self.run("invite", f"--{role}", "--output", "quiet", *words).stdout.decode().strip()

    def admit(self, role: str, name: str) -> Crew:
        """Another machine, which has joined."""
        other = Crew(self.home / name)
        other.run("join", "-", "--name", name, data=self.invite(role).encode())
        return other

    def audit(self) -> list[dict[str, object]]:
        return self.show("audit", "--last", "1000")

    def until_noted(self, what: str, who: str) -> dict[str, object]:
        found: list[dict[str, object]] = []

        def is_noted() -> bool:
            found[:] = [entry for entry in self.audit() if (entry["what"], entry["who"]) == (what, who)]
            return bool(found)

        until(is_noted)
        return found[-1]


@contextmanager
def a_site(home: Path) -> Iterator[Site]:
    site = Site(home)
    with site.running("foreman", "run", "--listen", site.url):
        yield site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("home")) as site:
        yield site


def read_error(crew: Crew, *words: str, code: int = 1, data: bytes = b"") -> str:
    done = crew.run(*words, code=code, data=data)
    assert done.stdout == b""
    return done.stderr.decode().splitlines()[-1]


# Inviting and joining


def test_the_line_that_invite_prints_is_all_that_it_takes(site: Site, tmp_path: Path) -> None:
    done = site.run("invite", "--client")
    assert b", within 10 min and once:" in done.stderr
    words = done.stdout.decode().split()
    assert words[:2] == ["gandy", "join"]
    other = Crew(tmp_path)
    joined = other.run("join", words[2], "--name", "anna")
    assert joined.stdout.decode() == f"joined the crew at {site.url} as the client anna\n"
    assert joined.stderr == b"next: gandy submit -- hostname\n"
    job = other.submit("true")
    assert other.show("job", "show", job)[0]["state"] == "waiting"
    site.run("job", "cancel", job)
    noted = site.until_noted("submitted", "anna")
    assert noted["as"] == "client"
    assert str(noted["from"]).startswith("127.0.0.1:")


def test_the_whole_line_can_be_piped_to_join(site: Site, tmp_path: Path) -> None:
    line = site.run("invite", "--observer", "--ttl", "1h", "--uses", "2").stdout
    for name in ("eye", "ear"):
        other = Crew(tmp_path / name)
        told = json.loads(other.run("join", "-", "--name", name, "--output", "json", data=line).stdout)
        assert sorted(told) == ["addresses", "foreman", "name", "role"]
        assert (told["name"], told["role"], told["addresses"]) == (name, "observer", [site.url])
        assert other.show("status")[0]["insecure"] is False
    assert "the invitation is not valid" in read_error(Crew(tmp_path / "third"), "join", "-", data=line)


def test_join_keeps_its_secret_to_this_user(site: Site, tmp_path: Path) -> None:
    folder = site.admit("worker", "modest").home / "crew"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_invite_tells_as_much_as_it_is_asked_for(site: Site) -> None:
    (told,) = site.show("invite", "--worker", "--uses", "3")
    assert sorted(told) == ["expires", "role", "token", "uses"]
    assert (told["role"], told["uses"]) == ("worker", 3)
    quiet = site.run("invite", "--worker", "--output", "quiet")
    assert TOKEN.fullmatch(quiet.stdout.decode().strip())
    assert quiet.stderr == b""


def test_join_prints_the_address_alone_when_it_shall_be_quiet(site: Site, tmp_path: Path) -> None:
    done = Crew(tmp_path).run("join", site.invite("client"), "--output", "quiet")
    assert (done.stdout.decode().strip(), done.stderr) == (site.url, b"")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("invite",), 2, "say who joins: --worker, --client, --observer or --foreman"),
        (("invite", "--owner"), 2, "--owner"),
        (("invite", "--worker", "--uses", "0"), 2, "'--uses'"),
        (("invite", "--worker", "--ttl", "soon"), 2, "'soon' is not a time"),
        (("invite", "--worker", "--ttl", "400d"), 1, "at most 366 days"),
        (("invite", "--worker", "--ttl", "0"), 1, "at most 366 days"),
        (("key", "new", "owner"), 2, "'owner' is not one of"),
        (("key", "new", "client", "--name", "x" * 65), 1, "1 to 64 printable characters"),
        (("key", "new", "client", "--name", "a\nb"), 1, "printable characters"),
        (("key", "revoke", "nobody"), 1, "no key and no invitation is called nobody"),
        (("key", "revoke"), 2, "Missing argument 'KEY'"),
        (("audit", "--last", "0"), 2, "'--last'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_is_told(site: Site, words: tuple[str, ...], code: int, error: str) -> None:
    assert error in read_error(site, *words, code=code)


def test_a_foreman_that_is_not_on_the_network_makes_no_invitation(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        assert "--listen tcp://0.0.0.0:5429" in read_error(crew, "invite", "--worker")


def test_an_invitation_that_is_good_on_this_machine_only_says_so(site: Site) -> None:
    here = "On this machine alone (others need a foreman with --listen tcp://0.0.0.0:5429)"
    assert here in site.run("invite", "--worker").stderr.decode()
    elsewhere = ("--address", "tcp://crew.example.org:5429")
    assert site.run("invite", "--worker", *elsewhere).stderr.decode().startswith("On the other machine, within 10 min")


def test_up_can_be_the_beginning_of_a_crew(tmp_path: Path) -> None:
    site = Site(tmp_path / "one")
    with site.running("up", "--slots", "1", "--listen", site.url):
        other = site.admit("worker", "two")
        with other.running("worker", "run", "--name", "two", "--tag", "far"):
            site.run("submit", "--wait", "--tag", "far", "true")
    assert "plain://127.0.0.1:0 would be without keys" in read_error(site, "up", "--listen", "plain://127.0.0.1:0")


@pytest.mark.parametrize("bad", ["", "gandy1-", "gandy1-AAAA", "gandy1-canary-canary-canary", "canary", "gandy1-ü"])
def test_no_error_repeats_what_may_be_a_token(tmp_path: Path, bad: str) -> None:
    crew = Crew(tmp_path)
    for words, data in ((("join", "-"), bad.encode()), (("join", "--", bad), b"")):
        error = read_error(crew, *words, data=data)
        assert error.startswith(("gandy: this is not a token", "gandy: the token is damaged"))
        assert bad == "" or "canary" not in error
    crew.environment["GANDY_TOKEN"] = bad or "canary"
    for command in (("status",), ("worker", "run")):
        error = read_error(crew, *command)
        assert error.startswith("gandy: GANDY_TOKEN: ")
        assert "canary" not in error


def test_a_token_is_good_once_and_no_error_repeats_it(site: Site, tmp_path: Path) -> None:
    token = site.invite("client")
    Crew(tmp_path / "first").run("join", token)
    done = Crew(tmp_path / "second").run("join", token, code=1)
    assert b"the invitation is not valid" in done.stderr
    assert token.encode() not in done.stderr
    assert token.removeprefix("gandy1-").encode() not in done.stderr


def test_another_foreman_at_the_address_gets_no_word(site: Site, tmp_path: Path) -> None:
    """A program that listens there when the foreman does not: its fingerprint is another one."""
    with a_site(tmp_path / "right") as right:
        token = right.invite("client")
        member = right.admit("client", "member")
    false = Site(tmp_path / "false")
    false.url = right.url
    with false.running("foreman", "run", "--listen", false.url):
        assert "is not the foreman that made this token" in read_error(Crew(tmp_path / "x"), "join", token)
        assert "is not our foreman" in read_error(member, "status")
        assert "is not our foreman" in read_error(member, "submit", "true")


def test_joining_again_tells_what_it_replaces(site: Site) -> None:
    member = site.admit("worker", "twice")
    done = member.run("join", site.invite("client"))
    (row,) = [row for row in site.show("key", "list") if row["name"] == "twice"]
    former = f"{site.url}; there, 'gandy key revoke {row['id']}' revokes the key"
    assert f"this replaces the crew at {former}" in done.stderr.decode()
    assert member.show("status")


# What a task can read of the processes above it.
READ_ALL = "env; env >&2; cat /proc/$PPID/cmdline /proc/$PPID/environ; tr '\\0' '\\n' < /proc/$PPID/environ"


def test_a_token_in_the_environment_is_used_once_and_not_handed_on(site: Site, tmp_path: Path) -> None:
    member = Crew(tmp_path)
    member.environment["GANDY_TOKEN"] = site.invite("worker")
    for _ in range(2):  # the second time the key is there
        with member.running("worker", "run", "--name", "box", "--tag", "box"):
            job = site.submit("--wait", "--tag", "box", READ_ALL)
            for stream in ((), ("--task", "1", "--stderr")):
                shown = site.run("job", "output", job, *stream).stdout.decode()
                assert "GANDY_HOME" in shown
                assert "GANDY_TOKEN" not in shown
                assert not TOKEN.search(shown)
            run = ("run", "--tag", "box", "--wait", "os:getenv", '"GANDY_TOKEN"')
            assert b"gandy1-" not in site.run(*run).stdout


# Roles


def test_a_worker_cannot_ask_and_is_told_so(site: Site) -> None:
    member = site.admit("worker", "mute")
    for words in (("status",), ("submit", "true"), ("job", "list")):
        assert "this key is for another role" in read_error(member, *words)
    noted = site.until_noted("refused", "mute")
    assert noted["as"] == "worker"


def test_an_observer_looks_and_changes_nothing(site: Site) -> None:
    member = site.admit("observer", "eye2")
    job = site.submit("--hold", "true")
    assert member.show("job", "show", job)[0]["state"] == "paused"
    for words in (("submit", "true"), ("job", "cancel", job), ("foreman", "stop"), ("worker", "stop", "x")):
        error = read_error(member, *words)
        assert "is not for the role observer" in error
        assert "'gandy invite --client'" in error
    assert "this key is for another role" in read_error(member, "call", "ping")
    assert "the role observer" in str(site.until_noted("refused", "eye2")["why"])
    assert site.show("job", "show", job)[0]["state"] == "paused"
    site.run("job", "cancel", job)


def test_only_the_owner_makes_keys(site: Site) -> None:
    member = site.admit("client", "climber")
    for words in (("key", "list"), ("invite", "--client"), ("key", "new", "client"), ("key", "revoke", "client")):
        error = read_error(member, *words)
        assert f"has joined the crew at {site.url}" in error
        assert "on the foreman's machine" in error
    assert f"has joined the crew at {site.url}" in read_error(member, "audit")


# Keys


def test_keys_are_listed_for_people_and_for_scripts(site: Site) -> None:
    site.admit("worker", "listed")
    rows = {row["name"]: row for row in site.show("key", "list") if row["state"] == "good"}
    assert {"client", "worker", "observer", "listed"} <= rows.keys()
    assert list(rows["listed"]) == KEY_KEYS
    assert (rows["listed"]["role"], rows["listed"]["links"]) == ("worker", 0)
    table = site.run("key", "list").stdout.decode()
    assert rows["listed"]["id"] in table
    assert "invitation" in table
    quiet = site.run("key", "list", "--output", "quiet").stdout.decode().split()
    assert rows["listed"]["id"] in quiet


def test_an_open_invitation_is_listed_and_can_be_revoked(site: Site, tmp_path: Path) -> None:
    token = site.invite("client", "--uses", "7")
    (row,) = [row for row in site.show("key", "list") if row["uses"] == 7]
    assert (row["state"], row["role"]) == ("open", "client")
    assert site.run("key", "revoke", row["id"]).stdout.decode() == f"{row['id']} has no valid key\n"
    assert "the invitation is not valid" in read_error(Crew(tmp_path), "join", token)
    assert site.until_noted("revoked an invitation", "owner")["invitation"] == row["id"]


def test_a_key_that_is_revoked_ends_its_worker_at_once(site: Site) -> None:
    member = site.admit("worker", "leaky")
    worker = Member(member, "leaky", "worker", "run", "--name", "leaky", "--tag", "leaky")
    site.until_noted("came to work", "leaky")
    job = site.submit("--tag", "leaky", "sleep 600")
    until(lambda: site.show("job", "show", job)[0]["running"] == 1)
    (row,) = site.show("key", "revoke", "leaky")
    assert row["state"] == "revoked"
    assert worker.process.wait(PATIENCE) == 1
    assert "gandy: this key was revoked; ask for an invitation" in worker.log.read_text()
    assert site.until_noted("left work", "leaky")["key"] == row["id"]
    assert site.until_noted("revoked a key", "owner")["name"] == "leaky"
    again = Member(member, "leaky2", "worker", "run")
    assert again.process.wait(PATIENCE) == 1
    assert "this key was revoked" in again.log.read_text()
    refused = site.until_noted("refused", "leaky")
    assert (refused["why"], refused["as"], refused["key"]) == ("revoked_key", "worker", row["id"])
    assert site.run("key", "revoke", "leaky").stdout.decode() == "leaky has no valid key\n"
    assert "leaky" not in [entry.get("invitation") for entry in site.audit()]
    site.run("job", "cancel", job)


def test_a_key_in_a_folder_can_be_carried_to_another_machine(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "usb-stick" / "crew"
    done = site.run("key", "new", "client", "--name", "carried", "--to", str(folder))
    assert done.stdout.decode() == f"a key for a client is in {folder}\n"
    assert "copy its files to GANDY_HOME/crew on another machine" in done.stderr.decode()
    other = Crew(folder.parent)
    assert other.show("status")[0]["pid"]
    (row,) = [row for row in site.show("key", "list") if row["name"] == "carried"]
    assert row["id"] in [entry.get("made") for entry in site.audit()]
    assert (folder / "ensemble.key").read_bytes() == (site.home / "keys" / "ensemble.key").read_bytes()
    assert (site.home / "keys" / "ensemble.shared").exists()
    site.run("key", "new", "observer", "--to", str(tmp_path / "eye"))
    assert not (tmp_path / "eye" / "ensemble.key").exists()
    assert open_ensemble_key(str(folder.parent)) == open_own_key(str(site.home))._replace(is_shared=True)
    (folder / "peer.key").chmod(0o644)
    assert f"chmod 600 {folder / 'peer.key'}" in read_error(other, "status")


def test_a_key_ends_by_itself(site: Site, tmp_path: Path) -> None:
    site.run("key", "new", "client", "--name", "mayfly", "--ttl", "0.01s", "--to", str(tmp_path / "crew"))
    assert "this key has expired" in read_error(Crew(tmp_path), "status")
    (row,) = [row for row in site.show("key", "list") if row["name"] == "mayfly"]
    assert row["state"] == "expired"


def test_the_key_of_the_home_can_be_renewed(tmp_path: Path) -> None:
    with a_site(tmp_path) as site:
        before = (tmp_path / "keys" / "client" / "peer.pem").read_bytes()
        site.run("key", "new", "client", "--name", "client2")
        assert (tmp_path / "keys" / "client" / "peer.pem").read_bytes() != before
        assert site.show("status", "--foreman", site.url)
        site.run("key", "revoke", "client")
        assert site.show("status", "--foreman", site.url)


def test_an_observers_folder_has_no_key_of_ensembles(site: Site, tmp_path: Path) -> None:
    site.run("key", "new", "observer", "--name", "onlooker", "--to", str(tmp_path / "crew"))
    assert not (tmp_path / "crew" / "ensemble.key").exists()


def test_a_new_key_of_ensembles_is_for_those_who_join_then(tmp_path: Path) -> None:
    with a_site(tmp_path) as site:
        early = site.admit("worker", "early")
        done = site.run("key", "revoke", "early")
        assert "'gandy key rotate' ends that" in done.stderr.decode()
        site.run("key", "rotate")
        late = site.admit("worker", "late")
        old, new = (open_ensemble_key(str(crew.home)).secret for crew in (early, late))
        assert old != new == open_own_key(str(site.home)).secret
        assert "no foreman was ever started in this one" in read_error(late, "key", "rotate")


def test_keys_survive_the_foreman(tmp_path: Path) -> None:
    site = Site(tmp_path / "home")
    words = ("foreman", "run", "--listen", site.url)
    with site.running(*words) as first:
        good, bad = site.admit("client", "good"), site.admit("client", "bad")
        site.run("key", "revoke", "bad")
        first.kill()
        first.wait(PATIENCE)
    with site.running(*words):
        assert good.show("status")
        assert "this key was revoked" in read_error(bad, "status")


# Leaving


def test_leave_forgets_the_key_and_says_what_is_left_to_do(site: Site) -> None:
    member = site.admit("client", "goer")
    (row,) = [row for row in site.show("key", "list") if row["name"] == "goer"]
    done = member.run("leave")
    assert (
        done.stdout.decode() == f"left the crew at {site.url}; there, 'gandy key revoke {row['id']}' revokes the key\n"
    )
    assert [path.name for path in (member.home / "crew").iterdir()] == [".lock"]
    assert "no foreman is running at unix:" in read_error(member, "status")
    assert "has not joined a crew" in read_error(member, "leave")


# The audit


def test_the_audit_tells_who_did_what(tmp_path: Path) -> None:
    with a_site(tmp_path / "home") as site:
        anna = site.admit("client", "anna")
        job = anna.submit("--name", "soup", "--hold", "true")
        for verb in ("release", "hold", "cancel", "retry", "cancel", "forget"):
            anna.run("job", verb, job)
        anna.run("worker", "stop", "nobody", code=1)
    told = [(entry["what"], entry["who"]) for entry in site.audit() if entry["who"] == "anna"]
    verbs = ["joined", "submitted", "released", "held", "cancelled", "retried", "cancelled", "forgot"]
    assert told == [(verb, "anna") for verb in verbs]
    (joined, submitted, *_) = [entry for entry in site.audit() if entry["who"] == "anna"]
    assert joined["key"] == submitted["key"]
    assert (submitted["job"], submitted["name"], submitted["tasks"]) == (int(job), "soup", 1)


def test_the_audit_is_good_for_people(tmp_path: Path) -> None:
    name = 'eve at hut joined: job="1"'
    with a_site(tmp_path / "home") as site:
        Crew(tmp_path / "eve").run("join", "-", "--name", name, data=site.invite("client", "--ttl", "90").encode())
        site.submit("--name", "one two", "true")
    _started, *lines = site.run("audit").stdout.decode().splitlines()
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    patterns = [
        stamp + r" owner at this machine invited: role=client invitation=[0-9a-f]{8} seconds=90 uses=1",
        stamp + r' "eve at hut joined: job=\\"1\\"" \(client [0-9a-f]{12}\) at 127\.0\.0\.1:\d+ joined: invitation=\w+',
        stamp + r' owner at this machine submitted: job=1 name="one two" tasks=1',
    ]
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    assert site.run("audit", "--last", "1", "--output", "quiet").stdout == b"owner submitted\n"
    assert len(site.show("audit", "--last", "2")) == 2


def test_strangers_are_in_the_audit(tmp_path: Path) -> None:
    with a_site(tmp_path / "right") as right, a_site(tmp_path / "other") as other:
        folder = right.admit("client", "lost").home / "crew"
        theirs = json.loads((other.home / "keys" / "client" / "crew.json").read_bytes())["foreman"]
        about = json.loads((folder / "crew.json").read_bytes())
        (folder / "crew.json").write_text(json.dumps(about | {"foreman": theirs}))
        Crew(folder.parent).run("status", "--foreman", other.url, code=1)
        assert "no handshake: " in str(other.until_noted("refused", "a stranger")["why"])
        read_error(Crew(tmp_path / "x"), "join", right.invite("client", "--ttl", "0.001s"))
        noted = right.until_noted("refused", "a stranger")
        assert "the invitation is not valid" in str(noted["why"])
        assert str(noted["from"]).startswith("127.0.0.1:")


def test_no_foreman_no_audit(tmp_path: Path) -> None:
    assert "no foreman has run in this home" in read_error(Crew(tmp_path), "audit")


def test_the_audit_is_followed_into_its_next_file(tmp_path: Path) -> None:
    """And a line that is half written is told when it is whole."""
    path = tmp_path / "audit.jsonl"

    def note(what: str) -> bytes:
        return json.dumps({"time": 1.0, "what": what, "who": "owner", "from": "this machine"}).encode() + b"\n"

    (tmp_path / "audit.jsonl.1").write_bytes(note("a"))
    path.write_bytes(note("b") + b"torn by a crash\n" + note("c")[:20])
    crew = Crew(tmp_path)
    assert crew.run("audit", "--output", "quiet").stdout == b"owner a\nowner b\n"
    with crew.start("audit", "--follow", "--output", "quiet") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"owner a\n", b"owner b\n"]
        with path.open("ab") as file:
            file.write(note("c")[20:] + note("d"))
            file.flush()
            assert [process.stdout.readline() for _ in range(2)] == [b"owner c\n", b"owner d\n"]
            path.replace(tmp_path / "audit.jsonl.1")
            file.write(note("e"))  # a foreman that had it open
        path.write_bytes(note("f"))
        assert [process.stdout.readline() for _ in range(2)] == [b"owner e\n", b"owner f\n"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in said
