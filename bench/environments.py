"""The peers' packages, each list in an environment of its own: .bench/NAME, from bench/requirements/NAME.txt.

gandy's own environment has none of them. If one package cannot be installed, the others still are.
"""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
STORE: Final = ROOT / ".bench"  # ignored by git; may be deleted at any time
REQUIREMENTS: Final = Path(__file__).parent / "requirements"
PATIENCE: Final = 600  # seconds for pip


def find_python(environment: str) -> str:
    return str(STORE / environment / "bin" / "python") if environment else sys.executable


@cache
def prepare(environment: str) -> dict[str, str]:
    """Make the environment, if it is not there or its list has changed. Returns the packages that failed, and why."""
    wanted = (REQUIREMENTS / f"{environment}.txt").read_text()
    stamp = STORE / environment / "installed.json"
    if stamp.exists() and (kept := json.loads(stamp.read_text()))["wanted"] == wanted:
        missing: dict[str, str] = kept["missing"]
        return missing
    print(f"setting up .bench/{environment} (once)", file=sys.stderr)
    missing = install(environment, list_lines(wanted))
    stamp.write_text(json.dumps({"wanted": wanted, "missing": missing}))
    return missing


def install(environment: str, lines: list[str]) -> dict[str, str]:
    subprocess.run([sys.executable, "-m", "venv", str(STORE / environment)], check=True)
    if not pip(environment, lines):
        return {}
    failed = {line: reason for line in lines if (reason := pip(environment, [line]))}
    return {name_package(line): reason for line, reason in failed.items()}


def pip(environment: str, lines: list[str]) -> str:
    """Returns why it failed, or None."""
    command = [find_python(environment), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *lines]
    try:
        done = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return f"pip did not install it within {PATIENCE} seconds"
    return "pip cannot install it" if done.returncode else ""


def list_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def name_package(line: str) -> str:
    return re.split(r"[\[=<>~ ]", line, maxsplit=1)[0]
