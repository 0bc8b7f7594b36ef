"""Hypothesis strategies for everything that can go over the job wire."""

from itertools import pairwise

from hypothesis import strategies as st
from msgspec import UNSET

from gandy.doors.v1.wire import V1Message
from gandy.ids import JobId, TaskNumber
from gandy.limits import LAST_INTEGER, MAX_ATTEMPT, MAX_SLOTS
from gandy.wire.messages import (
    About,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    JobDescription,
    Message,
    NewJob,
    Ok,
    Orders,
    Report,
    Reset,
    Status,
    Stop,
    Task,
    TaskPair,
    TaskResult,
    Update,
)
from gandy.wire.v2 import EXTENSION_TYPES, KNOWN_EXTENSIONS

u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFF_FFFF)
job_ids = st.integers(0, LAST_INTEGER).map(JobId)
task_numbers = st.integers(-(2**63), 2**63 - 1).map(TaskNumber)
counts = st.integers(-(2**63), 2**63 - 1)
counts_32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=40)
extensions = st.integers(0, int(KNOWN_EXTENSIONS)).map(Extension)

floats = st.floats(0, 1e12)
orders = st.builds(
    Orders,
    st.integers(1, MAX_ATTEMPT),
    texts | st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, texts, max_size=3),
    st.none() | floats,
    st.none() | texts,
)
reports = st.builds(
    Report,
    st.integers(1, MAX_ATTEMPT),
    st.integers(0, 9),
    st.none() | counts_32,
    note=texts,
    tail=st.binary(max_size=20),
)
abouts = st.builds(About, names, names, st.integers(0, MAX_SLOTS), st.lists(names, max_size=3).map(tuple))

descriptions = st.builds(JobDescription, job_ids, texts, counts, texts, texts, texts, st.sampled_from(Status))
tasks = st.builds(Task, task_numbers, descriptions, st.just(UNSET) | orders)
plain_tasks = st.builds(Task, task_numbers, descriptions)
task_lists = st.lists(tasks, max_size=4).map(tuple)
pairs = st.builds(TaskPair, job_ids, task_numbers)
new_jobs = st.none() | st.builds(NewJob, counts)
results = st.builds(TaskResult, job_ids, task_numbers, st.booleans(), texts, new_jobs, st.just(UNSET) | reports)

oks = st.builds(Ok, u16, u16, extensions)
hellos = st.builds(Hello, st.integers(0, MAX_SLOTS), task_lists, extensions, st.just(UNSET) | abouts)
jobs = st.builds(Job, task_lists)
updates = st.builds(Update, st.none() | results)
cancels = st.builds(Cancel, st.lists(pairs, max_size=4).map(tuple))
stops = st.builds(Stop, u32)
errors = st.builds(Error, st.integers(0, 0xFF), u32)
resets = st.builds(Reset, u32)
extended_types = st.sampled_from(sorted(number for types in EXTENSION_TYPES.values() for number in types))
extended = st.builds(Extended, extended_types, st.binary(max_size=40))

v2_messages: st.SearchStrategy[Message] = st.one_of(oks, hellos, jobs, updates, cancels, stops, errors, resets)
v2_numbered = st.tuples(u32, v2_messages)
v1_messages: st.SearchStrategy[V1Message] = st.one_of(
    st.builds(Ok, u32),
    st.builds(Job, tasks.map(lambda task: (task,))),
    st.builds(Update, results),
    stops,
    st.builds(Error, u32),
)


def cut_into_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places (taken modulo its length)."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]
