"""To remove a door, delete its folder and one line: done here in a copy of the source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gandy

SOURCE = Path(gandy.__file__).parent
DOORS = ("v1", "roundrobin", "pingpong")
SWITCHES = {"v1": "--v1-listen", "roundrobin": "--roundrobin", "pingpong": "--pingpong"}


def run(copy: Path, *words: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, *words], env=environ, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def drop_line(path: Path, text: str) -> None:
    """Delete the only line that has this text."""
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if text not in line]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(kept))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(SOURCE, tmp_path / "gandy", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_one_folder_and_one_line(copy: Path, door: str) -> None:
    shutil.rmtree(copy / "gandy" / "doors" / door)
    drop_line(copy / "gandy" / "doors" / "face.py", f'"gandy.doors.{door}.face"')
    assert run(copy, "-c", "import gandy; print(gandy.__file__)").startswith(str(copy))
    foreman = run(copy, "-m", "gandy", "foreman", "run", "--help")
    worker = run(copy, "-m", "gandy", "worker", "run", "--help")
    assert SWITCHES[door] not in foreman + worker
    for other in set(DOORS) - {door}:
        assert SWITCHES[other] in foreman


def test_the_round_robin_door_has_two_more_lines(copy: Path) -> None:
    shutil.rmtree(copy / "gandy" / "doors" / "roundrobin")
    drop_line(copy / "gandy" / "doors" / "face.py", '"gandy.doors.roundrobin.face"')
    commands = copy / "gandy" / "worker" / "commands.py"
    text = commands.read_text()
    assert text.count('"gandy.doors.roundrobin.builtins",') == 1
    commands.write_text(text.replace('"gandy.doors.roundrobin.builtins",', ""))
    found = run(copy, "-c", "from gandy.worker.commands import list_built_in as b; print(*(c.name for c in b()))")
    assert found.split() == ["ping", "echo", "stream"]
    main = (copy / "gandy" / "cli" / "main.py").read_text()
    assert main.count("gandy.doors.") == 1, "only the consoles are known there"


def test_without_zeromq_doors_there_are_no_keys_for_them(copy: Path) -> None:
    for door in ("roundrobin", "pingpong"):
        shutil.rmtree(copy / "gandy" / "doors" / door)
        drop_line(copy / "gandy" / "doors" / "face.py", f'"gandy.doors.{door}.face"')
    assert "--curve FOLDER" not in run(copy, "-m", "gandy", "foreman", "run", "--help")
    assert "--curve FOLDER" not in run(copy, "-m", "gandy", "worker", "run", "--help")
