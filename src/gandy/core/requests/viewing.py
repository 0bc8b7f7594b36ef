"""Requests of viewers, for how the crew stands or stood. Most answers are in `core.views` and `core.past_crew`."""

from typing import Annotated

from msgspec import Meta

from gandy.bounds import JobNumber, TaskIndex, WallMoment
from gandy.core.past_points import HistoryPoint
from gandy.core.requests.base import BaseAnswer, BaseRequest
from gandy.core.shards import ShardNumber
from gandy.core.views import FirstTask
from gandy.ids import TaskNumber
from gandy.limits import LAST_NUMBER, MAX_PAGE, MAX_POINTS


class WatchCrew(BaseRequest, frozen=True):
    """Answered with `CrewUpdate`, a whole one; then come events, each a `CrewUpdate` with what has changed.

    If they are not read fast enough, some are left out, and a whole one follows.
    """

    shard: ShardNumber = 0  # of the crew's jobs; 0: that of the foreman that is asked


class WatchTasks(BaseRequest, frozen=True):
    """Answered with `TaskUpdate`, a whole one; until the job is final come events, each a `TaskUpdate`.

    If they are not read fast enough, some are left out, and a whole one follows.
    """

    job: JobNumber


class Unwatch(BaseRequest, frozen=True):
    """Answered with `Done`. The client wants no more events for the request with this number, on this link."""

    number: Annotated[int, Meta(ge=0, le=LAST_NUMBER)]


class ReadStates(BaseRequest, frozen=True):
    """Answered with `TaskUpdate`: the states of a job's tasks from one on, as many as fit. No events follow."""

    job: JobNumber
    first: FirstTask = TaskNumber(1)


class FindTasks(BaseRequest, frozen=True):
    """Answered with `TaskList`: those of the named tasks that exist, as many as fit, in the order of their numbers."""

    job: JobNumber
    tasks: Annotated[tuple[TaskIndex, ...], Meta(max_length=MAX_PAGE)]


class ListSamples(BaseRequest, frozen=True):
    """Answered with `Points`: what the crew did between two times of day, in at most so many points."""

    begin: WallMoment
    end: WallMoment
    most: Annotated[int, Meta(ge=1, le=MAX_POINTS)] = 500


class ReadSample(BaseRequest, frozen=True):
    """Answered with `CrewThen`: how the crew stood at a time of day, as far as samples tell."""

    at: WallMoment


class Points(BaseAnswer, frozen=True):
    """In the order of time. They begin with the first sample that is kept, and end now."""

    points: Annotated[tuple[HistoryPoint, ...], Meta(max_length=MAX_POINTS)]
