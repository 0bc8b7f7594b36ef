"""Workers, each with its slots as lanes, in which the attempts and calls of the last minute are drawn. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from gandy.cli.top.lines import Line, Styled, choose, draw_fill, find_window, make_line
from gandy.cli.top.look import Item, TopLook
from gandy.cli.top.scene import Scene
from gandy.core.extensions import MachineLoad
from gandy.core.model import TaskState
from gandy.core.views import CallSpan, Span, WorkerGlance
from gandy.moments import Wall
from gandy.terminal.people import format_count, format_seconds
from gandy.terminal.rows import format_load, format_memory
from gandy.viewer.lanes import Lanes as PlacedLanes

SECONDS: Final = 60.0  # that lanes show
DRAWN_LANES: Final = 64  # of a worker; more than fit a screen
_TASK_COLUMNS: Final = 22  # of what runs in a lane
_HEAD_COLUMNS: Final = 5

AnySpan = Span | CallSpan
Lanes = Mapping[int, Sequence[AnySpan]]  # what was in each lane of a worker, in the order in which it ended


def draw_workers(scene: Scene, look: TopLook, items: Sequence[Item], width: int, room: int) -> list[Line]:
    if not items:
        return [make_line(Styled(_explain_no_workers(scene, look), "dim"))]
    chosen = look.find_chosen(items)
    workers = [worker for name in items if (worker := scene.picture.find_worker(str(name))) is not None]
    lanes = _collect(scene)
    columns = max(10, width - _HEAD_COLUMNS - _TASK_COLUMNS)
    all_lanes = [_list_lanes(worker, lanes[worker.id], scene.foreman_now, columns) for worker in workers]
    if len(workers) + sum(map(len, all_lanes)) > room - 1:  # only those of the chosen one
        all_lanes = [found if place == chosen else [] for place, found in enumerate(all_lanes)]
    lines: list[Line] = []
    place = 0
    for number, (worker, found) in enumerate(zip(workers, all_lanes, strict=True)):
        head = _describe(worker)
        if number == chosen:
            place, head = len(lines), choose(head, width)
        lines += [head, *found]
    window = find_window(len(lines), place + min(len(all_lanes[chosen]), room // 2), room - 1)
    return [*(lines[line] for line in window), _make_axis(columns)]


def _explain_no_workers(scene: Scene, look: TopLook) -> str:
    if look.filter:
        return "No worker here has this in its name, id or tags."
    return "No workers; start one with 'gandy worker run'." if scene.is_complete else "Looking for workers…"


def name_worker_state(worker: WorkerGlance) -> str:
    if not worker.connected:
        return "absent"
    return "draining" if worker.draining else "short" if worker.problem else "ready"


def _describe(worker: WorkerGlance) -> Line:
    state = name_worker_state(worker)
    silent = f", silent for {format_seconds(worker.silent_seconds)}" if worker.silent_seconds else ""
    calls = f", {format_count(worker.calls)} calls" if worker.calls else ""
    short = f", short of {worker.problem}" if worker.problem else ""
    tags = f"  {' '.join(worker.tags)}" if worker.tags else ""
    version = f"  {worker.version}" if worker.version else ""
    return make_line(
        Styled(f"{worker.name:<12} ", "title"),
        Styled(f"{state:<8} ", state if state != "ready" else ""),
        Styled(draw_fill(worker.used, worker.slots, 8), "running"),
        f" {format_count(worker.used)} of {format_count(worker.slots)} slots",
        f", {format_count(worker.running)} running, {format_count(worker.waiting)} waiting{calls}{silent}{short}",
        _describe_machine(worker.machine),
        Styled(f"{version}{tags}", "dim"),
    )


def _describe_machine(machine: MachineLoad | None) -> str:
    if machine is None:
        return ""
    load = format_load(machine.load, machine.cores)
    memory = format_memory(machine.memory_bytes, machine.memory_total_bytes)
    return f", load {load}{f', {memory}' if memory else ''}"


def _collect(scene: Scene) -> Mapping[str, dict[int, list[AnySpan]]]:
    since = scene.foreman_now - SECONDS
    found: defaultdict[str, dict[int, list[AnySpan]]] = defaultdict(dict)
    for span, lane in _unpack(scene.picture.lanes):
        if span.ended is None or span.ended >= since:
            found[span.worker].setdefault(lane, []).append(span)
    return found


def _unpack(lanes: PlacedLanes) -> Iterator[tuple[AnySpan, int]]:
    yield from ((placed.span, placed.lane) for placed in lanes)
    yield from ((placed.call, placed.lane) for placed in lanes.list_calls())


def _list_lanes(worker: WorkerGlance, lanes: Lanes, now: Wall, columns: int) -> list[Line]:
    slots = min(DRAWN_LANES, worker.slots)
    folded: list[list[AnySpan]] = [[] for _ in range(slots)]
    for lane, spans in lanes.items() if slots else ():
        folded[lane % slots] += spans  # ends are known a little late, so there may be more lanes than slots
    return [_make_lane(number, spans, now, columns) for number, spans in enumerate(folded)]


def _make_lane(number: int, spans: Sequence[AnySpan], now: Wall, columns: int) -> Line:
    cells = draw_lane(spans, now, columns)
    running = next((span for span in spans if span.ended is None), None)
    text = "" if running is None else f"  {_name_span(running)} {format_seconds(now - running.began)}"
    pieces = [
        Styled("".join(cell.text for cell in group), style) for style, group in groupby(cells, lambda cell: cell.style)
    ]
    return make_line(f"{number + 1:>{_HEAD_COLUMNS - 1}} ", *pieces, text)


def _name_span(span: AnySpan) -> str:
    return span.command if isinstance(span, CallSpan) else f"{span.job}/{span.task}"


def draw_lane(spans: Iterable[AnySpan], now: Wall, columns: int) -> list[Styled]:
    """What was in a lane in the last minute. Neighbours differ, and an attempt takes one cell at least."""
    cells = [Styled(" ")] * columns
    for span in sorted(spans, key=lambda span: span.began):
        first = int((span.began - now + SECONDS) / SECONDS * columns)
        end = now if span.ended is None else span.ended
        last = int((end - now + SECONDS) / SECONDS * columns)
        place = max(0, min(columns - 1, first))
        cell = _mark(span, cells[place - 1].text if place else " ")
        for column in range(place, max(place + 1, min(columns, last))):
            if cells[column].style != "failed":
                cells[column] = cell
    return cells


def _mark(span: AnySpan, before: str) -> Styled:
    match span.state:
        case TaskState.RUNNING:
            return Styled("▒", "running")
        case TaskState.FINISHED:
            return Styled("█" if before == "▓" else "▓", "finished")
        case TaskState.CANCELLED:
            return Styled("○", "cancelled")
        case _:
            return Styled("✗", "failed")  # or it is tried again


def _make_axis(columns: int) -> Line:
    left, right = f"{SECONDS:.0f} s ago", "now"
    space = " " * max(1, columns - len(left) - len(right))
    return make_line(Styled(f"{' ' * _HEAD_COLUMNS}{left}{space}{right}  task or call, time", "dim"))
