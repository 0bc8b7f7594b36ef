"""What each role may do: the extensions that are offered to it, and the requests that it may make."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import UNSET

from gandy.core import requests as ask
from gandy.core.extensions import FOREMAN_OFFERS
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.moments import Wall
from gandy.talk.law import Role
from gandy.wire import v2
from gandy.wire.calls import ANNOUNCE, CALL, OnFrame
from gandy.wire.messages import Error, Extension, Hello


class CrewRole(StrEnum):
    """What a peer may do. OWNER and ANYBODY need no key."""

    OWNER = "owner"  # the foreman's own user, on its machine
    CLIENT = "client"
    WORKER = "worker"
    OBSERVER = "observer"  # a client that changes nothing
    FOREMAN = "foreman"  # another foreman of the crew, which asks for its own clients
    ANYBODY = "anybody"  # at a door without keys, which the user asked for


class Credentials(NamedTuple):
    """What a peer connected with. An id of a worker belongs to its key; without a key, to its role."""

    role: CrewRole = CrewRole.OWNER
    key: str = CrewRole.OWNER
    expires: Wall | None = None


# Roles that keys are made for.
KEYED: Final = (CrewRole.CLIENT, CrewRole.WORKER, CrewRole.OBSERVER)

# Roles that invitations are made for. A foreman gets its key in no other way: it also gets the crew's identity.
INVITED: Final = (*KEYED, CrewRole.FOREMAN)

# Roles that may say HELLO as a worker.
WORKING: Final = frozenset({CrewRole.OWNER, CrewRole.WORKER, CrewRole.ANYBODY})

# What is offered in HELLO. What is not offered cannot be agreed on, and its messages break the link.
OFFERS: Final[Mapping[CrewRole, Extension]] = {
    CrewRole.OWNER: FOREMAN_OFFERS,
    CrewRole.ANYBODY: FOREMAN_OFFERS,
    CrewRole.WORKER: FOREMAN_OFFERS & ~Extension.CLIENT,
    CrewRole.CLIENT: Extension.ATOMIC | Extension.CLIENT | Extension.CALLS | Extension.TIMED | Extension.LINKED,
    CrewRole.OBSERVER: Extension.ATOMIC | Extension.CLIENT,
    CrewRole.FOREMAN: Extension.ATOMIC | Extension.CLIENT | Extension.CALLS | Extension.TIMED | Extension.LINKED,
}

# A foreman may ask all that the owner may: it forwards requests, and has checked the roles of those who made them.
_OWNER: Final = frozenset({CrewRole.OWNER, CrewRole.FOREMAN})
_CLIENTS: Final = _OWNER | {CrewRole.CLIENT, CrewRole.ANYBODY}
_READERS: Final = _CLIENTS | {CrewRole.OBSERVER}

# A request that is missing here is refused to all roles.
PERMITS: Final[Mapping[type[ask.Request], frozenset[CrewRole]]] = {
    ask.Submit: _CLIENTS,
    ask.AddLines: _CLIENTS,
    ask.AddTasks: _CLIENTS,
    ask.PutArguments: _CLIENTS,
    ask.CloseJob: _CLIENTS,
    ask.WatchResults: _READERS,
    ask.ListResults: _READERS,
    ask.ListJobs: _READERS,
    ask.ShowJob: _READERS,
    ask.WatchJob: _READERS,
    ask.WatchCrew: _READERS,
    ask.WatchTasks: _READERS,
    ask.ReadStates: _READERS,
    ask.FindTasks: _READERS,
    ask.Unwatch: _READERS,
    ask.ListSamples: _READERS,
    ask.ReadSample: _READERS,
    ask.ListTasks: _READERS,
    ask.ListAttempts: _READERS,
    ask.CancelJob: _CLIENTS,
    ask.RetractTasks: _CLIENTS,
    ask.RetryJob: _CLIENTS,
    ask.HoldJob: _CLIENTS,
    ask.ReleaseJob: _CLIENTS,
    ask.ForgetJobs: _CLIENTS,
    ask.ExplainJob: _READERS,
    ask.ListWorkers: _READERS,
    ask.StopWorker: _CLIENTS,
    ask.GetStatus: _READERS,
    ask.GetTime: _READERS,
    ask.ReadOutput: _READERS,
    ask.ReadOutputs: _READERS,
    ask.StopForeman: _CLIENTS,
    ask.ListForemen: _READERS,
    ask.DrainForeman: _CLIENTS,
    ask.LookAtShards: _OWNER,
    ask.ListKeys: _OWNER,
    ask.MakeKey: _OWNER,
    ask.RevokeKey: _OWNER,
    ask.Invite: _OWNER,
    ask.ListAudit: _OWNER,
}

# Frames of calls that are not for every role whose links carry calls.
_FRAMES: Final[Mapping[int, frozenset[CrewRole]]] = {CALL: _CLIENTS, ANNOUNCE: WORKING}


def admits(role: CrewRole, hello: Hello) -> bool:
    """True if a peer of this role may be what its HELLO says."""
    is_client = Extension.CLIENT in hello.extensions and hello.about is UNSET
    return role in (_READERS if is_client else WORKING)


def make_refusal(code: ErrorCode) -> bytes:
    """The last message to a peer that may not connect, or not stay: an ERROR that answers nothing."""
    return v2.encode(Role.FOREMAN.parity, Error(code))


def may_ask(role: CrewRole, request: ask.Request) -> bool:
    return role in PERMITS.get(type(request), frozenset())


def describe_who_may(request: ask.Request) -> str:
    """Which role may make this request, for a client that may not."""
    if CrewRole.CLIENT in PERMITS.get(type(request), frozenset()):
        return "a client's may, and 'gandy invite --client' on the foreman's machine gives one"
    return "only the foreman's own user may, on its machine"


def may_call(role: CrewRole) -> bool:
    return role in _FRAMES[CALL]


def guard_calls(role: CrewRole, on_frame: OnFrame) -> OnFrame:
    """`on_frame` for a peer of this role: frames that it may not send are refused. Unchanged if it may send all."""
    refused = frozenset(kind for kind, roles in _FRAMES.items() if role not in roles)
    if not refused:
        return on_frame

    def on_guarded_frame(kind: int, subtype: int, seq: int, argument: int, payload: bytes) -> None:
        if kind in refused:
            raise RemoteProtocolError(f"frame 0x{kind:02x} of calls is not for the role {role}", ErrorCode.WRONG_ROLE)
        on_frame(kind, subtype, seq, argument, payload)

    return on_guarded_frame
