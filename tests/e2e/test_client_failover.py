"""Commands that go on when their foreman is killed with -9, and the next one takes over at another address."""

import signal
import subprocess
from pathlib import Path

from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

TICKS = "for tick in 1 2 3 4 5; do echo $tick; sleep 0.5; done"


def start_foreman(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A foreman that listens, with a home of its own and the store of all."""
    process = Crew(folder / name).start("foreman", "run", "--store", f"sqlite:{folder / 'jobs.sqlite'}")
    assert process.stderr is not None
    assert b"listens at" in process.stderr.readline()
    return process


def end(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> None:
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)


def test_commands_go_on_at_another_foreman(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    crew = Crew(tmp_path / "client")
    crew.environment["GANDY_FOREMAN"] = ",".join(f"unix:{tmp_path / name}/foreman.sock" for name in ("first", "second"))
    first = start_foreman(tmp_path, "first")
    worker = crew.start("worker", "run", "--slots", "2")
    job = crew.submit(TICKS)
    followed = (tmp_path / "followed").open("wb")
    following = crew.start("job", "output", job, "-f", stdout=followed)
    waiting = crew.start("job", "wait", job)
    until(lambda: (tmp_path / "followed").stat().st_size > 0)
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith(b"job 1 is ")
    end(first, signal.SIGKILL)
    second = start_foreman(tmp_path, "second")
    for process in (following, waiting):
        _, problems = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, problems
    followed.close()
    assert (tmp_path / "followed").read_text().split() == ["1", "2", "3", "4", "5"]
    assert crew.show("job", "show", job)[0]["state"] == "finished"
    assert [row["attempt"] for row in crew.show("job", "show", job, "--task", "1")] == [1]
    end(worker)
    end(second)


def test_a_foreman_with_a_store_of_its_own_is_listed_and_cannot_be_drained(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    foreman = start_foreman(tmp_path, "first")
    crew = Crew(tmp_path / "first")
    (row,) = crew.show("foreman", "list")
    assert (row["shards"], row["is_here"]) == ([], True)
    assert crew.run("foreman", "list", "--output", "quiet").stdout.decode().strip() == row["id"]
    assert row["name"] in crew.run("foreman", "list").stdout.decode()
    assert b"in a store of its own" in crew.run("foreman", "drain", code=1).stderr
    assert b"no foreman is called nobody" in crew.run("foreman", "drain", "nobody", code=1).stderr
    assert crew.show("status")[0]["foremen"] == 1
    end(foreman)
