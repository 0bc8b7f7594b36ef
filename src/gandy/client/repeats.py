"""Which requests a client sends again if the link breaks before the answer, and for how long it tries."""

import secrets
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from gandy.core import requests as ask
from gandy.errors import GandyError, JobMoved, StoreError, StoreFull
from gandy.limits import LAST_INTEGER
from gandy.moments import Monotonic

# Seconds after the last contact with a foreman, or its first refusal, for which a request is tried again: other foremen
# of the crew need up to ten to take over the jobs of one that died.
REQUEST_PATIENCE: Final = 15.0

# Seconds before the next try to reach a foreman that went away: the first pause, and the longest; each doubles.
RETURN_PAUSES: Final = (0.1, 5.0)

# The same, before a foreman is asked again that cannot do it yet: another one is about to own the job.
REFUSAL_PAUSES: Final = (0.05, 1.0)

# False: done twice, it would do more than done once, or a foreman cannot know that it is done. The others say `again`
# when they are sent again. A request that is missing here is not sent again.
REPEATABLE: Final[Mapping[type[ask.Request], bool]] = {
    ask.Submit: True,  # by its key; without one it is not
    ask.AddLines: False,  # lines belong to a link: all of them are sent again
    ask.AddTasks: True,  # tasks that came already are skipped
    ask.PutArguments: True,  # a piece has its place
    ask.CloseJob: True,
    ask.WatchResults: True,
    ask.ListResults: True,
    ask.ListJobs: True,
    ask.ShowJob: True,
    ask.WatchJob: True,
    ask.WatchCrew: True,
    ask.WatchTasks: True,
    ask.ReadStates: True,
    ask.FindTasks: True,
    ask.Unwatch: False,  # it is about one link
    ask.ListSamples: True,
    ask.ReadSample: True,
    ask.ListTasks: True,
    ask.ListAttempts: True,
    ask.CancelJob: True,
    ask.RetractTasks: True,
    ask.RetryJob: True,  # tasks that failed once more meanwhile get another attempt
    ask.HoldJob: True,
    ask.ReleaseJob: True,
    ask.ForgetJobs: True,
    ask.ExplainJob: True,
    ask.ListWorkers: True,
    ask.StopWorker: True,
    ask.GetStatus: True,
    ask.GetTime: True,
    ask.ReadOutput: True,
    ask.ReadOutputs: True,
    ask.StopForeman: False,  # it would stop another one
    ask.ListForemen: True,
    ask.DrainForeman: True,  # by its id; without one it is not
    ask.LookAtShards: False,
    ask.ListKeys: True,
    ask.MakeKey: False,
    ask.RevokeKey: False,
    ask.Invite: False,
    ask.ListAudit: True,
}


def draw_key() -> int:
    """Draw the key of a new job, by which a foreman recognises it if it is sent again."""
    return secrets.randbelow(LAST_INTEGER) + 1


def may_repeat(request: ask.Request) -> bool:
    """True if the request may be sent again although a foreman may have done it."""
    match request:
        case ask.Submit(key=0) | ask.DrainForeman(""):
            return False
        case _:
            return REPEATABLE.get(type(request), False)


def is_passing(error: GandyError, has_many_foremen: bool, has_just_moved: bool) -> bool:
    """True if a foreman that refuses is likely to be able to do it soon.

    Another one is about to own the job. Or the database of many foremen is away; but a full disk takes longer, and the
    user must know, as of any problem of a foreman with a store of its own. Or the client has just come to this
    foreman, and so have the workers, or they are on their way.
    """
    if isinstance(error, JobMoved):
        return True
    if isinstance(error, StoreFull):
        return False
    return error.retryable and (has_just_moved or (has_many_foremen and isinstance(error, StoreError)))


class Patience:
    """How long one request is tried again, and when. It ends, so that no request kills one foreman after the other."""

    def __init__(self) -> None:
        self._deadline: Monotonic | None = None
        self._link_pauses = chain((0.0,), growing(*RETURN_PAUSES))  # another foreman may be there at once
        self._refusal_pauses = growing(*REFUSAL_PAUSES)

    def on_link_error(self, lost_at: Monotonic, now: Monotonic) -> float | None:
        """The link broke at `lost_at`, or there is still none. Returns the pause before the next try; None: give up."""
        return self._take(lost_at, now, self._link_pauses)

    def on_refusal(self, now: Monotonic) -> float | None:
        """The foreman cannot do it yet. Returns the same."""
        return self._take(now, now, self._refusal_pauses)

    def _take(self, since: Monotonic, now: Monotonic, pauses: Iterator[float]) -> float | None:
        if self._deadline is None:
            self._deadline = since + REQUEST_PATIENCE
        left = self._deadline - now
        return min(next(pauses), left) if left > 0 else None


def return_pauses() -> Iterator[float]:
    """Iterate over the pauses between tries to reach a foreman that went away."""
    return growing(*RETURN_PAUSES)


def refusal_pauses() -> Iterator[float]:
    """Iterate over the pauses between requests to a foreman that cannot do it yet."""
    return growing(*REFUSAL_PAUSES)


def growing(first: float, last: float) -> Iterator[float]:
    """Iterate without end over pauses that double until `last`, which repeats."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, last)
