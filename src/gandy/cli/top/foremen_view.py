"""The foremen of the crew, and what the one says about itself that was asked. Pure."""

from collections.abc import Sequence

from gandy.cli.top.lines import Column, Line, Styled, choose, find_window, lay_out, make_line
from gandy.cli.top.look import Item, TopLook, TopView
from gandy.cli.top.scene import Scene
from gandy.terminal.rows import FOREMAN_HEADERS, foreman_to_cells, status_to_fields


def draw_foremen(scene: Scene, look: TopLook, items: Sequence[Item], width: int, room: int) -> list[Line]:
    problem = scene.problems.get(TopView.FOREMEN)
    lines: list[Line] = [make_line(Styled(problem, "bad"))] if problem else []
    if scene.status is not None:
        lines += [
            make_line(Styled(f"{name:<12}", "title"), value) for name, value in status_to_fields(scene.status) if value
        ]
    if not items:
        return lines or [make_line(Styled("Looking for foremen…", "dim"))]
    chosen = look.find_chosen(items)
    window = find_window(len(items), chosen, max(2, room - len(lines) - 2))
    rows = {row.id: foreman_to_cells(row) for row in scene.foremen}
    columns = [Column(header.removeprefix(">"), is_number=header.startswith(">")) for header in FOREMAN_HEADERS]
    title, *found = lay_out(columns, [rows[str(items[place])] for place in window], width)
    found[chosen - window.start] = choose(found[chosen - window.start], width)
    return [*lines, (), title, *found]
