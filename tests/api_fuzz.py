"""Schemathesis against a real dashboard: no request that fits the API's document, and none that does not, is a 5xx.

`python -m tests.api_fuzz --seconds 60` looks for longer. No worker is connected meanwhile: made-up jobs must not run.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.crew import Crew
from tests.e2e.dashboards import running_dashboard

SCHEMATHESIS: Final = str(Path(sysconfig.get_path("scripts")) / "schemathesis")
TOKEN: Final = "a token of the fuzzer, in effect".replace(" ", "-")
MOST_TASKS: Final = 1_000  # of a job that is made up; the API takes jobs of 200 MB

# Streams do not end. And that a crew without workers is not well is no error.
SKIPPED: Final = "/events$|/healthz$"

# What the document cannot say, such as that {line} needs lines, is refused: so a valid body may be. And many wrong
# tokens are answered with 429, which tests of their own look at.
EXCLUDED: Final = "positive_data_acceptance,negative_data_rejection,ignored_auth"


def fuzz(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run schemathesis with these words, in an empty folder."""
    crew = Crew(folder / "home")
    crew.environment["GANDY_DASHBOARD_TOKEN"] = TOKEN
    with crew.running("foreman", "run"):
        with crew.running("worker", "run", "--slots", "2"):
            crew.run("submit", "--tasks", "9", "--wait", "test $GANDY_TASK != 7 || { echo bad >&2; false; }", code=1)
        crew.submit("--tasks", "9", "true")
        with running_dashboard(crew) as url:
            document = folder / "document.json"
            document.write_text(json.dumps(_read_document(url)))
            command = [SCHEMATHESIS, "run", str(document), "--url", url, "--header", f"Authorization: Bearer {TOKEN}"]
            rules = ["--exclude-path-regex", SKIPPED, "--exclude-checks", EXCLUDED, "--continue-on-failure"]
            environment = {**os.environ, "HOME": str(folder)}
            return subprocess.run(
                [*command, *rules, *words], cwd=folder, env=environment, capture_output=True, check=False
            )


def _read_document(url: str) -> dict[str, Any]:
    """The document, with no job that takes more memory than a test may."""
    request = urllib.request.Request(f"{url}api/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as response:
        document: dict[str, Any] = json.load(response)
    document["components"]["schemas"]["NewJobBody"]["properties"]["tasks"]["maximum"] = MOST_TASKS
    return document


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args(words).seconds
    with tempfile.TemporaryDirectory() as folder:
        done = fuzz(Path(folder), "--max-time", str(seconds))
    sys.stdout.write(done.stdout.decode())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
