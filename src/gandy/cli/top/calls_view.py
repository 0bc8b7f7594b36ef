"""Commands that workers offer, how often they are called, and how long calls take. Pure."""

from collections.abc import Sequence
from typing import Final

from gandy.cli.top.lines import Column, Line, Part, Styled, choose, find_window, lay_out, make_line
from gandy.cli.top.look import Item, TopLook
from gandy.cli.top.numbers import format_rate, format_us
from gandy.cli.top.scene import Scene
from gandy.core.views import CommandGlance
from gandy.terminal.people import format_count
from gandy.viewer.histograms import find_percentile

_COLUMNS: Final = (
    Column("command", 16),
    Column("workers", 7, is_number=True),
    Column("waiting", 6, is_number=True),
    Column("rate", 7, is_number=True),
    Column("half ≤", 7, is_number=True),
    Column("99 % ≤", 7, is_number=True),
    Column("failed", 5, is_number=True),
    Column("ended", 7, is_number=True),
)


def draw_calls(scene: Scene, look: TopLook, items: Sequence[Item], width: int, room: int) -> list[Line]:
    if not items:
        return [make_line(Styled(_explain_no_commands(scene, look), "dim"))]
    chosen = look.find_chosen(items)
    window = find_window(len(items), chosen, room - 3)
    commands = [scene.picture.find_command(str(items[place])) for place in window]
    rows = [_make_row(scene, command) for command in commands if command is not None]
    title, *lines = lay_out(_COLUMNS, rows, width)
    lines[chosen - window.start] = choose(lines[chosen - window.start], width)
    about = "From a call's arrival at the foreman to its answer, since a viewer looks."
    return [title, *lines, (), make_line(Styled(about, "dim"))]


def _explain_no_commands(scene: Scene, look: TopLook) -> str:
    if look.filter:
        return "No command here has this in its name."
    if not scene.is_complete:
        return "Looking for commands…"
    return "No worker offers a command; see 'gandy worker run --commands MODULE'."


def _make_row(scene: Scene, command: CommandGlance) -> Sequence[Part]:
    rate = scene.picture.rates.commands.get(command.name)
    return (
        command.name,
        format_count(command.workers),
        Styled(format_count(command.waiting), "warning" if command.waiting else ""),
        "" if rate is None else format_rate(rate.per_second(scene.now)),
        format_us(find_percentile(command.buckets, 50.0)),
        format_us(find_percentile(command.buckets, 99.0)),
        Styled(format_count(command.failed), "failed" if command.failed else ""),
        format_count(command.ended),
    )
