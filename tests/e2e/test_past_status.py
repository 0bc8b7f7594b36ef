"""`gandy status --at`: the crew as it was, by real commands."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.e2e.crew import Crew

from gandy.clocks import read_wall


def read_past(crew: Crew, at: float) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crew.run("status", "--at", str(at), "--output", "json").stdout)
    return found


def test_the_crew_is_shown_as_it_was_before_it_was_started_again(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    began = float(read_wall())
    with crew.running("up", "--slots", "2"):
        held = crew.submit("--name", "kept", "--tasks", "4", "--hold", "true")
        crew.run("submit", "--wait", "--tasks", "3", "true")
    stopped = float(read_wall())
    with crew.running("up", "--slots", "2"):
        crew.run("job", "cancel", held)
        then = read_past(crew, stopped)
        assert (then["asked"], then["is_stopped"], then["jobs"], then["waiting"]) == (stopped, True, 1, 4)
        assert began <= then["recorded"] <= stopped
        (job,) = then["job_rows"]
        assert (job["job"], job["name"], job["state"], job["held"]) == (int(held), "kept", "paused", True)
        shown = crew.run("status", "--at", str(stopped)).stdout.decode()
        assert re.search(r"^foreman +none ran$", shown, re.MULTILINE)
        assert re.search(rf"^ *{held} +paused +4 +4 +0 +0 +0 .* kept$", shown, re.MULTILINE)
        quiet = crew.run("status", "--at", str(stopped), "--output", "quiet").stdout
        assert float(quiet) == round(then["recorded"], 3)
        crew.run("job", "forget", held)
        assert "(forgotten since)" in crew.run("status", "--at", str(stopped)).stdout.decode()

        # Before it all, and after it all.
        missing = crew.run("status", "--at", "2020-01-01 14:00", code=1)
        told = re.fullmatch(
            r"gandy: there is no history of 2020-01-01 14:00:00: it begins at about (.*)\n", missing.stderr.decode()
        )
        assert told
        assert abs(datetime.fromisoformat(told[1]).timestamp() - then["recorded"]) < 60
        tomorrow = (datetime.now() + timedelta(days=1)).isoformat(" ", "seconds")
        future = crew.run("status", "--at", tomorrow, code=2).stderr.decode()
        assert f"Invalid value for '--at': {tomorrow} is in the future" in future


def test_a_crew_without_a_history_says_so(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        missing = crew.run("status", "--at", "1h ago", code=1).stderr.decode()
        assert missing.startswith("gandy: there is no history of ")
        assert missing.endswith(": no sample is kept yet\n")


def test_what_cannot_be_meant_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    assert b"'soon' is not a time; write 14:00" in crew.run("status", "--at", "soon", code=2).stderr
    assert b"--check and --at exclude each other" in crew.run("status", "--check", "--at", "14:00", code=2).stderr
