"""A peer that comes over the network without the right key gets nothing, and those at work do not notice.

The long version: GANDY_STRANGERS=10000 (half-open links).
"""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from tests.as_root import can_be_nobody
from tests.e2e.crew import GANDY, Crew
from tests.e2e.forts import CLIENT_OFFERS, Fort, Peer, a_fort, drip, is_cut
from tests.e2e.kitchens import SOON
from tests.free_ports import find_port
from tests.processes import many_files
from tests.waiting import until

import gandy
from gandy.core import requests as ask
from gandy.core.extensions import PIECE, WORKER_OFFERS, Piece
from gandy.core.extensions import encode as encode_extension
from gandy.core.keyring import make_proof
from gandy.core.model import JobSpec, JobState
from gandy.core.roles import OFFERS, PERMITS, CrewRole
from gandy.errors import ConfigError, ErrorCode, NotAllowed
from gandy.ids import JobId, TaskNumber
from gandy.keys.certificates import make_identity, make_secret, sign
from gandy.keys.crew import CrewKeys, Membership
from gandy.limits import MAX_STRANGE_BYTES, MAX_STRANGERS
from gandy.wire import calls, joining, v2
from gandy.wire.joining import ALPN_JOIN, Joined, JoinRefused
from gandy.wire.messages import About, Extended, Extension, Hello, Ok, Reset, TaskResult, Update

ELSEWHERE = "127.0.0.2"  # what comes from one address is limited, and those at work share none with strangers
STRANGERS = int(os.environ.get("GANDY_STRANGERS", "3000"))
MAX_GROWTH = 100_000_000  # bytes
LORIS_PATIENCE = 4 * 5.0  # seconds: a stranger has five, and the machine may be busy

# One of each kind, about things that are not there. All that a role may not do is tried with them.
JOB, TASK = JobId(999), TaskNumber(1)
REQUESTS: dict[type[ask.Request], ask.Request] = {
    type(request): request
    for request in (
        ask.Submit(JobSpec(command="true", after=(JOB,))),
        ask.AddLines(1, ("a",)),
        ask.AddTasks(JOB, TASK, (b"",)),
        ask.PutArguments("no name", 0, b""),
        ask.CloseJob(JOB),
        ask.RetractTasks(JOB, ()),
        ask.WatchResults(JOB),
        ask.ListResults(JOB),
        ask.ListJobs(),
        ask.ShowJob(JOB),
        ask.WatchJob(JOB),
        ask.ListTasks(JOB),
        ask.WatchCrew(),
        ask.WatchTasks(JOB),
        ask.Unwatch(number=1),
        ask.ReadStates(JOB),
        ask.FindTasks(JOB, (TASK,)),
        ask.ListSamples(begin=0.0, end=1.0),
        ask.ReadSample(at=0.0),
        ask.ListAttempts(JOB, TASK),
        ask.CancelJob(JOB),
        ask.RetryJob(JOB),
        ask.HoldJob(JOB),
        ask.ReleaseJob(JOB),
        ask.RetractTasks(JOB, (TASK,)),
        ask.ForgetJobs((JOB,)),
        ask.ExplainJob(JOB),
        ask.ListWorkers(),
        ask.StopWorker("nobody"),
        ask.GetStatus(),
        ask.GetTime(),
        ask.ReadOutput(JOB, TASK),
        ask.ReadOutputs(JOB),
        ask.StopForeman(),
        ask.ListForemen(),
        ask.DrainForeman(),
        ask.LookAtShards(),
        ask.ListKeys(),
        ask.ListAudit(1),
        ask.MakeKey(b"", "name", "worker"),
        ask.RevokeKey("nobody"),
        ask.Invite("worker", 60.0),
    )
}

CLIENT_HELLO = v2.encode(0, Hello(0, (), CLIENT_OFFERS))


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    with a_fort(tmp_path_factory.mktemp("home")) as fort:
        yield fort


# Who has no key


@pytest.mark.parametrize(
    "data",
    [
        CLIENT_HELLO,
        v2.encode(0, Hello(4, (), WORKER_OFFERS, About("w", "w", 4))),
        b"GET / HTTP/1.1\r\nHost: gandy\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        bytes(300),
        bytes(range(256)) * 8,
        b"\x16\x03\x01\xff\xff" + bytes(2000),
    ],
    ids=["v2 client", "v2 worker", "http", "ssh", "zeros", "garbage", "a record that is too long"],
)
def test_what_is_not_tls_hears_nothing_of_the_foreman(fort: Fort, data: bytes) -> None:
    with fort.connect() as link:
        link.sendall(data)
        heard = b""
        try:
            while piece := link.recv(1000):
                heard += piece
        except ConnectionError:
            pass
    assert len(heard) <= 7  # an alert of TLS
    assert heard[:1] in (b"", b"\x15")


def test_no_certificate_is_an_unknown_key(fort: Fort) -> None:
    with closing(fort.open(None)) as peer:
        peer.send(CLIENT_HELLO)
        assert peer.hear_end() is ErrorCode.UNKNOWN_KEY


def keep(folder: Path, fort: Fort, secret: bytes, certificate: bytes) -> CrewKeys:
    about = Membership(fort.find_keys("client").about.foreman, "x", CrewRole.CLIENT)
    return CrewKeys.save(folder, about, secret, certificate)


def test_a_foreign_certificate_is_refused_in_the_handshake(fort: Fort, tmp_path: Path) -> None:
    """Self-signed, and signed by another foreman who calls itself the same."""
    other, ours = make_secret(), make_secret()
    identity = make_identity(other.pem)
    for number, (pem, certificate) in enumerate(
        [(other.pem, identity), (ours.pem, sign(identity, other.pem, ours.public, "client", None))]
    ):
        with closing(fort.open(keep(tmp_path / str(number), fort, pem, certificate))) as peer:
            assert is_cut(peer.link)


def test_a_certificate_of_ours_that_is_not_in_the_ring_is_unknown(fort: Fort, tmp_path: Path) -> None:
    """As after the user has removed ring.json."""
    folder, ours = fort.home / "keys", make_secret()
    identity = ssl.PEM_cert_to_DER_cert((folder / "foreman.pem").read_text())
    certificate = sign(identity, (folder / "foreman.key").read_bytes(), ours.public, "client", None)
    with closing(fort.open(keep(tmp_path / "keys", fort, ours.pem, certificate))) as peer:
        assert peer.hear_end() is ErrorCode.UNKNOWN_KEY


def test_a_certificate_without_its_secret_is_worth_nothing(fort: Fort, tmp_path: Path) -> None:
    known = fort.find_keys("client")
    folder, other = tmp_path / "keys", make_secret()
    CrewKeys.save(folder, known.about, other.pem, ssl.PEM_cert_to_DER_cert((known.folder / "peer.pem").read_text()))
    keys = CrewKeys.find(folder)
    assert keys is not None
    with pytest.raises(ConfigError, match="do not work"):
        keys.make_context()


def test_older_tls_is_refused(fort: Fort) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with fort.connect() as link, pytest.raises(OSError, match=r"ALERT|alert|reset|EOF"):
        context.wrap_socket(link)


def test_a_revoked_key_is_cut_at_once_and_stays_out(fort: Fort, tmp_path: Path) -> None:
    keys = fort.make_keys(tmp_path / "keys", CrewRole.WORKER, "leaver")
    with closing(fort.open_worker("leaver-1", keys)) as worker, gandy.Client(fort.address) as owner:
        assert isinstance(worker.hear(), Ok)
        assert [row.name for row in owner.workers() if row.connected] == ["leaver-1"]
        owner.revoke_key("leaver")
        assert worker.hear_end() is ErrorCode.REVOKED_KEY
        until(lambda: not any(row.connected for row in owner.workers()))
    with closing(fort.open_worker("leaver-1", keys)) as worker:
        assert worker.hear_end() is ErrorCode.REVOKED_KEY


def test_a_revoked_peer_that_reads_nothing_is_cut_all_the_same(fort: Fort, tmp_path: Path) -> None:
    """It cannot keep its link, and its worker's tasks, by leaving our last word unread."""
    keys = fort.make_keys(tmp_path / "keys", CrewRole.CLIENT, "deaf")
    with gandy.Client(fort.address) as owner, closing(fort.open(keys)) as peer:
        peer.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.send(CLIENT_HELLO)
        peer.hear()
        many = b"".join(v2.encode(n, Extended(ask.REQUEST, ask.encode(ask.ListKeys()))) for n in range(1, 20_001))
        threading.Thread(target=_send_quietly, args=(peer, many), daemon=True).start()
        owner.revoke_key("deaf")
        until(lambda: not any(row.links for row in owner.keys() if row.name == "deaf"))  # noqa: SIM118


def _send_quietly(peer: Peer, data: bytes) -> None:
    with suppress(OSError, ValueError):
        peer.send(data)


def test_a_key_that_expires_loses_its_link_too(fort: Fort, tmp_path: Path) -> None:
    keys = fort.make_keys(tmp_path / "keys", CrewRole.CLIENT, "guest", seconds=1.5)
    with closing(fort.open(keys)) as peer:
        peer.send(CLIENT_HELLO)
        assert isinstance(peer.hear(), Ok)
        assert peer.hear_end() is ErrorCode.EXPIRED_KEY
    with closing(fort.open(keys)) as peer:
        assert peer.hear_end() is ErrorCode.EXPIRED_KEY


class Recorder:
    """Stands between a client and the foreman, and keeps what the client sent."""

    def __init__(self, port: int) -> None:
        self.heard = b""
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._to = port
        self._running = threading.Thread(target=self._run)
        self._running.start()

    def _run(self) -> None:
        ours, _ = self._door.accept()
        theirs = socket.create_connection(("127.0.0.1", self._to))
        back = threading.Thread(target=self._carry, args=(theirs, ours, []))
        back.start()
        sent: list[bytes] = []
        self._carry(ours, theirs, sent)
        self.heard = b"".join(sent)
        back.join()
        ours.close()
        theirs.close()

    def _carry(self, source: socket.socket, to: socket.socket, kept: list[bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                kept.append(data)
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._running.join(SOON)
        self._door.close()


def test_a_recorded_session_cannot_be_played_again(fort: Fort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANDY_HOME", str(fort.home))
    recorder = Recorder(fort.port)
    with closing(recorder), gandy.Client(f"tcp://127.0.0.1:{recorder.port}") as client:
        job = client.submit("true", held=True)
    hello = 5 + int.from_bytes(recorder.heard[3:5], "big")
    assert len(recorder.heard) > hello + 500
    with gandy.Client(fort.address) as owner:
        before = list(owner.jobs())
        for is_patient in (False, True):
            with fort.connect() as link:
                if is_patient:  # let the foreman speak between, as it did the first time
                    link.sendall(recorder.heard[:hello])
                    assert link.recv(10_000)
                    link.sendall(recorder.heard[hello:])
                else:
                    link.sendall(recorder.heard)
                assert is_cut(link)
        assert list(owner.jobs()) == before
        owner.job(job.id).cancel()


# Joining


def test_a_token_is_used_once(fort: Fort) -> None:
    token = fort.invite()
    assert isinstance(fort.join(token), Joined)
    assert isinstance(fort.join(token), JoinRefused)


def test_a_token_that_expired_or_was_revoked_or_guessed_is_refused_with_the_same_words(fort: Fort) -> None:
    short, revoked, good = fort.invite(seconds=0.2), fort.invite(), fort.invite()
    with gandy.Client(fort.address) as owner:
        owner.revoke_key(joining.parse_token(revoked).invitation)
        until(lambda: all(row.id != joining.parse_token(short).invitation for row in owner.keys()))  # noqa: SIM118
    token = joining.parse_token(good)
    answers = [
        fort.join(short),
        fort.join(revoked),
        fort.join(good, proof=make_proof(bytes(32), b"")),
        fort.join(good, proof=b""),
        fort.join(good, proof=bytes(64)),
        fort.join(good, invitation="00000000"),
    ]
    # A proof for another key, as a program in between would need it.
    stolen = make_proof(joining.bind(token.fingerprint, make_secret().public), token.secret)
    answers.append(fort.join(good, proof=stolen))
    assert {type(answer) for answer in answers} == {JoinRefused}
    assert len(set(answers)) == 1
    assert isinstance(fort.join(good), Joined)


KEYS: dict[str, Callable[[], Any]] = {
    "rsa": lambda: rsa.generate_private_key(65_537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "x25519": x25519.X25519PrivateKey.generate,
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
}


@pytest.mark.parametrize("kind", [*KEYS, "nothing", "garbage"])
def test_a_public_key_of_another_kind_is_refused(fort: Fort, kind: str) -> None:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    public = {"nothing": b"", "garbage": bytes(91)}.get(kind)
    if public is None:
        public = KEYS[kind]().public_key().public_bytes(*form)
    token = fort.invite()
    answer = fort.join(token, public_key=public)
    assert isinstance(answer, JoinRefused)
    assert "key" in answer.reason
    assert isinstance(fort.join(token), Joined)  # it cost no use


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "\x1b[2J", "\u202e"])
def test_a_bad_name_is_refused_and_costs_no_use(fort: Fort, name: str) -> None:
    token = fort.invite()
    assert isinstance(fort.join(token, name=name), JoinRefused)
    assert isinstance(fort.join(token, name=f"{name.encode().hex()[:8]:ü<64}"), Joined)


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff" + bytes(10_000), b"\0\0\x10\x01", b"\0\0\0\4abcdefgh", b"\0\0\0\4abcd", b"\0\0\0\0"]
)
def test_joining_with_nonsense_is_refused(fort: Fort, data: bytes) -> None:
    with closing(fort.open(None, ALPN_JOIN)) as peer:
        peer.send(data)
        with suppress(ConnectionError):  # what we sent and it never read takes the answer with it
            assert isinstance(peer.hear_answer(), JoinRefused)
        assert is_cut(peer.link)


def test_endless_data_about_joining_is_cut(fort: Fort) -> None:
    with closing(fort.open(None, ALPN_JOIN)) as peer, pytest.raises(OSError):  # noqa: PT012
        for _ in range(10_000):
            peer.send(bytes(16_000))


def test_who_joins_is_let_in_with_its_role_and_nothing_else(fort: Fort, tmp_path: Path) -> None:
    secret = make_secret()
    answer = fort.join(fort.invite("observer"), secret)
    assert isinstance(answer, Joined)
    keys = keep(tmp_path / "keys", fort, secret.pem, answer.certificate)
    with closing(fort.open(keys)) as peer:
        peer.send(CLIENT_HELLO)
        assert peer.hear() == Ok(0, 0, OFFERS[CrewRole.OBSERVER] & CLIENT_OFFERS)


# Roles


def test_every_request_is_tried() -> None:
    assert set(REQUESTS) == set(get_args(ask.Request)) == set(PERMITS)


@pytest.mark.parametrize("role", [CrewRole.CLIENT, CrewRole.OBSERVER])
def test_requests_that_are_not_for_a_role_are_refused(fort: Fort, role: CrewRole) -> None:
    with closing(fort.open_client(role)) as peer:
        for number, (kind, request) in enumerate(REQUESTS.items(), 1):
            if role in PERMITS[kind] and kind is ask.StopForeman:
                continue  # it may, and would
            answer = peer.ask(request, number)
            is_refused = isinstance(answer, ask.RequestFailure) and answer.kind == "not_allowed"
            assert is_refused == (role not in PERMITS[kind]), (request, answer)
    assert fort.is_well()


def test_the_owner_may_ask_all(fort: Fort) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as link:
        link.connect(str(fort.home / "foreman.sock"))
        link.settimeout(SOON)
        peer = Peer(link)  # type: ignore[arg-type]  # it reads and writes like the others
        peer.send(CLIENT_HELLO)
        assert isinstance(peer.hear(), Ok)
        for number, (kind, request) in enumerate(REQUESTS.items(), 1):
            if kind is not ask.StopForeman:
                answer = peer.ask(request, number)
                assert not (isinstance(answer, ask.RequestFailure) and answer.kind == "not_allowed"), (request, answer)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_a_worker_can_ask_nothing(fort: Fort, kind: type[ask.Request]) -> None:
    with closing(fort.open_worker("asker")) as worker:
        assert isinstance(worker.hear(), Ok)
        worker.say(Extended(ask.REQUEST, ask.encode(REQUESTS[kind])), 1)
        assert worker.hear_end() is ErrorCode.UNKNOWN_TYPE


# What the law or the switchboard refuses of a frame that the role may send in another state.
FRAMES = {
    calls.CALL: (calls.CALL, 0, 1, 0, calls.encode_target("ping")),
    calls.ANNOUNCE: (calls.ANNOUNCE, 0, 0, 0, calls.encode_announcement(1, 0, [calls.Offer("ping")])),
    calls.RESULT: (calls.RESULT, calls.LAST, 7, 0, b""),
}
REFUSED_FRAMES = [
    ("client", calls.ANNOUNCE, ErrorCode.WRONG_ROLE),
    ("client", calls.RESULT, ErrorCode.BAD_SEQ),
    ("observer", calls.CALL, ErrorCode.UNKNOWN_TYPE),
    ("observer", calls.ANNOUNCE, ErrorCode.UNKNOWN_TYPE),
    ("observer", calls.RESULT, ErrorCode.UNKNOWN_TYPE),
    ("worker", calls.CALL, ErrorCode.WRONG_ROLE),
    ("worker", calls.RESULT, ErrorCode.BAD_SEQ),
]


@pytest.mark.parametrize(("role", "kind", "code"), REFUSED_FRAMES)
def test_frames_that_are_not_for_a_role_cut_the_link(fort: Fort, role: str, kind: int, code: ErrorCode) -> None:
    peer = fort.open_worker("framer") if role == "worker" else fort.open_client(role)
    with closing(peer):
        peer.send(calls.encode(*FRAMES[kind]))
        assert peer.hear_end() is code
    assert fort.list_offers("framer") == ()


@pytest.mark.parametrize("kind", [0x20, 0x60, 0x61, 0x62, 0x10, 0x11])
@pytest.mark.parametrize("role", ["client", "observer"])
def test_clients_have_no_frames_of_workers(fort: Fort, role: str, kind: int) -> None:
    with closing(fort.open_client(role)) as peer:
        peer.send(v2.HEADER.pack(0xC047, kind, 0, 1, 0, 0))
        assert peer.hear_end() is ErrorCode.UNKNOWN_TYPE


AS_WORKER = Hello(1, (), WORKER_OFFERS, About("posing", "posing", 1))
AS_BOTH = Hello(1, (), WORKER_OFFERS | Extension.CLIENT, About("posing", "posing", 1))
AS_CLIENT = Hello(0, (), CLIENT_OFFERS)


@pytest.mark.parametrize("hello", [AS_WORKER, AS_BOTH, Hello(1, (), Extension.ATOMIC)], ids=["own", "both", "plain"])
@pytest.mark.parametrize("role", ["client", "observer"])
def test_a_client_is_no_worker_at_once_or_later_or_after_a_reset(fort: Fort, role: str, hello: Hello) -> None:
    with closing(fort.open(fort.find_keys(role))) as peer:
        peer.say(hello)
        assert peer.hear_end() is ErrorCode.WRONG_ROLE
    with closing(fort.open_client(role)) as peer:
        peer.say(hello, 2)
        assert peer.hear_end() is ErrorCode.WRONG_ROLE
    with closing(fort.open_client(role)) as peer:
        peer.say(Reset(0), 2)
        assert isinstance(peer.hear(), Reset)
        peer.say(hello)
        assert peer.hear_end() is ErrorCode.WRONG_ROLE
    with gandy.Client(fort.address) as owner:
        assert not [row for row in owner.workers() if row.connected and row.id == "posing"]


def test_a_worker_is_no_client_at_once_or_later(fort: Fort) -> None:
    with closing(fort.open(fort.find_keys("worker"))) as peer:
        peer.say(AS_CLIENT)
        assert peer.hear_end() is ErrorCode.WRONG_ROLE
    with closing(fort.open_worker("turncoat")) as peer:
        assert isinstance(peer.hear(), Ok)
        peer.say(AS_CLIENT, 2)
        assert peer.hear_end() is ErrorCode.WRONG_ROLE


@pytest.mark.parametrize("role", ["client", "observer"])
def test_no_peer_but_its_worker_ends_a_task(fort: Fort, role: str) -> None:
    """An UPDATE is acknowledged, so that a peer without a say in the task forgets it, and changes nothing."""
    with closing(fort.open_worker("honest")) as worker, gandy.Client(fort.address) as owner:
        assert isinstance(worker.hear(), Ok)
        job = owner.submit("true")
        assert worker.hear() is not None
        result = TaskResult(job.id, TASK, True, "done")
        with closing(fort.open_client(role)) as peer:
            peer.say(Update(result), 2)
            assert isinstance(peer.hear(), Ok)
        with closing(fort.open_worker("liar", slots=1)) as liar:
            assert isinstance(liar.hear(), Ok)
            liar.say(Update(result), 2)
            assert isinstance(liar.hear(), Ok)
        assert job.status().state is JobState.RUNNING
        owner.job(job.id).cancel()


def test_a_worker_cannot_take_the_id_of_another(fort: Fort, tmp_path: Path) -> None:
    """As long as the foreman remembers a worker, its id belongs to the key that it came in with."""
    thief_keys = fort.make_keys(tmp_path / "keys", CrewRole.WORKER, "thief")
    with closing(fort.open_worker("victim-1")) as victim, gandy.Client(fort.address) as owner:
        assert isinstance(victim.hear(), Ok)
        with closing(fort.open_worker("victim-1", thief_keys)) as thief:
            assert thief.hear_end() is ErrorCode.WRONG_ROLE
        assert [row.id for row in owner.workers() if row.connected] == ["victim-1"]
        with closing(fort.open_worker("victim-1")) as again:  # the same key: its link broke, and it is back
            assert isinstance(again.hear(), Ok)
            assert is_cut(victim.link)
    assert "the id victim-1 belongs to another key" in fort.read_log()


def test_a_worker_with_two_ids_does_not_end_the_foreman(fort: Fort) -> None:
    with closing(fort.open_worker("first-1")) as worker, gandy.Client(fort.address) as owner:
        assert isinstance(worker.hear(), Ok)
        worker.say(Hello(1, (), WORKER_OFFERS, About("second-1", "second", 1)), 2)
        assert worker.hear_end() is ErrorCode.BAD_PAYLOAD
        job = owner.submit("true")
        until(lambda: not any(row.connected for row in owner.workers()))
        owner.job(job.id).cancel()
    assert fort.is_well()


def test_a_worker_cannot_answer_for_another(fort: Fort) -> None:
    """Numbers of pieces are easily guessed."""
    with (
        closing(fort.open_worker("reader-1")) as honest,
        closing(fort.open_worker("forger-1")) as forger,
        gandy.Client(fort.address) as owner,
    ):
        assert isinstance(honest.hear(), Ok)
        assert isinstance(forger.hear(), Ok)
        forged = encode_extension(Piece(b"forged", is_last=True))
        jobs = [owner.submit("true") for _ in range(2)]
        said: list[bytes] = []
        asker = threading.Thread(target=lambda: said.append(_read_output(fort, jobs[0].id)), daemon=True)
        asker.start()
        keeper, other = _find_asked(honest, forger)
        for number in range(1, 200):
            other.say(Extended(PIECE, forged), number)
        other.say(Extended(0x20, b""), 1)  # a PING: when its PONG is here, all before it was heard
        while not (isinstance(heard := other.hear(), Extended) and heard.type == 0x21):
            assert heard is not None
        peer, seq = keeper
        peer.say(Extended(PIECE, encode_extension(Piece(b"true words", is_last=True))), seq)
        asker.join(SOON)
        assert said == [b"true words"]
        for job in jobs:
            owner.job(job.id).cancel()


def _read_output(fort: Fort, job: JobId) -> bytes:
    with closing(fort.open_client("client")) as peer:
        answer = peer.ask(ask.ReadOutput(job, TASK))
        assert isinstance(answer, ask.Output), answer
        return answer.data


def _find_asked(*workers: Peer) -> tuple[tuple[Peer, int], Peer]:
    """Which of two was asked to READ, with the number, and the other one."""
    import select

    decoder = {worker: v2.V2Decoder() for worker in workers}
    for each in decoder.values():
        each.allow(v2.KNOWN_EXTENSIONS)
    while True:
        pending = [worker for worker in workers if worker.link.pending()]
        ready = pending or [
            worker for worker in workers if worker.link in select.select([w.link for w in workers], [], [], SOON)[0]
        ]
        assert ready, "no worker was asked"
        for worker in ready:
            decoder[worker].receive_data(worker.link.recv(65_536))
            while (numbered := decoder[worker].next_message()) is not None:
                seq, message = numbered
                if isinstance(message, Extended) and message.type == 0x60:
                    return (worker, seq), next(other for other in workers if other is not worker)


@pytest.mark.parametrize(
    "work",
    [gandy.Client.keys, lambda client: client.invite("worker", 60.0), lambda client: client.revoke_key("client")],
    ids=["list", "invite", "revoke"],
)
def test_keys_are_for_the_owner_alone(
    fort: Fort, work: Callable[[gandy.Client], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANDY_HOME", str(fort.home))
    with gandy.Client(fort.tcp) as client, pytest.raises(NotAllowed):
        work(client)


def test_another_user_is_turned_away_from_the_unix_socket(fort: Fort, tmp_path: Path) -> None:
    """By the mode of the socket; and, should that be changed, by its user."""
    if not can_be_nobody():
        pytest.skip("only root can be another user")
    path = fort.home / "foreman.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    program = (
        "import os, socket, sys\n"
        "link = socket.socket(socket.AF_UNIX)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    link.connect(sys.argv[1])\n"
        "except OSError as error:\n    print(type(error).__name__); sys.exit()\n"
        f"try:\n    link.sendall({CLIENT_HELLO!r})\n    print(link.recv(100))\n"
        "except ConnectionError:\n    print(b'')\n"
    )
    folders = [folder for folder in path.parents if not folder.stat().st_mode & 0o001]
    modes = {folder: folder.stat().st_mode for folder in folders}

    def come() -> str:
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert come() == "PermissionError"
    try:
        for folder in folders:
            folder.chmod(modes[folder] | 0o011)
        assert come() == "PermissionError"
        path.chmod(0o666)
        assert come() == "b''"
    finally:
        path.chmod(0o600)
        for folder, mode in modes.items():
            folder.chmod(mode)
    assert "another user tried to connect to the unix socket" in fort.read_log()


# Too much


def test_too_many_bytes_before_the_handshake_are_cut(fort: Fort) -> None:
    """A first record of TLS that never ends."""
    with fort.connect() as link:
        data = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(MAX_STRANGE_BYTES)
        try:
            for _ in range(1000):
                link.sendall(data)
        except ConnectionError:
            return
        assert is_cut(link)


def test_peers_that_vanish_in_the_handshake_leave_nothing(fort: Fort) -> None:
    before = fort.count_files()
    hello = read_client_hello()
    for size in (0, 1, 5, 100, len(hello)):
        for _ in range(20):
            link = fort.connect()
            link.sendall(hello[:size])
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, and no farewell
            link.close()
    until(lambda: fort.count_files() <= before + 1)
    assert fort.is_well()


def read_client_hello() -> bytes:
    """The first bytes of a real handshake."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["gandy"])
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ours, theirs).do_handshake()
    return theirs.read()


def test_a_crew_at_work_does_not_notice_a_siege(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-open links, slow ones, joiners that ask nothing, garbage, all at once; and a job goes on."""
    monkeypatch.setenv("GANDY_HOME", str(tmp_path))
    others = MAX_STRANGERS + 500  # joiners, slow links, garbage, and what the test has open itself
    with (
        many_files(STRANGERS, others) as count,
        a_fort(tmp_path) as fort,
        gandy.Client(fort.address) as owner,
        ExitStack() as hanging_up,
    ):
        fort.hire("w1", 2)
        assert fort.is_well()
        before, files = fort.read_memory(), fort.count_files()
        job = owner.submit("sleep 0.02", tasks=300)

        def connect() -> socket.socket:
            return hanging_up.enter_context(fort.connect(ELSEWHERE))

        for _ in range(count):
            connect()
        until(lambda: fort.count_files() <= files + MAX_STRANGERS + 50)
        for _ in range(MAX_STRANGERS + 100):
            with suppress(OSError):  # in the end its address is not heard any more
                hanging_up.enter_context(fort.open(None, ALPN_JOIN, ELSEWHERE).link)
        until(lambda: fort.count_files() <= files + 2 * MAX_STRANGERS + 50)
        slow = [connect() for _ in range(100)]
        garbage = [connect() for _ in range(100)]
        for link in garbage:
            with suppress(ConnectionError):
                link.sendall(os.urandom(5000))
        dripping = threading.Thread(target=drip, args=(slow, read_client_hello(), LORIS_PATIENCE), daemon=True)
        dripping.start()
        assert fort.is_well()
        assert job.wait().state is JobState.FINISHED
        assert fort.read_memory() - before < MAX_GROWTH
        dripping.join(2 * LORIS_PATIENCE)
        assert not dripping.is_alive()
        until(lambda: fort.count_files() <= files + 5)  # they are all gone, though no peer hung up
        hanging_up.close()
        assert fort.is_well()
        assert fort.read_memory() - before < MAX_GROWTH


def test_silent_links_leave_files_for_those_at_work(tmp_path: Path) -> None:
    """A foreman that may open only 256 files, and 600 links that say nothing, through every door."""
    crew = Crew(tmp_path)
    port = find_port()
    words = f"ulimit -n 256; exec {GANDY} foreman run --insecure --listen plain://127.0.0.1:{port}"
    with (tmp_path / "log").open("wb") as log:
        foreman = subprocess.Popen(["sh", "-c", words], env=crew.environment, stdout=log, stderr=log)
    try:
        until(lambda: b"listens at" in (tmp_path / "log").read_bytes())
        links = []
        for _ in range(300):
            links.append(socket.create_connection(("127.0.0.1", port), SOON, (ELSEWHERE, 0)))
            links.append(socket.socket(socket.AF_UNIX))
            links[-1].connect(str(tmp_path / "foreman.sock"))
            with gandy.Client(f"unix:{tmp_path}/foreman.sock") as client:
                client.status()
        for link in links:
            link.close()
    finally:
        foreman.terminate()
        foreman.wait(SOON)
    assert b"Traceback" not in (tmp_path / "log").read_bytes()


def test_slow_strangers_are_cut_by_the_clock(fort: Fort) -> None:
    links = [fort.connect() for _ in range(5)]
    seconds = drip(links, read_client_hello(), LORIS_PATIENCE)
    assert seconds > 4.0
    for link in links:
        link.close()


def test_a_flood_of_refusals_is_counted_and_not_listed(tmp_path: Path) -> None:
    with a_fort(tmp_path) as fort:
        for _ in range(100):
            with closing(fort.open(None)) as peer:
                assert peer.hear_end() is ErrorCode.UNKNOWN_KEY
        assert fort.read_audit().count('"refused"') <= 40  # twenty in each ten seconds
        assert b"Traceback" not in fort.foreman.log.read_bytes()
    assert '"several"' in fort.read_audit()


def test_nothing_here_made_the_foreman_stumble(fort: Fort) -> None:
    log = fort.foreman.log.read_bytes()
    assert b"Traceback" not in log
    assert b"bug" not in log
    assert fort.is_well()
