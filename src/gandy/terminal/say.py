"""The only way to print text: no text can move the cursor, change a colour or set a title.

Output of tasks is printed byte for byte elsewhere, like the output of any program that the user runs.
"""

import json
from typing import TYPE_CHECKING, Any, Final

import click

from gandy.terminal.people import make_printable

if TYPE_CHECKING:
    from gandy.terminal.options import Format


encode_json: Final = json.JSONEncoder(separators=(",", ":")).encode


def say(text: object = "", *, err: bool = False) -> None:
    """Print text and a newline. Newlines and tabs in it stay; other control characters become escapes."""
    click.echo(spell_out(str(text)), err=err)


def print_json(value: object) -> None:
    """Print an object on one line."""
    say(encode_json(value))


def print_result(output: "Format", text: object, plain: object, quiet: object) -> None:
    """Print what a command did: as text, as a JSON object, or only a name or a number."""
    if output == "json":
        print_json(plain)
    else:
        say(quiet if output == "quiet" else text)


def format_json(value: Any) -> str:
    """Format JSON for users: letters of all scripts as they are, control characters as escapes.

    Raises: TypeError, ValueError.
    """
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def spell_out(text: str) -> str:
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(make_printable, line.split("\t"))) for line in text.split("\n"))
