"""Both sides of the first generation after the greeting, with what they send and receive."""

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.wire import V1Message
from gandy.doors.v1.worker import V1WorkerSide
from gandy.talk.events import (
    ForemanEvent,
    Greeted,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.wire.messages import Extension, Job, Ok, Task


def said(side: V1WorkerSide | V1ForemanSide) -> list[V1Message]:
    decoder = v1.V1Decoder()
    decoder.receive_data(side.data_to_send())
    messages = []
    while (message := decoder.next_message()) is not None:
        messages.append(message)
    return messages


def worker_hears(side: V1WorkerSide, *messages: V1Message) -> list[WorkerEvent]:
    side.receive_data(b"".join(map(v1.encode, messages)))
    events = []
    while (event := side.next_event()) is not None:
        events.append(event)
    return events


def foreman_hears(side: V1ForemanSide, *messages: V1Message) -> list[ForemanEvent]:
    side.receive_data(b"".join(map(v1.encode, messages)))
    events = []
    while (event := side.next_event()) is not None:
        events.append(event)
    return events


def a_worker(slots: int = 2, tasks: tuple[Task, ...] = ()) -> V1WorkerSide:
    worker = V1WorkerSide(slots)
    worker.connect()
    assert worker_hears(worker, Ok(0)) == []
    assert said(worker) == [Ok(slots)]
    assert worker_hears(worker, Ok(slots)) == [Welcomed(Extension.NONE)]
    assert worker_hears(worker, *(Job((task,)) for task in tasks)) == [Start((task,)) for task in tasks]
    return worker


def a_foreman(nproc: int = 2) -> V1ForemanSide:
    foreman = V1ForemanSide()
    assert (said(foreman), foreman.free) == ([Ok(0)], 0)
    assert foreman_hears(foreman, Ok(nproc)) == [Greeted(nproc, (), Extension.NONE)]
    assert said(foreman) == [Ok(nproc)]
    return foreman
