"""W8: queues that are durable in PostgreSQL, all on one server, and what gandy costs there as it grows, and idle."""

import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import psycopg

import gandy
from bench.contract import Contestant, Done, Kind, Place, Table, Work
from bench.peers.gandy_postgres import crew, submit_all
from bench.processes import cpu_seconds, list_tree, own_cpu_seconds
from bench.queues import ALONE, DURABLE, get_server, split

FEW_DONE: Final = 10_000
MANY_DONE: Final = int(os.environ.get("GANDY_BENCH_DONE", "200000"))  # a million takes a minute more
HELD_SECONDS: Final = float(os.environ.get("GANDY_BENCH_HELD", "0"))  # for which a transaction is left open
FILL: Final = 20_000  # tasks at a time that fill a store
SLOWEST: Final = 1_000  # tasks per second, for how long filling a store may take
PACE: Final = 5_000  # tasks per second for each foreman: two cores have room for two
SETTLE: Final = 3  # seconds, until a crew that had work is idle
HELD_COUNT: Final = 40_000  # tasks in a turn beside a transaction: about two seconds
PAIR: Final = 4.0  # seconds for two such turns, at the most; a slower machine holds the transaction for longer

make_table = partial(Table, unit="tasks", reference="gandy", server="postgres")

TABLES = (
    make_table(
        "durable",
        "W8: durable queues on PostgreSQL",
        count=5_000,
        note="No-op tasks, two workers, one server for all. Each task is submitted on its own. CPU is told for each "
        f"kind of process; `alone` is the median of {ALONE} tasks one at a time, until the client knows that each is "
        "done.",
    ),
    make_table(
        "durable_batches",
        "W8: durable queues on PostgreSQL, in batches",
        count=10_000,
        note="The same, submitted in batches; workers take and finish up to 50 tasks together. gandy's chunk is one "
        "task with 50 calls; its row without chunks keeps a record of each call, as all peers do.",
    ),
    make_table(
        "durable_foremen",
        "W8: two foremen, each with the same load",
        count=5_000,
        reference="one foreman",
        note=f"Each foreman has a client that submits {PACE:,} tasks per second, which two cores can bear; 2 workers "
        "with one slot each. CPU is for each task of the crew: what the busiest process needs is the limit where there "
        "are cores enough.",
    ),
    make_table(
        "durable_growth",
        "W8: functions, after so many tasks",
        count=10_000,
        reference=f"{FEW_DONE:,} done",
        repeats=7,
        patience=MANY_DONE / SLOWEST,
        note="GANDY_BENCH_DONE says how many.",
    ),
    make_table(
        "durable_held",
        "W8: beside a transaction that is left open",
        count=HELD_COUNT,
        reference="nothing held",
        repeats=max(7, round(HELD_SECONDS / PAIR)),
        note="One crew works beside a transaction that stays open over all turns, and one without, in turn. "
        "GANDY_BENCH_HELD says for how many seconds, if seven turns are not enough. Rows "
        "that are dead, and the size of all tables and indexes for each row, after a VACUUM.",
    ),
    make_table(
        "durable_idle",
        "W8: nothing to do on PostgreSQL",
        unit="seconds",
        count=30,
        reference="gandy, 3 foremen, 2 workers",
        kind=Kind.TIMES,
        repeats=1,
        note="CPU per second of foremen and workers: 10,000 would be 1 % of a core. PostgreSQL's is told beside it.",
    ),
)


# Two foremen


@contextmanager
def with_foremen(place: Place, foremen: int) -> Iterator[Work]:
    """Each with a client in a process of its own. A worker takes the tasks of all foremen."""
    with crew(place, foremen, workers=2, slots=1) as here, ExitStack() as held:
        clients = [held.enter_context(submitter(address)) for address in here.addresses]
        processes = {**here.processes, "client": [client.pid for client in clients]}
        yield lambda count: observe(place, processes, count * foremen, partial(submit_by, clients, count))


@contextmanager
def submitter(address: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "bench.submitter", address, str(PACE))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.terminate()


def submit_by(clients: Sequence[subprocess.Popen[bytes]], count: int) -> None:
    for client in clients:
        assert client.stdin is not None
        client.stdin.write(b"%d\n" % count)
        client.stdin.flush()
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == b"done\n"


def observe(place: Place, processes: Mapping[str, Sequence[int]], count: int, run: Callable[[], object]) -> Done:
    """Wall time, and CPU for each task: of each kind of process, and of the busiest single one."""
    kinds = {kind: [pid for root in roots for pid in list_tree(root)] for kind, roots in processes.items()}
    kinds["postgres"] = list_tree(get_server(place).process)
    before = {pid: own_cpu_seconds(pid) for pids in kinds.values() for pid in pids}
    begin = time.perf_counter()
    run()
    seconds = time.perf_counter() - begin
    used = {pid: (own_cpu_seconds(pid) - cpu) / count * 1e6 for pid, cpu in before.items()}
    figures = {f"{kind}_us": sum(used[pid] for pid in pids) for kind, pids in kinds.items()}
    figures |= {"busiest_foreman_us": max(used[pid] for pid in kinds["foreman"]), "busiest_us": max(used.values())}
    return Done(count, seconds, figures, sum(used.values()) * count / 1e6)


# How much is in the store


@contextmanager
def after_many(place: Place, tasks: int) -> Iterator[Work]:
    """Function tasks, each submitted on its own, in a store with this many finished tasks."""
    with crew(place) as here, gandy.Executor(here.addresses[0]) as executor:
        for numbers in split(tasks, FILL):
            assert sum(executor.map(operator.neg, numbers)) <= 0
        yield lambda count: observe(place, here.processes, count, partial(submit_all, [executor], count))


# A transaction that is left open


@contextmanager
def beside_transaction(place: Place, is_held: bool) -> Iterator[Work]:
    """The transaction is open for as long as the contestant stays, over all its turns."""
    url = get_server(place).url
    with crew(place) as here, gandy.Executor(here.addresses[0]) as executor, ExitStack() as held:
        if is_held:
            held.enter_context(transaction(url))

        def work(count: int) -> Done:
            begin = time.perf_counter()
            submit_all([executor], count)
            return Done(count, time.perf_counter() - begin, look_for_bloat(url))

        yield work


@contextmanager
def transaction(url: str) -> Iterator[None]:
    """A transaction that has written and read, and does nothing more."""
    with psycopg.connect(url) as link:
        link.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        link.execute("SELECT txid_current(), count(*) FROM pg_class")
        yield


def look_for_bloat(url: str) -> dict[str, float]:
    """What VACUUM cannot remove, and what tables and indexes take."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("VACUUM")
        ((dead, rows, size),) = link.execute(
            "SELECT sum(n_dead_tup), sum(n_live_tup), sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
        )
    return {"dead_rows": float(dead), "bytes_per_row": float(size / max(rows, 1))}


# Nothing to do


@contextmanager
def idle_crew(place: Place) -> Iterator[Work]:
    server = get_server(place)
    with psycopg.connect(server.url, autocommit=True) as link:  # for connections that are made from now on
        link.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET log_statement = ''all''', current_database()); END $$"
        )
    with crew(place, foremen=3, workers=2) as here, gandy.Executor(here.addresses[0]) as executor:
        submit_all([executor], 100)
        time.sleep(SETTLE)

        def work(seconds: int) -> Done:
            processes = [*here.foremen, *(pid for root in here.workers for pid in list_tree(root))]
            statements, postgres = count_statements(place), cpu_seconds(server.process)
            before = sum(map(own_cpu_seconds, processes))
            time.sleep(seconds)
            used = (sum(map(own_cpu_seconds, processes)) - before) / seconds
            figures = {
                "statements_per_second": (count_statements(place) - statements) / seconds,
                "postgres_us": (cpu_seconds(server.process) - postgres) / seconds * 1e6,
            }
            return Done(seconds, seconds, figures, used * seconds, [used])

        yield work


def count_statements(place: Place) -> int:
    log = get_server(place).log.read_bytes()
    return log.count(b"LOG:  statement: ") + log.count(b"LOG:  execute ")


make: Callable[..., Any] = partial(Contestant, packages=("gandy",), durability=DURABLE)

CONTESTANTS = (
    *(
        make("durable_foremen", name, partial(with_foremen, foremen=count), stays=False)
        for name, count in (("one foreman", 1), ("two foremen", 2))
    ),
    *(
        make("durable_growth", f"{tasks:,} done", partial(after_many, tasks=tasks), warm_count=10_000)
        for tasks in (FEW_DONE, MANY_DONE)
    ),
    make("durable_held", "nothing held", partial(beside_transaction, is_held=False), warm_count=1),
    make("durable_held", "a transaction held", partial(beside_transaction, is_held=True), warm_count=1),
    make("durable_idle", "gandy, 3 foremen, 2 workers", idle_crew, warm_count=1),
)
