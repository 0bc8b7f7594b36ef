"""Whatever is printed, no terminal obeys it."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gandy.cli
from gandy.terminal.say import format_json, say, spell_out

CLI = Path(gandy.cli.__file__).parent

# Where text is printed in another way: it is spelled out there, cell by cell.
EXCEPTIONS = {"say.py", "table.py"}

# Where bytes are written as they are: output of tasks, values for a pipe, frames.
RAW = {"job.py", "call.py", "wire.py"}


def list_calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.name)
def test_every_command_prints_in_the_one_way(path: Path) -> None:
    calls = set(list_calls(path))
    if path.name not in EXCEPTIONS:
        assert not calls & {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}
    if path.name not in RAW:
        assert not {call for call in calls if call.endswith("buffer.write") or call == "stdout.write"}


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    left = spell_out(text).replace("\n", "").replace("\t", "")
    assert left.isprintable()
    left.encode()


def test_lines_tabs_and_letters_of_all_scripts_stay(capsys: pytest.CaptureFixture[str]) -> None:
    say("größe\t漢字\nnext")
    say("\x1b]0;title\x07 \x9b2J \u202e\r\udcff", err=True)
    say()
    printed = capsys.readouterr()
    assert printed.out == "größe\t漢字\nnext\n\n"
    assert printed.err == "\\x1b]0;title\\x07 \\x9b2J \\u202e\\r\\udcff\n"


@given(st.recursive(st.text(st.characters(exclude_categories=["Cs"])), lambda inner: st.lists(inner)))
def test_json_is_printable_and_still_the_same_value(value: object) -> None:
    text = format_json(value)
    assert text.isprintable()
    assert json.loads(text) == value
