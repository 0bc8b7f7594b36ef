"""What peers of the server may send, and how much: everything else is refused, or does no harm."""

import asyncio
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.dashboard.dashboards import Caller, a_dashboard, a_dashboard_at, parse, sign_in
from tests.integration.local_crews import a_foreman, run
from tests.processes import many_files, read_memory
from tests.waiting import until_async

from gandy.dashboard import connection as connecting
from gandy.dashboard import server as serving
from gandy.dashboard.limits import MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_SESSION_REQUESTS, MAX_STRANGERS
from gandy.keys.certificates import make_identity, make_secret

NO_FOREMAN = "unix:/nonexistent/foreman.sock"


def make_head(caller: Caller, *lines: str, method: str = "GET", path: str = "/api/session") -> bytes:
    given = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{caller.port}", f"Cookie: {caller.headers['Cookie']}"]
    return "\r\n".join([*given, *lines, "", ""]).encode()


def list_statuses(data: bytes) -> list[int]:
    """Of all responses in the bytes."""
    return [int(part.split(b" ", 1)[0]) for part in data.split(b"HTTP/1.1 ")[1:]]


def test_one_connection_carries_many_requests() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            reader, writer = await browser.open()
            for _ in range(5):
                writer.write(make_head(browser))
                head = await reader.readuntil(b"\r\n\r\n")
                reply = parse(head)
                assert reply.status == 200
                assert b"can_change" in await reader.readexactly(int(reply.headers["content-length"]))
            writer.close()

    run(test())


def test_requests_that_are_sent_at_once_are_answered_in_order() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            paths = ["/api/session", "/api/none", "/api/crew", "/api/jobs/x", "/nothing", "/api/session"]
            *most, last = paths
            data = b"".join(make_head(browser, path=path) for path in most)
            answers = await browser.talk(data + make_head(browser, "Connection: close", path=last))
            assert list_statuses(answers) == [200, 404, 200, 404, 404, 200]

    run(test())


async def send_for_ever(peer: socket.socket, data: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(peer, data)


def test_peer_that_reads_no_answers_is_not_read_any_further() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                peer.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(peer, ("127.0.0.1", browser.port))
                before = read_memory("self", "VmRSS")
                flood = asyncio.create_task(send_for_ever(peer, make_head(browser, path="/api/crew") * 100))
                await asyncio.sleep(3)
                assert not flood.done()
                flood.cancel()
                await asyncio.gather(flood, return_exceptions=True)  # before its socket is closed
                assert read_memory("self", "VmRSS") < before + 50_000_000
            assert (await browser.get("/api/session")).status == 200

    run(test())


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32) + b"\r\n\r\n",  # TLS
        b"47c00100020000000000000005001100\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET  /  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\x00: y\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            statuses = list_statuses(await Caller(dashboard).talk(data))
            assert len(statuses) == 1
            assert statuses[0] in (400, 421, 501)
            assert (await sign_in(dashboard)).headers

    run(test())


@pytest.mark.parametrize("target", ["http://evil.example/api/session", "*", "api/session", "127.0.0.1:1"])
def test_target_is_a_path(target: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            answer = await browser.talk(make_head(browser, "Connection: close", path=target))
            assert list_statuses(answer) in ([400], [404])

    run(test())


def test_long_head_is_refused() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            long = await browser.talk(make_head(browser, f"X-Long: {'x' * MAX_HEAD_BYTES}", "Connection: close"))
            assert list_statuses(long) == [431]
            endless = await browser.talk(b"GET /" + b"x" * (MAX_HEAD_BYTES + 100))
            assert list_statuses(endless) == [431]

    run(test())


def test_large_body_is_refused_before_it_is_read() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            changing = ("X-Gandy: 1", "Content-Type: application/json")
            for length in (f"{MAX_BODY_BYTES + 1}", "9" * 19):
                said = make_head(browser, *changing, f"Content-Length: {length}", method="POST", path="/api/jobs")
                assert list_statuses(await browser.talk(said)) == [413]
            unsaid = make_head(browser, *changing, "Transfer-Encoding: chunked", method="POST", path="/api/jobs")
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            assert list_statuses(await browser.talk(unsaid + chunk * (MAX_BODY_BYTES // 0x10000 + 1))) == [413]

    run(test())


def test_body_of_a_stranger_is_not_read() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            stranger = Caller(dashboard, {"Cookie": "gandy=none"})
            head = make_head(
                stranger, "X-Gandy: 1", "Content-Type: application/json", "Content-Length: 900000",
                method="POST", path="/api/jobs",
            )  # fmt: skip
            assert list_statuses(await stranger.talk(head)) == [401]  # although no byte of the body came

    run(test())


def test_body_is_asked_for_when_the_peer_waits_for_that(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            reader, writer = await browser.open()
            body = b'{"command": "true", "held": true}'
            writer.write(
                make_head(
                    browser, "X-Gandy: 1", "Content-Type: application/json", "Expect: 100-continue",
                    f"Content-Length: {len(body)}", method="POST", path="/api/jobs",
                )
            )  # fmt: skip
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(body)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
            writer.close()

    run(test())


def test_head_has_the_headers_and_no_body() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            for path in ("/", "/api/session", "/api/none", "/api/crew/events"):
                get_head = await browser.get(path, "HEAD")
                assert get_head.body == b""
            assert int((await browser.get("/api/session", "HEAD")).headers["content-length"]) > 50

    run(test())


def test_old_clients_are_answered() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            data = make_head(browser).replace(b"HTTP/1.1", b"HTTP/1.0")
            assert b'"can_change"' in await browser.talk(data)

    run(test())


def test_slow_heads_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.05)

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reader, writer = await Caller(dashboard).open()
            writer.write(b"GET / HTTP/1.1\r\n")
            while await is_open(reader):
                writer.write(b"X-Slow: x\r\n")
            writer.close()

    run(test())


async def is_open(reader: asyncio.StreamReader) -> bool:
    """False, if the other end has closed the connection."""
    try:
        async with asyncio.timeout(0.02):
            return bool(await reader.read(1))
    except TimeoutError:
        return True
    except ConnectionResetError:
        return False


def test_slow_bodies_and_idle_connections_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(connecting, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.05)

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            head = make_head(
                browser, "X-Gandy: 1", "Content-Type: application/json", "Content-Length: 100", method="POST",
                path="/api/jobs",
            )  # fmt: skip
            assert await browser.talk(head + b"{") == b""
            assert list_statuses(await browser.talk(make_head(browser))) == [200]

    run(test())


def test_thousand_strangers_keep_no_browser_out(tmp_path: Path) -> None:
    """Each sends a part of a request and nothing more. Those that have waited longest are cut."""

    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            before = read_memory("self", "VmRSS")
            with many_files(2_100, 200) as room, ExitStack() as stack:
                count = min(1_000, room // 2)
                for number in range(count):
                    peer = stack.enter_context(socket.create_connection(("127.0.0.1", browser.port)))
                    peer.send(b"GET / HTTP/1.1\r\nX: ")
                    if not number % 100:
                        assert (await browser.get("/api/status")).status == 200
                assert (await browser.get("/api/status")).status == 200
                assert (await sign_in(browser.dashboard)).headers
                await until_async(lambda: browser.dashboard.count_connections() <= MAX_STRANGERS)
                assert read_memory("self", "VmRSS") < before + 50_000_000
            await until_async(lambda: not browser.dashboard.count_connections())

    run(test())


def test_session_has_a_few_requests_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(browser.get("/api/jobs")) for _ in range(4 * MAX_SESSION_REQUESTS)]
            statuses = [task.result().status for task in asked]
            assert set(statuses) == {200, 429}
            assert statuses.count(200) >= MAX_SESSION_REQUESTS
            assert all("retry-after" in task.result().headers for task in asked if task.result().status == 429)
            assert (await browser.get("/api/jobs")).status == 200

    run(test())


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    secret = make_secret()
    (tmp_path / "key.pem").write_bytes(secret.pem)
    (tmp_path / "cert.pem").write_text(ssl.DER_cert_to_PEM_cert(make_identity(secret.pem)))
    return str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")


def test_with_a_certificate_everything_is_tls(certificate: tuple[str, str]) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN, certificate=certificate) as dashboard:
            caller = Caller(dashboard)
            reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port, ssl=context)
            writer.write(caller.make_request("GET", f"/?token={dashboard.token}", {}))
            reply = parse(await reader.read())
            assert reply.status == 303
            assert reply.headers["set-cookie"].endswith("; Secure")
            writer.close()
            assert not list_statuses(await caller.talk(caller.make_request("GET", "/", {})))  # without TLS

    run(test())
