"""The one way to print text: nothing in it can move a cursor, change a colour or set a title.

Output of tasks is printed byte for byte elsewhere: it belongs to the user, like that of any program that is run here.
"""

import json
from typing import Any

import click

from gandy.terminal.people import make_printable


def say(text: object = "", *, err: bool = False) -> None:
    """Print text and a newline. Lines and tabs in it stay; other control characters are spelled out."""
    click.echo(spell_out(str(text)), err=err)


def format_json(value: Any) -> str:
    """JSON that people can read: letters of all scripts as they are, control characters as escapes.

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
