"""`gandy dashboard` and `gandy status --check` as users start them."""

import http.client
import json
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.api_fuzz import fuzz
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.e2e.dashboards import read_address, running_dashboard
from tests.e2e.wall_clocks import DAY, WallClock
from tests.free_ports import find_port
from tests.waiting import until


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path / "home")


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def get(url: str, path: str, method: str = "GET", **headers: str) -> Reply:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named, body=b"{}" if method == "POST" else None)
        response = connection.getresponse()
        return Reply(response.status, response.headers, response.read())


@contextmanager
def dashboard(crew: Crew, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with crew.start("dashboard", *words) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)


def test_dashboard_prints_an_address_that_works_once(crew: Crew) -> None:
    with dashboard(crew, "--listen", "127.0.0.1:0") as process:
        url = read_address(process)
        path = "/?" + urlsplit(url).query
        opened = get(url, path)
        assert (opened.status, opened.headers["Location"]) == (303, "/")
        cookie = opened.headers["Set-Cookie"].partition(";")[0]
        assert get(url, "/", Cookie=cookie).status == 200
        assert get(url, path).status == 401
        again = read_address(process)
        assert again != url
        assert get(again, "/?" + urlsplit(again).query).status == 303


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it(crew: Crew, number: signal.Signals) -> None:
    with crew.start("dashboard", "--listen", "127.0.0.1:0") as process:
        url = read_address(process)
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)):
            process.send_signal(number)
            _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in error


def test_default_port_that_is_taken_is_followed_by_the_next(crew: Crew) -> None:
    with dashboard(crew) as first:
        port = urlsplit(read_address(first)).port or 0
        with dashboard(crew) as second:
            assert 5430 <= port < (urlsplit(read_address(second)).port or 0)


def test_port_that_is_taken_is_an_error_if_the_user_chose_it(crew: Crew) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = crew.run("dashboard", "--listen", where, code=1)
    assert done.stderr.decode() == f"gandy: cannot listen at tcp://{where}: Address already in use\n"


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--listen", "0.0.0.0:0"), 2, "give --cert and --key, or say --insecure"),
        (("--listen", "[::]:0"), 2, "give --cert and --key, or say --insecure"),
        (("--listen", "example.org:80"), 2, "give --cert and --key, or say --insecure"),
        (("--listen", "5430"), 2, "write HOST:PORT"),
        (("--listen", "unix:/tmp/x"), 2, "write HOST:PORT"),
        (("--listen", "http://127.0.0.1:80"), 2, "write HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), 2, "write HOST:PORT, with a port up to 65535"),
        (("--cert", "x.pem"), 2, "--cert and --key belong together"),
        (("--cert", "none.pem", "--key", "none.pem"), 1, "cannot use the certificate none.pem: No such file"),
        (("--token-file", "/nonexistent"), 1, "cannot read the token in /nonexistent: No such file or directory\n"),
        (("--foreman", "x://y"), 1, "is not an address"),
    ],
)
def test_wrong_use_is_refused(crew: Crew, words: tuple[str, ...], code: int, error: str) -> None:
    assert error in crew.run("dashboard", *words, code=code).stderr.decode()


def test_token_of_the_user_must_be_long(crew: Crew, tmp_path: Path) -> None:
    file = tmp_path / "token"
    for text in ("", "short", "with spaces " * 5, "x" * 23):
        file.write_text(text)
        assert b"needs at least 24 characters" in crew.run("dashboard", "--token-file", str(file), code=1).stderr
    file.write_text("x" * 24 + "\n")
    with running_dashboard(crew, "--token-file", str(file)) as url:
        assert get(url, "/api/session", Authorization="Bearer " + "x" * 24).status == 200
        assert get(url, "/metrics", Authorization="Bearer " + "x" * 23).status == 401


def test_few_open_files_keep_no_program_out(crew: Crew, tmp_path: Path) -> None:
    """More peers that show no token than it may open files: the oldest of them are cut."""
    file = tmp_path / "token"
    file.write_text("x" * 24)
    command = [GANDY, "dashboard", "--listen", "127.0.0.1:0", "--token-file", str(file)]
    words = ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', *command]
    with (
        crew.running("up", "--slots", "1"),
        subprocess.Popen(words, env=crew.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
    ):
        url = read_address(process)
        with ExitStack() as idle:
            for _ in range(100):
                idle.enter_context(socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)))
            bearer = "Bearer " + "x" * 24
            assert get(url, "/api/session", Authorization=bearer).status == 200
            until(lambda: get(url, "/api/jobs", Authorization=bearer).status == 200)
        process.terminate()
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in error


def test_wall_clock_that_is_set_back_stops_no_curve(crew: Crew, tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    crew.environment |= clock.environment | {"GANDY_DASHBOARD_TOKEN": "x" * 24}
    bearer = "Bearer " + "x" * 24

    def read_points(url: str) -> list[list[float]]:
        points: list[list[float]] = json.loads(get(url, "/api/crew", Authorization=bearer).body)["points"]
        return points

    with crew.running("up", "--slots", "1"), running_dashboard(crew) as url:
        until(lambda: len(read_points(url)) > 1)
        before = read_points(url)[-1][0]
        clock.step(-DAY)
        until(lambda: read_points(url)[-1][0] < before - DAY / 2)
        count = len(read_points(url))
        until(lambda: len(read_points(url)) > count + 1)
        assert get(url, "/healthz").body == b"ok\n"
        clock.step(2 * DAY)
        until(lambda: read_points(url)[-1][0] > before + DAY / 2)
        assert crew.run("status", "--check").stdout == b"all is well\n"
        assert b"1 worker connected" in crew.run("top", "--once").stdout


def test_insecure_is_said_loudly(crew: Crew) -> None:
    with dashboard(crew, "--listen", f"0.0.0.0:{find_port()}", "--insecure") as process:
        url = read_address(process)
        assert process.stderr is not None
        assert b"INSECURE" in process.stderr.readline()
        assert get(url, "/healthz", Host="10.0.0.7:1").status == 503
        assert get(url, "/healthz", Host="evil.example").status == 421


def test_browser_is_opened_without_the_token_in_its_arguments(crew: Crew, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {noted}.part; stat -c %a "${{1#file://}}" >> {noted}.part\n')
    browser.write_text(browser.read_text() + f'echo "$@" >> {noted}.part; mv {noted}.part {noted}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    crew.environment |= {"BROWSER": str(browser), "DISPLAY": ":9"}
    with dashboard(crew, "--listen", "127.0.0.1:0", "--open") as process:
        url = read_address(process)
        until(noted.exists)
    page, mode, arguments = noted.read_text().splitlines()
    assert url in page
    assert mode == "600"
    assert "token=" not in arguments
    assert not Path(urlsplit(arguments).path).exists()  # when the dashboard has stopped


def test_up_says_how_to_open_it(crew: Crew) -> None:
    with crew.start("up") as process:
        assert process.stderr is not None
        words = [process.stderr.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert b"gandy dashboard" in words[2]


# Observers


def test_dashboard_of_an_observer_changes_nothing(crew: Crew, tmp_path: Path) -> None:
    port = find_port()
    with crew.running("foreman", "run", "--listen", f"tcp://127.0.0.1:{port}"):
        token = crew.run("invite", "--observer", "--output", "quiet").stdout.decode().strip()
        observer = Crew(tmp_path / "observer")
        observer.run("join", token)
        observer.environment["GANDY_DASHBOARD_TOKEN"] = "x" * 30
        job, secret = crew.submit("--hold", "true"), "Bearer " + "x" * 30
        with running_dashboard(observer) as url:
            session = json.loads(get(url, "/api/session", Authorization=secret).body)
            assert (session["role"], session["can_change"]) == ("observer", False)
            rows = json.loads(get(url, "/api/jobs", Authorization=secret).body)
            assert [str(row["job"]) for row in rows["jobs"]] == [job]
            changing = {"Authorization": secret, "X_Gandy": "1", "Content_Type": "application/json"}
            assert get(url, f"/api/jobs/{job}/cancel", "POST", **changing).status == 403
        assert crew.show("job", "show", job)[0]["state"] == "paused"


# gandy status --check


def test_check_says_that_all_is_well(crew: Crew) -> None:
    with crew.running("up", "--slots", "1"):
        until(lambda: bool(crew.show("worker", "list")))
        assert crew.run("status", "--check").stdout == b"all is well\n"
        assert crew.run("status", "--check", "--output", "quiet").stdout == b""
        assert crew.show("status", "--check") == []
        crew.run("submit", "--wait", "false", code=1)
        assert crew.run("status", "--check").stdout == b"all is well\n"  # it has ended, and is listed elsewhere


def test_check_says_what_is_wrong(crew: Crew) -> None:
    with crew.running("foreman", "run"):
        crew.submit("true")
        done = crew.run("status", "--check", code=4)
        assert done.stdout == b"bad: Tasks wait, and no worker is connected: start one with 'gandy worker run'.\n"
        found = json.loads(crew.run("status", "--check", "--output", "json", code=4).stdout)
        assert (found["kind"], found["severity"], found["about"]) == ("worker", "bad", "")
    assert b"no foreman is running" in crew.run("status", "--check", code=1).stderr


# The API


def test_no_made_up_request_breaks_the_dashboard(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "--phases", "fuzzing", "--max-examples", "5", "--seed", "1")
    assert done.returncode == 0, done.stdout.decode()
