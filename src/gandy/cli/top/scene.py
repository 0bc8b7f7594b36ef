"""All that is known about the crew, for the views to show. The program around keeps it current."""

from collections.abc import Sequence

from msgspec import Struct, field

from gandy.cli.top.look import Item, TopLook, TopView
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.requests import ForemanRow, ForemanStatus
from gandy.core.views import JobGlance
from gandy.ids import JobId
from gandy.moments import Wall
from gandy.viewer.picture import Picture
from gandy.viewer.summary import JobSummary


class JobSeen(Struct):
    """What is known about the job that the user looks at, besides what the picture has."""

    job: JobId
    glance: JobGlance | None = None  # if the picture has none
    states: bytes | bytearray = b""  # of its tasks
    summary: JobSummary | None = None
    explained: Sequence[str] = ()
    problem: str = ""


class Scene(Struct):
    """`now` is read from our clock, and `ahead` is how far the foreman's clock is ahead of it."""

    picture: Picture
    address: str = ""  # of the foreman
    now: float = 0.0
    ahead: float = 0.0
    problem: str = ""  # why the picture is not current
    is_complete: bool = False  # all shards have sent what they have
    can_change: bool = False  # our key may
    job: JobSeen | None = None
    foremen: Sequence[ForemanRow] = ()
    status: ForemanStatus | None = None
    problems: dict[TopView, str] = field(default_factory=dict)  # why a view has nothing to show

    @property
    def foreman_now(self) -> Wall:
        """By the foreman's clock, to which the times of jobs and attempts belong."""
        return Wall(self.now + self.ahead)

    def find_glance(self, look: TopLook, items: Sequence[Item]) -> JobGlance | None:
        """The job that is shown or chosen."""
        if look.view is TopView.OVERVIEW and items:
            return self.get_glance(items[look.find_chosen(items)])
        return None if look.view is not TopView.JOB or look.job is None else self.get_glance(look.job)

    def get_glance(self, job: Item) -> JobGlance | None:
        found = self.picture.jobs.get(JobId(int(job)))
        if found is None and self.job is not None and self.job.job == job:
            return self.job.glance
        return found

    def list_items(self, look: TopLook) -> Sequence[Item]:
        """The rows of the view, those that the filter lets through."""
        text = look.filter.casefold()
        match look.view:
            case TopView.OVERVIEW:
                jobs = [glance for glance in self.picture.jobs.values() if matches(text, *_list_job_texts(glance))]
                jobs.sort(key=lambda glance: (glance.state in FINAL_JOB_STATES, -glance.job))
                return [glance.job for glance in jobs]
            case TopView.WORKERS:
                workers = self.picture.list_workers()
                return [each.id for each in workers if matches(text, each.name, each.id, *each.tags)]
            case TopView.CALLS:
                return [each.name for each in self.picture.list_commands() if matches(text, each.name)]
            case TopView.FOREMEN:
                return [each.id for each in self.foremen if matches(text, each.name, each.id)]
            case _:
                return ()


def _list_job_texts(glance: JobGlance) -> tuple[str, ...]:
    return str(glance.job), glance.title, glance.state.name


def matches(wanted: str, *texts: str) -> bool:
    return not wanted or any(wanted in text.casefold() for text in texts)
