"""The one way to print text: nothing in it can move a cursor, change a colour or set a title.

Output of tasks goes another way, byte for byte: it belongs to the user, as with any program that was started here.
"""

import json
from typing import Any

import click

from gandy.terminal.people import make_printable


def say(text: object = "", *, err: bool = False) -> None:
    """Print a text, with a newline behind it. Its own lines and tabs stay; whatever else a terminal obeys is spelled
    out."""
    click.echo(spell_out(str(text)), err=err)


def format_json(value: Any) -> str:
    """JSON that people can read: letters of all scripts as they are, and what a terminal obeys by its number.

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
