"""Elements of an HTML page. Every text is escaped where it becomes one. Pure."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NewType

from gandy.terminal.people import make_printable

CODE: Final = ("command", "folder")  # fields whose values are no prose

Html = NewType("Html", str)  # what needs no escaping any more


def text(value: object) -> Html:
    """Text on one line, without characters that cannot be seen."""
    return Html(escape(make_printable(str(value))))


def lines_of(data: bytes) -> Html:
    """What a task wrote."""
    found = data.decode(errors="replace").expandtabs().splitlines()
    return Html("\n".join(text(line) for line in found))


def element(tag: str, *parts: Html, **attributes: object) -> Html:
    """An element with its parts. Names of attributes may end with an underscore."""
    given = "".join(f' {name.rstrip("_")}="{text(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{given}>{join(parts)}</{tag}>")


def join(parts: Iterable[Html]) -> Html:
    return Html("".join(parts))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table. A header that begins with > is for numbers."""
    kinds = [{"class_": "number"} if header.startswith(">") else {} for header in headers]
    titles = [
        element("th", text(header.removeprefix(">")), **kind) for header, kind in zip(headers, kinds, strict=True)
    ]
    body = [
        element("tr", *(element("td", text(cell), **kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    ]
    head = element("thead", element("tr", *titles))
    return element("div", element("table", head, element("tbody", *body)), class_="wide")


def fields(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names with their values; those without a value are left out."""
    return element("dl", *(_make_field(name, value) for name, value in pairs if value))


def _make_field(name: str, value: str) -> Html:
    kind = {"class_": "code"} if name in CODE else {}
    return join((element("dt", text(name)), element("dd", text(value), **kind)))
