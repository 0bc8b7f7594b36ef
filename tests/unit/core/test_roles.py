"""What each role may do. The tables are complete, and say what docs/reference says."""

from typing import get_args

import pytest
from tests.builders import decode_all

from gandy.core import requests as ask
from gandy.core.roles import (
    INVITED,
    KEYED,
    OFFERS,
    PERMITS,
    WORKING,
    CrewRole,
    admits,
    describe_who_may,
    guard_calls,
    make_refusal,
    may_ask,
    may_call,
)
from gandy.errors import REFUSALS, ErrorCode, RemoteProtocolError
from gandy.wire import calls
from gandy.wire.messages import About, Error, Extension, Hello

OWNER, CLIENT, WORKER, OBSERVER, FOREMAN, ANYBODY = CrewRole

# What changes nothing. A programmer who adds a request decides here as well whether observers may make it.
READING: set[type[ask.Request]] = {
    ask.WatchResults,
    ask.ListResults,
    ask.ListJobs,
    ask.ShowJob,
    ask.WatchJob,
    ask.WatchCrew,
    ask.WatchTasks,
    ask.ReadStates,
    ask.FindTasks,
    ask.Unwatch,
    ask.ListTasks,
    ask.ListAttempts,
    ask.ExplainJob,
    ask.ListWorkers,
    ask.GetStatus,
    ask.GetTime,
    ask.ListForemen,
    ask.ReadOutput,
    ask.ReadOutputs,
    ask.ListSamples,
    ask.ReadSample,
}
KEEPING: set[type[ask.Request]] = {
    ask.ListKeys,
    ask.MakeKey,
    ask.RevokeKey,
    ask.Invite,
    ask.ListAudit,
    ask.LookAtShards,
}

AS_CLIENT = Hello(0, (), Extension.ATOMIC | Extension.CLIENT)
AS_WORKER = Hello(1, (), Extension.ATOMIC, About("id", "name", 1))
AS_BOTH = Hello(1, (), Extension.ATOMIC | Extension.CLIENT, About("id", "name", 1))
AS_PLAIN = Hello(1)


def test_every_request_is_in_the_table() -> None:
    assert set(PERMITS) == set(get_args(ask.Request))


def test_every_role_is_offered_something() -> None:
    assert set(OFFERS) == set(CrewRole)


@pytest.mark.parametrize("kind", PERMITS, ids=lambda kind: kind.__name__)
def test_what_each_role_may_ask(kind: type[ask.Request]) -> None:
    if kind in KEEPING:
        expected = {OWNER, FOREMAN}
    elif kind in READING:
        expected = {OWNER, FOREMAN, CLIENT, OBSERVER, ANYBODY}
    else:
        expected = {OWNER, FOREMAN, CLIENT, ANYBODY}
    assert PERMITS[kind] == expected


def test_no_key_is_for_the_owner() -> None:
    assert set(KEYED) == {CLIENT, WORKER, OBSERVER}
    assert set(INVITED) == {CLIENT, WORKER, OBSERVER, FOREMAN}
    assert all(PERMITS[kind].isdisjoint(KEYED) for kind in KEEPING)


def test_a_request_is_asked_by_its_type() -> None:
    assert may_ask(CLIENT, ask.StopForeman())
    assert not may_ask(OBSERVER, ask.StopForeman())
    assert not any(may_ask(WORKER, request) for request in (ask.GetStatus(), ask.ListWorkers()))


def test_a_refusal_says_which_role_may() -> None:
    assert "'gandy invite --client'" in describe_who_may(ask.StopForeman())
    assert "on its machine" in describe_who_may(ask.ListKeys())


@pytest.mark.parametrize("role", CrewRole)
def test_who_may_come_as_what(role: CrewRole) -> None:
    assert admits(role, AS_CLIENT) == (role is not WORKER)
    for hello in (AS_WORKER, AS_BOTH, AS_PLAIN):
        assert admits(role, hello) == (role in (OWNER, WORKER, ANYBODY)) == (role in WORKING)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_an_error_that_answers_nothing(code: ErrorCode) -> None:
    assert decode_all(make_refusal(code)) == [(1, Error(code))]


@pytest.mark.parametrize(
    ("role", "refused"),
    [
        (OWNER, []),
        (ANYBODY, []),
        (CLIENT, [calls.ANNOUNCE]),
        (WORKER, [calls.CALL]),
        (OBSERVER, [0x40, 0x45]),
        (FOREMAN, [calls.ANNOUNCE]),
    ],
)
def test_frames_that_are_not_for_a_role(role: CrewRole, refused: list[int]) -> None:
    kinds: list[int] = []
    guarded = guard_calls(role, lambda kind, *_rest: kinds.append(kind))
    for kind in calls.KINDS:
        if kind not in refused:
            guarded(kind, 0, 0, 0, b"")
            continue
        with pytest.raises(RemoteProtocolError) as caught:
            guarded(kind, 0, 0, 0, b"")
        assert caught.value.code is ErrorCode.WRONG_ROLE
    assert kinds == [kind for kind in calls.KINDS if kind not in refused]
    assert may_call(role) == (calls.CALL not in refused)
