"""Where the user looks: which view, which row is chosen, what is filtered, what is asked. Pure: decides about keys."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct, field

from gandy.core.model import FINAL_JOB_STATES
from gandy.core.views import JobGlance
from gandy.ids import JobId

MAX_FILTER: Final = 60  # characters; more than a line shows
PAGE: Final = 10  # rows


class TopView(IntEnum):
    """What is shown. The number is the key that chooses it."""

    OVERVIEW = 1
    JOB = 2
    WORKERS = 3
    CALLS = 4
    FOREMEN = 5


Item = JobId | str  # a row that can be chosen: a job, or the id or name of something


class Change(NamedTuple):
    """What the user wants to be done with a job: hold, release, retry or cancel."""

    verb: str
    job: JobId


class Quit(NamedTuple):
    """The user has seen enough."""


Action = Change | Quit

_STEPS: Final[Mapping[str, int]] = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -PAGE,
    "pagedown": PAGE,
    "home": -1_000_000,
    "g": -1_000_000,
    "end": 1_000_000,
    "G": 1_000_000,
}


class TopLook(Struct):
    """`on_key` changes it, and returns what is to be done."""

    view: TopView = TopView.OVERVIEW
    job: JobId | None = None  # that the view of a job shows
    chosen: dict[TopView, Item] = field(default_factory=dict)
    filters: dict[TopView, str] = field(default_factory=dict)
    scroll: int = 0  # lines above the first one of the view of a job
    is_filtering: bool = False
    shows_choice: bool = True  # else there are no keys to choose with
    shows_help: bool = False
    question: Change | None = None
    message: str = ""  # about the last action

    @property
    def filter(self) -> str:
        return self.filters.get(self.view, "")

    def find_chosen(self, items: Sequence[Item]) -> int:
        """The place of the chosen row, or the first one."""
        chosen = self.chosen.get(self.view)
        return items.index(chosen) if chosen in items else 0

    def on_key(self, key: str, items: Sequence[Item], glance: JobGlance | None, can_change: bool) -> Action | None:
        """`items` are the rows of the view, and `glance` is the job that is shown or chosen."""
        self.message = ""
        if self.question is not None:
            return self._on_answer(key)
        if self.is_filtering:
            self._on_filter_key(key)
        elif self.shows_help:
            self.shows_help = False
            return Quit() if key == "q" else None
        elif key == "q":
            return Quit()
        elif key in ("h", "r", "c"):
            self._ask(key, glance, can_change)
        else:
            self._move(key, items)
        return None

    def _move(self, key: str, items: Sequence[Item]) -> None:
        match key:
            case "1" | "2" | "3" | "4" | "5":
                self._show(TopView(int(key)), items)
            case "tab" | "right":
                self._show(TopView(self.view % len(TopView) + 1), items)
            case "backtab" | "left":
                self._show(TopView((self.view - 2) % len(TopView) + 1), items)
            case "enter":
                if self.view is TopView.OVERVIEW and items:
                    self._show(TopView.JOB, items)
            case "escape" | "backspace":
                self._leave()
            case "/":
                self.is_filtering = self.view is not TopView.JOB
            case "?":
                self.shows_help = True
            case _ if key in _STEPS:
                self._step(_STEPS[key], items)
            case _:
                pass

    def _show(self, view: TopView, items: Sequence[Item]) -> None:
        if self.view is TopView.OVERVIEW and items:
            job = items[self.find_chosen(items)]
            assert isinstance(job, int), "these are jobs"
            self.scroll = self.scroll if job == self.job else 0
            self.job = job
        self.view = view

    def _leave(self) -> None:
        if self.filter:
            del self.filters[self.view]
        else:
            self.view = TopView.OVERVIEW

    def _step(self, step: int, items: Sequence[Item]) -> None:
        if self.view is TopView.JOB:
            self.scroll = max(0, self.scroll + step)  # the view knows where its end is
        elif items:
            place = max(0, min(len(items) - 1, self.find_chosen(items) + step))
            self.chosen[self.view] = items[place]

    def _on_filter_key(self, key: str) -> None:
        text = self.filter
        if key in ("enter", "escape"):
            self.is_filtering = False
            text = "" if key == "escape" else text
        elif key in ("backspace", "clear"):
            text = "" if key == "clear" else text[:-1]
        elif len(key) == 1:
            text = (text + key)[:MAX_FILTER]
        self.filters[self.view] = text
        if not text:
            del self.filters[self.view]

    # Changes

    def _ask(self, key: str, glance: JobGlance | None, can_change: bool) -> None:
        if self.view not in (TopView.OVERVIEW, TopView.JOB) or glance is None:
            return
        if not can_change:
            self.message = "this key may look, and change nothing"
            return
        verb = {"h": "release" if glance.held else "hold", "r": "retry", "c": "cancel"}[key]
        if verb == "retry" and not (glance.counts.failed or glance.counts.cancelled):
            self.message = f"no task of job {glance.job} failed or was cancelled"
        elif verb != "retry" and glance.state in FINAL_JOB_STATES:
            self.message = f"job {glance.job} has ended"
        else:
            self.question = Change(verb, glance.job)

    def _on_answer(self, key: str) -> Action | None:
        question, self.question = self.question, None
        return question if key in ("y", "Y") else None
