"""Answers requests of clients: which role may make a request, and which part of the foreman answers it."""

from typing import Any, assert_never

from gandy.core import requests as ask
from gandy.core.changing import Changing
from gandy.core.effects import Reply
from gandy.core.foreman import Foreman
from gandy.core.intake import Intake
from gandy.core.links import Link
from gandy.core.lone_foreman import answer_alone
from gandy.core.looking import Looking
from gandy.core.merging import merge_keys
from gandy.core.records import JobAdded
from gandy.core.refusal import Refusal
from gandy.core.roles import describe_who_may, may_ask
from gandy.core.shards import NO_SHARD
from gandy.core.standing import Standing
from gandy.core.steps import AskShards, Decide, Forward, KeepArguments, Look, ManageCrew, ManageKeys, Note, Steps
from gandy.core.viewing import Viewed, Viewing

# Requests that only the owner of the job's shard can answer: it has the job in memory.
Owned = (
    ask.AddTasks
    | ask.CloseJob
    | ask.WatchJob
    | ask.WatchResults
    | ask.WatchTasks
    | ask.ReadStates
    | ask.CancelJob
    | ask.RetractTasks
    | ask.RetryJob
    | ask.HoldJob
    | ask.ReleaseJob
    | ask.ExplainJob
)
NewWork = ask.Submit | ask.AddLines | ask.AddTasks | ask.CloseJob


class Answers:
    """Checks the role of the client, and lets the part of the foreman answer that the request is for."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing
        self.intake = Intake(foreman, standing)
        self._looking = Looking(foreman, standing)
        self._viewing = Viewing(foreman)
        self._changing = Changing(foreman, standing, self._looking)

    def answer(self, payload: bytes, link: Link, token: Any) -> Steps[ask.Answer | None]:
        """The answer; None if a `Reply` to the token follows, behind the records that make it true.

        Raises: Refusal, StoreError, RemoteProtocolError.
        """
        request = ask.decode_request(payload)
        role = link.credentials.role
        if not may_ask(role, request):
            what = type(request).__name__
            yield Note("refused", {"why": f"{what} is not for the role {role}"})
            text = f"{what} is not for the role {role}, which this key is for; {describe_who_may(request)}"
            raise Refusal("not_allowed", text)
        shard = yield from self._find_elsewhere(request)
        if shard != NO_SHARD:
            return (yield Forward(shard, request))  # type: ignore[no-any-return]
        if isinstance(request, Viewed):
            return (yield from self._viewing.answer(request))
        return (yield from self._answer(request, link, token))

    def _find_elsewhere(self, request: ask.Request) -> Steps[int]:
        """The other shard that has the job of this request; NO_SHARD if we can answer it."""
        if self._foreman.shard == NO_SHARD:
            return NO_SHARD
        if isinstance(request, ask.WatchCrew):
            return NO_SHARD if request.shard == self._foreman.shard else request.shard
        if not isinstance(request, Owned):
            return NO_SHARD
        job = request.job
        if self._foreman.reactor.jobs.find(job) is not None:
            return NO_SHARD
        shard: int | None = yield Look(lambda store: store.find_shard(job))
        return NO_SHARD if shard is None or shard == self._foreman.shard else shard

    def _answer(self, request: ask.Request, link: Link, token: Any) -> Steps[ask.Answer | None]:
        changing = self._changing
        match request:
            case ask.Submit() | ask.AddLines() | ask.AddTasks() | ask.CloseJob():
                yield from self._take(request, link, token)
                return None
            case ask.CancelJob() | ask.HoldJob() | ask.ReleaseJob() | ask.RetryJob():
                return (yield from changing.change(request))
            case ask.RetractTasks():
                return (yield from changing.retract(request))
            case ask.ForgetJobs():
                yield from changing.forget(request, token)
                return None
            case ask.StopWorker(worker, immediate):
                return (yield from changing.stop_worker(worker, immediate, request.again))
            case ask.StopForeman(drain):
                return (yield from changing.stop_foreman(drain))
            case ask.ListKeys():
                return (yield from self._list_keys(request))
            case ask.MakeKey() | ask.RevokeKey() | ask.Invite() | ask.ListAudit():
                return (yield ManageKeys(request))  # type: ignore[no-any-return]
            case ask.PutArguments():
                yield KeepArguments(request)
                return ask.Done()
            case ask.ListForemen() | ask.DrainForeman() | ask.LookAtShards():
                if self._foreman.shard == NO_SHARD:
                    return answer_alone(request, self._standing, len(self._foreman.reactor.jobs))
                return (yield ManageCrew(request))  # type: ignore[no-any-return]
            case _:
                return (yield from self._looking.answer(request))

    def _list_keys(self, request: ask.ListKeys) -> Steps[ask.KeyList]:
        """The keys, with their links to all shards."""
        here: ask.KeyList = yield ManageKeys(request)
        if request.is_local or self._foreman.shard == NO_SHARD:
            return here
        elsewhere = yield AskShards(ask.ListKeys(is_local=True))
        return merge_keys(here, [each for each in elsewhere if isinstance(each, ask.KeyList)])

    def _take(self, request: NewWork, link: Link, token: Any) -> Steps[None]:
        answer = ask.Done()
        match request:
            case ask.Submit():
                number, effects = yield from self.intake.submit(request, link)
                yield Decide([*effects, Reply(token, ask.Submitted(number), takes_work=True)])
                if any(isinstance(effect, JobAdded) for effect in effects):  # else it came before
                    yield Note("submitted", {"job": number, "name": request.spec.name, "tasks": request.spec.tasks})
            case ask.AddLines():
                yield Decide([*self.intake.add_lines(request, link), Reply(token, answer, takes_work=True)])
            case ask.AddTasks():
                yield Decide([*self.intake.add_tasks(request, link), Reply(token, answer, takes_work=True)])
            case ask.CloseJob(job):
                yield Decide([*self.intake.close_job(job), Reply(token, answer)])
            case _:
                assert_never(request)
