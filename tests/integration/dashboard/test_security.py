"""The doors of the dashboard: tokens, cookies, and requests that another page or another name brought in."""

from pathlib import Path

import pytest
from tests.integration.dashboard.dashboards import Caller, a_dashboard, a_dashboard_at, sign_in
from tests.integration.local_crews import a_foreman, run
from tests.waiting import until_async

NO_FOREMAN = "unix:/nonexistent/foreman.sock"


def test_token_works_once() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            token = dashboard.token
            first = await Caller(dashboard).get(f"/?token={token}")
            second = await Caller(dashboard).get(f"/?token={token}")
            assert (first.status, first.headers["location"]) == (303, "/")
            assert second.status == 401
            assert "set-cookie" not in second.headers
            assert dashboard.token != token  # the next one was printed
            assert (await Caller(dashboard).get(f"/?token={dashboard.token}")).status == 303

    run(test())


def test_browser_with_a_cookie_may_open_its_address_again() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            token = dashboard.token
            browser = await sign_in(dashboard)
            again = await browser.get(f"/?token={token}")
            assert (again.status, again.headers["location"]) == (303, "/")
            assert "set-cookie" not in again.headers

    run(test())


def test_browser_that_another_page_sent_is_led_on_by_a_page_of_ours() -> None:
    """It would not send its new cookie behind a redirect: that request would still be one of the other page."""

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
            without = await Caller(dashboard).get("/", **link)
            assert (without.status, b'http-equiv="refresh"' in without.body) == (401, True)
            once = await Caller(dashboard).get("/", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="navigate")
            assert (once.status, b'http-equiv="refresh"' in once.body) == (401, False)
            opened = await Caller(dashboard).get(f"/?token={dashboard.token}", **link)
            assert (opened.status, b'http-equiv="refresh"' in opened.body) == (200, True)
            assert "SameSite=Strict" in opened.headers["set-cookie"]

    run(test())


def test_cookie_is_for_this_server_only_and_no_script_reads_it() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reply = await Caller(dashboard).get(f"/?token={dashboard.token}")
            secret, *flags = reply.headers["set-cookie"].split("; ")
            assert secret.startswith(f"gandy_{dashboard.port}=")
            assert flags == ["HttpOnly", "SameSite=Strict", "Path=/"]
            assert dashboard.token not in reply.headers["set-cookie"]

    run(test())


@pytest.mark.parametrize("path", ["/", "/app.css", "/api/crew", "/api/crew/events", "/metrics", "/api/none", "/%2e"])
def test_stranger_gets_nothing(path: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            stranger = Caller(dashboard)
            assert (await stranger.get(path)).status == 401
            assert (await stranger.get(path, Cookie=f"gandy_{dashboard.port}=wrong")).status == 401
            assert (await stranger.get(path, Cookie='gandy_1="; ;;=')).status == 401
            assert (await stranger.get(path, Authorization="Bearer wrong")).status == 401
            assert (await stranger.get(path, Authorization="Bearer ")).status == 401
            assert (await stranger.get(path, Authorization="Basic eDp5")).status == 401

    run(test())


def test_stranger_is_told_what_to_do() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reply = await Caller(dashboard).get("/")
            assert reply.status == 401
            assert b"gandy dashboard" in reply.body
            assert b"<script" not in reply.body

    run(test())


def test_flood_of_wrong_tokens_locks_out_no_browser_with_the_right_one() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            statuses = [(await Caller(dashboard).get(f"/?token=wrong{number}")).status for number in range(40)]
            assert statuses[0] == 401
            assert 429 in statuses
            assert set(statuses) <= {401, 429}
            assert (await sign_in(dashboard)).headers

    run(test())


def test_program_uses_the_token_of_its_user_any_number_of_times(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path, own_token="x" * 40) as browser:
            program = Caller(browser.dashboard, {"Authorization": "Bearer " + "x" * 40})
            for _ in range(3):
                assert (await program.get("/api/status")).status == 200
            assert (await Caller(browser.dashboard).get("/?token=" + "x" * 40)).status == 401  # not for browsers

    run(test())


def test_printed_token_becomes_that_of_the_program_that_sends_it() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            token = dashboard.token
            program = Caller(dashboard, {"Authorization": f"Bearer {token}"})
            assert [(await program.get("/api/session")).status for _ in range(3)] == [200, 200, 200]
            assert (await Caller(dashboard).get(f"/?token={token}")).status == 401
            assert (await sign_in(dashboard)).headers

    run(test())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "0.0.0.0:{port}",
        "127.0.0.2:{port}",
        "127.0.0.1:{port}@evil.example",
        "[::2]:{port}",
        "localhost:{port}:1",
        "127.0.0.1,evil.example",
    ],
)
def test_request_for_another_host_is_refused(host: str) -> None:
    """A page can make its own name point here (DNS rebinding), and would then be of the same origin."""

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            token = dashboard.token
            reply = await browser.get("/api/session", Host=host.format(port=browser.port))
            assert (reply.status, reply.kind) == (421, "misdirected")
            assert (await browser.get(f"/?token={token}", Host=host.format(port=browser.port))).status == 421
            assert dashboard.token == token  # was not used up

    run(test())


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "localhost:9000"]
)
def test_names_of_this_machine_are_ours(host: str) -> None:
    """Whatever the port: it may be forwarded by ssh."""

    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            assert (await browser.get("/api/session", Host=host.format(port=browser.port))).status == 200

    run(test())


def test_other_names_are_added() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN, names=("Hut.example",)) as dashboard:
            browser = await sign_in(dashboard)
            assert (await browser.get("/api/session", Host="hut.EXAMPLE:80")).status == 200
            assert (await browser.get("/api/session", Host="hut.example.org")).status == 421

    run(test())


def test_request_without_a_host_or_with_two_is_not_http() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            caller = Caller(dashboard)
            assert b" 400 " in await caller.talk(b"GET / HTTP/1.1\r\n\r\n")
            two = b"GET /api/session HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"
            assert b" 400 " in await caller.talk(two)
            assert b" 421 " in await caller.talk(b"GET /api/session HTTP/1.0\r\n\r\n")

    run(test())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:{port}"},  # the page is at 127.0.0.1
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another server on this machine
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "nonsense"},
    ],
)
@pytest.mark.parametrize("path", ["/api/session", "/api/crew/events", "/healthz"])
def test_request_of_another_page_is_refused(headers: dict[str, str], path: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            given = {name.replace("-", "_"): value.format(port=browser.port) for name, value in headers.items()}
            reply = await browser.get(path, **given)
            assert (reply.status, reply.kind) == (403, "other_origin")
            assert "access-control-allow-origin" not in reply.headers

    run(test())


def test_request_of_our_own_page_is_answered() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            own = f"http://127.0.0.1:{browser.port}"
            assert (await browser.get("/api/session", Origin=own, Sec_Fetch_Site="same-origin")).status == 200
            assert (await browser.get("/api/session", Sec_Fetch_Site="none")).status == 200

    run(test())


def test_link_from_another_page_opens_the_page() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
            assert (await browser.get("/", **link)).status == 200
            assert (await browser.post("/", {}, **link)).status == 403

    run(test())


def test_change_needs_a_header_that_no_form_sends(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            job = {"command": "true"}
            assert (await browser.post("/api/jobs", job, X_Gandy="")).status == 403
            assert (await browser.post("/api/jobs", job, X_Gandy="0")).status == 403
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
                assert (await browser.post("/api/jobs", job, Content_Type=kind)).status == 415
            assert (await client.status()).jobs == 0
            assert (await browser.post("/api/jobs", job, Content_Type="application/json; charset=utf-8")).status == 201

    run(test())


def test_preflight_of_another_page_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reply = await Caller(dashboard).get(
                "/api/jobs", "OPTIONS", Origin="https://evil.example", Access_Control_Request_Method="POST"
            )
            assert reply.status == 403
            assert not [name for name in reply.headers if name.startswith("access-control")]

    run(test())


def test_every_response_says_what_browsers_may_do_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            stranger = Caller(browser.dashboard)
            replies = [
                await browser.get("/"),
                await browser.get("/api/session"),
                await browser.get("/api/jobs/99"),
                await stranger.get("/"),
                await stranger.get("/api/session"),
                await stranger.get("/healthz"),
                await stranger.get("/", Host="evil.example"),
            ]
            async with browser.events("/api/crew/events") as events:
                replies.append(events.reply)
            for reply in replies:
                policy = reply.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
                assert "frame-ancestors 'none'" in policy
                assert reply.headers["x-content-type-options"] == "nosniff"
                assert reply.headers["referrer-policy"] == "no-referrer"
                assert reply.headers["cross-origin-opener-policy"] == "same-origin"
                assert reply.headers["cross-origin-resource-policy"] == "same-origin"
            assert [reply.headers["cache-control"] for reply in replies[1:]] == ["no-store"] * 7

    run(test())


@pytest.mark.parametrize(
    "path",
    [
        "/../connection.py",
        "/..%2fconnection.py",
        "/%2e%2e/connection.py",
        "//etc/passwd",
        "/./index.html",
        "/index.html/",
        "/.hidden",
        "/index.html%00",
        "/page/../index.html",
        "/__init__.py",
    ],
)
def test_no_path_leads_out_of_the_page(path: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            assert (await (await sign_in(dashboard)).get(path)).status == 404

    run(test())


async def wait_for_picture(browser: Caller) -> None:
    await until_async(lambda: bool(browser.dashboard.crew.watcher.picture.shards))
