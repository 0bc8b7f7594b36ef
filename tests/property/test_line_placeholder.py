"""A line is one argument or a part of one, byte for byte, in every command that gandy takes; nothing expands it.

Each command is run twice by a real shell: with a harmless word as its line, and with a hostile one. What programs were
given must be the same in both, but for the line.
"""

import os
import shutil
import subprocess
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gandy.core.model import AttemptKey, Command
from gandy.core.placeholders import check_command
from gandy.errors import ConfigError
from gandy.ids import JobId, TaskNumber
from gandy.worker.order import Order, make_arguments, make_environment

HARMLESS = "zqzqz"
HOSTILE = ("$(touch pwned)", "`touch pwned`", "; touch pwned;", "' ; touch pwned ; '", '" ; touch pwned ; "', "*",
           "a *", "-rf", "--", "~", "{a,b}", "[a-z]*", "\\", "$HOME", "${x}", "#", "&", "|", "<x", ">pwned",
           "\n touch pwned\n", "!!", "a  b", "\t", "{task}", "{line}", "\udcff\udc80", "=", "%s")  # fmt: skip

lines = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
)

# `rec` notes its arguments, in a place that no command of a test can reach by itself.
pieces = st.sampled_from(
    ["{line}", "{line}", "rec ", "rec {line} ", " ", " ", "a", "'", '"', "\\", "$(", ")", "(", "`", ";", "|", "\n", "#",
     "$x", "${x}", "${x:-", "}", "{", "<<E\n", "\nE\n", "$((", "))", "case a in a) ", ";; esac", "sh -c ", "eval ",
     "sh ", "-e ", "'a b'", '"$x b"', "if :; then ", "; fi", "=", "y=", "< ", "*", "${line}", "\\{line}", "{task}",
     "[ ", " ]", "!", "$'", "command ", "exec ", ": ", "for i in ", "; do ", "; done", "set -- ", '"$@"']
)  # fmt: skip
shell_lines = st.lists(pieces, max_size=10).flatmap(
    lambda found: st.integers(0, len(found)).map(lambda at: "".join([*found[:at], "rec {line}", *found[at:]]))
)
wrappers = st.sampled_from(
    ["'@'", '"@"', "$(@)", '"$(@)"', "`@`", "sh -c @", "sh -c '@'", 'sh -c "@"', "eval @", "eval '@'", "rec @",
     "rec 'a' @ b", "(@)", "if :; then @; fi", "exec @", "rec $(@)",
     "cat <<E\n@\nE", "set -- @; rec \"$@\"", "x@", "@ # '"]
)  # fmt: skip
leaves = st.sampled_from(
    ["rec {line}", "{line}", 'rec "{line}"', "rec 'a{line}'", 'rec "$x {line}"', "sh -c {line}", "sh -c 'rec {line}'"]
)
wrapped = st.tuples(leaves, st.lists(wrappers, max_size=3)).map(
    lambda found: reduce(lambda inner, wrapper: wrapper.replace("@", inner), found[1], found[0])
)
words = st.lists(pieces, min_size=1, max_size=3).map("".join)
vectors = st.lists(words, min_size=1, max_size=4).map(lambda rest: ("rec", *rest, "{line}"))


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> "Box":
    return Box(tmp_path_factory.mktemp("box"))


class Box:
    """A folder with some files, and a PATH with nothing but `rec`, `sh` and `touch`."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"
        self.here = folder / "here"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.here.mkdir()
        for name in ("a", "abc", "b c"):
            (self.here / name).touch()
        rec = self.bin / "rec"
        rec.write_text('#!/bin/sh\nprintf "%s\\\\0" "$#" "$@" >> "$NOTES"\n')
        rec.chmod(0o755)
        for program in ("sh", "touch"):
            (self.bin / program).symlink_to(shutil.which(program) or f"/bin/{program}")

    def run(self, command: Command, line: str) -> tuple[list[list[bytes]], list[str]]:
        """What `rec` was given each time, and which files are there."""
        self.notes.unlink(missing_ok=True)
        order = Order(attempt=AttemptKey(JobId(1), TaskNumber(1), 1), command=command, line=line)
        arguments = make_arguments(order)
        env = make_environment({"PATH": str(self.bin), "NOTES": str(self.notes), "HOME": "/nowhere"}, order)
        subprocess.run(
            arguments,
            executable=shutil.which(arguments[0], path=str(self.bin)),
            env=env,
            cwd=self.here,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        return self.read_notes(), sorted(path.name for path in self.here.iterdir())

    def read_notes(self) -> list[list[bytes]]:
        parts = iter(self.notes.read_bytes().split(b"\0")[:-1] if self.notes.exists() else [])
        return [[next(parts) for _ in range(int(count))] for count in parts]


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(command=st.one_of(shell_lines, wrapped, wrapped, vectors), line=lines)
def test_line_reaches_programs_as_it_is_and_does_nothing_else(box: Box, command: Command, line: str) -> None:
    try:
        check_command(command, has_lines=True)
    except ConfigError:
        assume(False)
    expected, files = box.run(command, HARMLESS)
    noted, files_after = box.run(command, line)
    replaced = [[each.replace(HARMLESS.encode(), os.fsencode(line)) for each in call] for call in expected]
    assert sorted(noted) == sorted(replaced)  # both ends of a pipe run at the same time
    assert files_after == files
