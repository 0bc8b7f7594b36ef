"""Where fuzzing begins: real frames, payloads and conversations, for the first corpus and to be mutated."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from tests.builders import a_pair, a_result, a_task, some_tasks
from tests.fuzz import bus, doors

from gandy.cli import frames as plain
from gandy.doors.v1 import wire as v1
from gandy.ids import JobId, TaskNumber
from gandy.wire import calls, joining, payloads, v2
from gandy.wire.messages import (
    GREETING,
    RESEND_HELLO,
    STOP_IMMEDIATELY,
    About,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Message,
    NewJob,
    Ok,
    Orders,
    Report,
    Reset,
    Stop,
    TaskResult,
    Update,
)

ORDERED: Final = msgspec.structs.replace(a_task(3), orders=Orders(2, ("sh", "-c", "true"), {"A": "1"}, 2.5, "true"))
REPORTED: Final = msgspec.structs.replace(a_result(3), report=Report(2, 1, 0, 9, 1.5, 2.5, 4096, b"\xfflast", "words"))

V2_MESSAGES: Final[Sequence[Message]] = [
    GREETING,
    RESEND_HELLO,
    Ok(17, 5, Extension.ATOMIC),
    Hello(4),
    Hello(1, some_tasks(2), Extension.ATOMIC | Extension.CALLS),
    Hello(2, (ORDERED,), Extension.ATOMIC, About("w1", "worker", 3, ("gpu", "big"), "0.1")),
    Job(()),
    Job(some_tasks(2)),
    Job((ORDERED,)),
    Update(None),
    Update(a_result(status="größer")),
    Update(REPORTED),
    Update(TaskResult(JobId(2**40), TaskNumber(-1), False, "", NewJob(3))),
    Cancel((a_pair(), a_pair(2, -1))),
    Stop(STOP_IMMEDIATELY),
    Error(2, 0x10001),
    Reset(9),
]
EXTENDED: Final[Sequence[Message]] = [Extended(0x20, b""), Extended(0x41, b"\x93\x01\x02\x03")]
V1_MESSAGES: Final[Sequence[v1.V1Message]] = [Ok(0), Ok(4), Job((a_task(),)), Update(a_result()), Stop(1), Error(2)]

BATCHING: Final = Extension.ATOMIC | Extension.UPDATES

# As the worker with two slots of `talks` would hear it from a foreman, and the other way round.
FOREMAN_SAYS: Final = (
    v2.encode(0, Ok(2, 0, BATCHING))
    + v2.encode(0, Extended(v2.RECALL, payloads.encode([a_pair()])))
    + v2.encode(3, Job((a_task(),)))
    + v2.encode(5, Cancel((a_pair(),)))
    + v2.encode(7, Reset(0))
    + v2.encode(9, Stop(2))
)
WORKER_SAYS: Final = (
    v2.encode(0, Hello(2, some_tasks(1), BATCHING))
    + v2.encode(1, Extended(v2.RESULTS, payloads.encode([REPORTED, a_result(2)])))
    + v2.encode(2, Update(a_result()))
    + v2.encode(4, Reset(0))
    + v2.encode(0, Hello(2))
)
V1_FOREMAN_SAYS: Final = v1.encode(Ok(0)) + v1.encode(Ok(2)) + v1.encode(Job((a_task(),))) + v1.encode(Stop(2))
V1_WORKER_SAYS: Final = v1.encode(Ok(2)) + v1.encode(Update(a_result())) + v1.encode(Error(2))

# As the strangers of `boards` would say it: a client, and a worker.
ANNOUNCEMENT: Final = calls.encode_announcement(3, 1, [calls.Offer("add", 2), calls.Offer("ping")])
CLIENT_CALLS: Final = [
    calls.encode(calls.CALL, 0, 20, 1_000, calls.encode_target("ping") + b"\x90"),
    calls.encode(calls.CALL, calls.DIRECT | calls.MORE, 21, 0, calls.encode_target("ping", "w1") + b"\x91"),
    calls.encode(calls.CALL, calls.CAST | calls.MORE, 22, 0, calls.encode_target("add")),
    calls.encode(calls.BODY, calls.LAST, 21, 0, b"\x01"),
    calls.encode(calls.CREDIT, 0, 20, 1_000),
    calls.encode(calls.CANCEL, 0, 20),
]
WORKER_CALLS: Final = [
    calls.encode(calls.RESULT, calls.WHOLE, 0, 0, b"\x01"),
    calls.encode(calls.CREDIT, 0, 0, 1_000),
    calls.encode(calls.YIELDED, 0, 0, 1),
    calls.encode(calls.ANNOUNCE, 0, 0, 0, ANNOUNCEMENT),
    calls.encode(calls.RESULT, calls.LAST | calls.WHOLE, 0, 0, b"\x01"),
]

TOKEN: Final = joining.Token("4f1c93a0", bytes(16), bytes(32), ("tcp://10.0.0.7:5429",), "worker")
JOIN_SAYS: Final = [
    joining.encode_join(joining.Join("4f1c93a0", bytes(32), bytes(91), "hut")),
    joining.encode_join(joining.Joined(bytes(300), "hut", "worker", "band", bytes(32))),
    joining.encode_join(joining.JoinRefused("no")),
]


def list_seeds(target: str) -> list[bytes]:
    """Good input for a target. Choices of a talk have no form, so anything is as good."""
    known: Mapping[str, Sequence[bytes]] = {**_SEEDS, **doors.SEEDS, **bus.SEEDS}
    return list(known.get(target, [bytes(40), bytes(range(120))]))


def _flatten(task: dict[str, Any]) -> dict[str, Any]:
    return {"Task": task["Task"], **task["JobDescription"]}


_V1_FRAMES: Final = [v1.encode(message) for message in V1_MESSAGES]
_V2_FRAMES: Final = [v2.encode(seq, message) for seq, message in enumerate(V2_MESSAGES)]
_EXTENDED_FRAMES: Final = [v2.encode(0, message) for message in EXTENDED]
_TASK: Final = msgspec.to_builtins(a_task())
_WIDE_TASK: Final = payloads.encode(a_task()).replace(b"\xa5JobId\x01", b"\xa5JobId\xcf" + bytes(7) + b"\x01")


def _payloads_of(kind: v2.Type) -> list[bytes]:
    return [frame[v2.HEADER.size :] for frame in _V2_FRAMES if frame[2] == kind]


def _json_of(generation: plain.Generation, frames: Sequence[bytes]) -> list[bytes]:
    decoder = plain.make_decoder(generation)
    decoder.receive_data(b"".join(frames))
    return [b"%d" % generation + msgspec.json.encode(frame) for frame in iter(decoder.next_message, None)]


_SEEDS: Final = {
    "v1": [*_V1_FRAMES, b"".join(_V1_FRAMES)],
    "v2": [*_V2_FRAMES, b"".join(_V2_FRAMES)],
    "v2_extensions": [*_EXTENDED_FRAMES, b"".join(_V2_FRAMES + _EXTENDED_FRAMES)],
    "v1_job": [payloads.encode(_TASK), payloads.encode(_flatten(_TASK)), _WIDE_TASK],
    "v1_update": [payloads.encode(a_result())],
    "v2_hello": [*_payloads_of(v2.Type.HELLO), payloads.encode({"NumProcs": 1, "Running": [_flatten(_TASK)]})],
    "v2_job": [*_payloads_of(v2.Type.JOB), payloads.encode([_flatten(_TASK), _TASK]), b"\x91" + _WIDE_TASK],
    "v2_update": _payloads_of(v2.Type.UPDATE),
    "v2_cancel": _payloads_of(v2.Type.CANCEL),
    "results": [payloads.encode([a_result(), REPORTED])],
    "recall": _payloads_of(v2.Type.CANCEL),
    "plain_v1": [*_V1_FRAMES, b"".join(_V1_FRAMES)],
    "plain_v2": [*_V2_FRAMES, b"".join(_V2_FRAMES + _EXTENDED_FRAMES)],
    "plain_encode": [*_json_of(1, _V1_FRAMES), *_json_of(2, _V2_FRAMES + _EXTENDED_FRAMES), b'2{"type":"OK","nrun":1}'],
    "worker_bytes": [FOREMAN_SAYS],
    "foreman_bytes": [WORKER_SAYS],
    "v1_worker_bytes": [V1_FOREMAN_SAYS],
    "v1_foreman_bytes": [V1_WORKER_SAYS],
    "announcement": [ANNOUNCEMENT, calls.encode_failure(calls.CallFailure("ValueError", "no", "Traceback", b"pickle"))],
    "calls": [*CLIENT_CALLS, *WORKER_CALLS, b"".join(CLIENT_CALLS + WORKER_CALLS)],
    "join": JOIN_SAYS,
    "token": [joining.format_token(TOKEN).encode()],
    "calls_bytes": [b"\x00" + b"".join(WORKER_CALLS), b"\x02" + b"".join(CLIENT_CALLS)],
}
