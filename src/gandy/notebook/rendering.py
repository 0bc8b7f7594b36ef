"""What a client knows, as text and as HTML. Nothing that a peer or a user chose is markup."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from gandy.bounds import escape_controls
from gandy.core.model import FINAL_JOB_STATES, Counts, JobState
from gandy.core.requests import ForemanStatus, WorkerRow
from gandy.core.rows import JobRow

NAME_WIDTH: Final = 60  # characters of a name in a table
VALUE_WIDTH: Final = 500  # characters of a value or an error

# In the order of a bar's parts. The colours are readable on light and dark pages.
COLOURS: Final = {
    "finished": "#3a9d5d",
    "failed": "#d64545",
    "cancelled": "#8a8f98",
    "running": "#3b82c4",
    "assigned": "#9cc3e6",
}
BAR: Final = (
    "display:inline-flex;vertical-align:middle;width:14em;height:.8em;border-radius:.2em;overflow:hidden;"
    "background:rgba(128,128,128,.25)"
)
CELL: Final = "text-align:left;padding:.15em .8em .15em 0"


class Rendering(NamedTuple):
    """What is shown now. `is_last`: it will not change."""

    text: str
    html: str
    is_last: bool = True


def render_error(name: str, error: BaseException) -> Rendering:
    """Make the rendering of something that cannot be asked about now."""
    text = f"{name}: {shorten(str(error) or type(error).__name__, VALUE_WIDTH)}"
    return Rendering(text, _paragraph(text))


def render_text(text: str, *, is_last: bool = True) -> Rendering:
    return Rendering(text, _paragraph(text), is_last)


def render_job(row: JobRow) -> Rendering:
    title = f"Job {row.job}"
    name = shorten(row.spec.name, NAME_WIDTH)
    counted = describe_counts(row.counts)
    state = row.state.name.lower()
    text = f"{title}{name and f' {name}'}: {state}; {counted}"
    html = (
        f'<div role="status"><b>{title}</b> {escape(name)} · {escape(state)}<br>'
        f"{format_bar(row.counts)} {escape(counted)}</div>"
    )
    return Rendering(text, html, row.state in FINAL_JOB_STATES)


def render_crew(title: str, status: ForemanStatus, workers: Sequence[WorkerRow], jobs: Sequence[JobRow]) -> Rendering:
    """Make the rendering of a crew with its newest jobs."""
    here = [worker for worker in workers if worker.connected]
    summary = (
        f"{len(here)} {_plural('worker', len(here))}, {status.used} of {status.slots} {_plural('slot', status.slots)} "
        f"in use, {status.jobs} {_plural('job', status.jobs)} not done"
    )
    lines = [f"{title}: {summary}"]
    lines += [f"  worker {shorten(each.name, NAME_WIDTH)}: {each.used} of {each.slots} slots in use" for each in here]
    lines += [f"  {render_job(row).text}" for row in jobs]
    html = f'<div role="status"><b>{escape(title)}</b><br>{escape(summary)}'
    if here:
        used = ((shorten(each.name, NAME_WIDTH), f"{each.used} of {each.slots}") for each in here)
        html += _format_table(("worker", "slots in use"), ((escape(name), slots) for name, slots in used))
    if jobs:
        html += _format_table(("job", "name", "state", "", "tasks"), map(_list_cells, jobs))
    is_last = all(row.state in FINAL_JOB_STATES or row.state is JobState.PAUSED for row in jobs)
    return Rendering("\n".join(lines), f"{html}</div>", is_last)


def render_future(title: str, state: str, value: Any = None, error: BaseException | None = None) -> Rendering:
    """Make the rendering of a future. `state`: waiting, running, finished, failed or cancelled."""
    text = f"{title}: {state}"
    if state == "finished":
        text += f"; {shorten(_represent(value), VALUE_WIDTH)}"
    elif error is not None:
        text += f"; {shorten(f'{type(error).__name__}: {error}', VALUE_WIDTH)}"
    colour = COLOURS.get(state, "inherit")
    html = f'<div role="status"><span style="color:{colour}" aria-hidden="true">●</span> {escape(text)}</div>'
    return Rendering(text, html, state in ("finished", "failed", "cancelled"))


def describe_counts(counts: Counts) -> str:
    parts = {name: getattr(counts, name) for name in (*COLOURS, "waiting")}
    total = sum(parts.values())
    named = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{total:,} {_plural('task', total)}{named and f': {named}'}"


def format_bar(counts: Counts) -> str:
    """Draw how many tasks are in which state. The text beside it says the same."""
    total = max(1, sum(getattr(counts, name) for name in (*COLOURS, "waiting")))
    parts = "".join(
        f'<span style="width:{100 * getattr(counts, name) / total:.2f}%;background:{colour}"></span>'
        for name, colour in COLOURS.items()
        if getattr(counts, name)
    )
    return f'<span style="{BAR}" aria-hidden="true">{parts}</span>'


def shorten(text: str, limit: int) -> str:
    """Cut text to one line without control characters."""
    line = escape_controls(" ".join(text[: 2 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _list_cells(row: JobRow) -> tuple[str, ...]:
    name, state = escape(shorten(row.spec.name, NAME_WIDTH)), escape(row.state.name.lower())
    return (str(row.job), name, state, format_bar(row.counts), escape(describe_counts(row.counts)))


def _format_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`rows` are HTML."""
    head = "".join(f'<th scope="col" style="{CELL}">{escape(each)}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(map(_format_cell, cells))}</tr>" for cells in rows)
    return f'<table style="margin:.4em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _format_cell(cell: str) -> str:
    return f'<td style="{CELL}">{cell}</td>'


def _represent(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
        return f"<{type(value).__name__}, which cannot be shown: {type(error).__name__}>"


def _paragraph(text: str) -> str:
    return f'<div role="status">{escape(text)}</div>'


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
