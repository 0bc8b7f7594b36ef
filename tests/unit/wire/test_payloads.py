import tracemalloc

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import a_task

from gandy.bounds import BROKEN
from gandy.wire import payloads
from gandy.wire.messages import Orders


def nested(**changes: object) -> dict[str, object]:
    return {"Task": 1, "JobDescription": {**_job(), **changes}}


def flat(**changes: object) -> dict[str, object]:
    return {"Task": 1, **_job(), **changes}


def _job() -> dict[str, object]:
    paths = {"WorkingDir": "/tmp", "LoggingDir": "/tmp", "Command": "/bin/true"}
    return {"JobId": 1, "Name": "job1", "NumTasks": 10, **paths, "Status": 1}


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def test_nested_and_flat_tasks_are_the_same_task() -> None:
    assert payloads.decode_tasks(pack([nested(), nested()])) == (a_task(), a_task())
    assert payloads.decode_tasks(pack([flat(), flat()])) == (a_task(), a_task())
    assert payloads.decode_task(pack(nested())) == payloads.decode_task(pack(flat())) == a_task()


def test_hello_takes_nested_flat_and_absent_tasks() -> None:
    assert payloads.decode_hello(pack({"NumProcs": 3, "Running": [nested()]})).running == (a_task(),)
    assert payloads.decode_hello(pack({"NumProcs": 3, "Running": [flat()]})).running == (a_task(),)
    assert payloads.decode_hello(pack({"NumProcs": 3, "Running": None})).running is None


def test_unknown_keys_are_skipped() -> None:
    assert payloads.decode_tasks(pack([nested(Colour="red")])) == (a_task(),)
    assert payloads.decode_tasks(pack([flat(Colour="red")])) == (a_task(),)


def test_a_task_may_begin_at_a_shared_time_below_zero() -> None:
    """Where the shared time began anew at zero, the time of a job that is late lies before that."""
    task = replace(a_task(), orders=Orders(1, at=-3.5))
    assert payloads.decode_tasks(payloads.encode((task,))) == (task,)


def test_a_result_may_leave_out_new_job() -> None:
    result = payloads.decode_result(pack({"JobId": 1, "Task": 2, "Success": True, "Status": "done"}))
    assert result.new_job is None


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([{"Task": 1}], "JobId"),
        ([{"JobDescription": _job()}], "Task"),
        ([nested(Command=7)], "Command"),
        ([flat(Command=7)], "Command"),
        ([nested(Status=9)], "Status"),
        ([nested(JobId=-1)], "JobId"),
        ({"Task": 1}, "array"),
        ([7], "object"),
    ],
)
def test_a_wrong_task_is_named(value: object, complaint: str) -> None:
    with pytest.raises(BROKEN, match=complaint):
        payloads.decode_tasks(pack(value))


@pytest.mark.parametrize("count", [-1, 65_535, 70_000])
def test_a_worker_has_a_sane_number_of_processors(count: int) -> None:
    with pytest.raises(BROKEN, match="NumProcs"):
        payloads.decode_hello(pack({"NumProcs": count, "Running": []}))


def test_hello_needs_both_fields() -> None:
    with pytest.raises(BROKEN, match="Running"):
        payloads.decode_hello(pack({"NumProcs": 1}))


def test_a_hello_with_a_null_list_and_a_wrong_number_is_wrong() -> None:
    with pytest.raises(BROKEN, match="NumProcs"):
        payloads.decode_hello(pack({"NumProcs": "1", "Running": None}))


def test_a_list_is_flat_or_nested_and_not_both() -> None:
    with pytest.raises(BROKEN, match="JobId"):
        payloads.decode_tasks(pack([nested(), flat()]))


def test_sixteen_megabytes_of_nothing_cost_nothing() -> None:
    for payload in (
        b"\xdd\x00\xff\xff\xff" + b"\x80" * 0xFFFFFF,
        b"\x91\x81\xa1x\xdd\x00\xff\xff\xf0" + b"\x90" * 0xFFFFF0,
    ):
        tracemalloc.start()
        with pytest.raises(BROKEN):
            payloads.decode_tasks(payload)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91", pack([nested()]) + b"z", b"\x91\x81\xa1\xff\x01"])
def test_broken_msgpack_is_broken(payload: bytes) -> None:
    for decode in (payloads.decode_hello, payloads.decode_tasks, payloads.decode_task, payloads.decode_pairs):
        with pytest.raises(BROKEN):
            decode(payload)


def test_endless_nesting_is_broken() -> None:
    with pytest.raises(BROKEN):
        payloads.decode_result(b"\x81\xa1x" + b"\x91" * 100_000)


def test_text_must_be_utf_8() -> None:
    payload = pack({"JobId": 1, "Task": 2, "Success": True, "Status": "done"}).replace(b"done", b"\xff\xff\xff\xff")
    with pytest.raises(BROKEN):
        payloads.decode_result(payload)
