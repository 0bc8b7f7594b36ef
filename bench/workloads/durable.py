"""W8: queues that are durable in PostgreSQL, all on one server, and what gandy costs there as it grows, and idle."""

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
from bench.peers.gandy_postgres import Crew, crew, foreman, submit_all, wait_for_workers
from bench.processes import cpu_seconds, list_tree, own_cpu_seconds, running
from bench.queues import ALONE, DURABLE, get_server

IS_LONG: Final = (
    "GANDY_BENCH_LONG" in os.environ
)  # minutes more, for a million tasks, and a transaction for ten minutes
FEW_DONE: Final = 10_000
MANY_DONE: Final = 1_000_000 if IS_LONG else 200_000
FILL: Final = 100_000  # tasks of each array that fills a store
CROWD: Final = 10  # workers that end every task at once
CLIENTS: Final = 2
HELD_SECONDS: Final = 600 if IS_LONG else 0
SETTLE: Final = 3  # seconds, until a crew that had work is idle

make_table = partial(Table, unit="tasks", reference="gandy", server="postgres")

TABLES = (
    make_table(
        "durable",
        "W8: durable queues on PostgreSQL",
        count=5_000,
        note="No-op tasks, two workers, one server for all. Each task is submitted on its own. CPU is told for each "
        f"kind of process; `alone` is the median of {ALONE} tasks one at a time, until the client knows of its end.",
    ),
    make_table(
        "durable_batches",
        "W8: durable queues on PostgreSQL, in batches",
        count=10_000,
        note="The same, submitted in batches; workers take and finish up to 50 tasks together.",
    ),
    make_table(
        "durable_foremen",
        "W8: two foremen",
        count=10_000,
        reference="one foreman",
        note=f"{CLIENTS} clients and 2 workers with one slot each. The busiest process is the limit if there are cores "
        "enough; on two cores, all processes together are.",
    ),
    make_table(
        "durable_growth",
        "W8: functions, after so many tasks",
        count=5_000,
        reference=f"{FEW_DONE:,} done",
        repeats=5,
        note="Workers end every task at once. CPU per task is the foreman's and PostgreSQL's alone.",
    ),
    make_table(
        "durable_held",
        "W8: beside a transaction that is left open",
        count=10_000,
        reference="nothing held",
        repeats=5,
        note="Rows that are dead, and the size of all tables and indexes for each task, after a VACUUM.",
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
    """Clients in processes of their own, so that no other process is the limit before the foreman is."""
    with crew(place, foremen, workers=2, slots=1) as here, ExitStack() as held:
        addresses = [here.addresses[number % foremen] for number in range(CLIENTS)]
        clients = [held.enter_context(submitter(address)) for address in addresses]
        processes = {**here.processes, "client": [client.pid for client in clients]}
        yield lambda count: observe(place, processes, count, partial(submit_by, clients, count))


@contextmanager
def submitter(address: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "bench.submitter", address)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.terminate()


def submit_by(clients: Sequence[subprocess.Popen[bytes]], count: int) -> None:
    for client in clients:
        assert client.stdin is not None
        client.stdin.write(b"%d\n" % (count // len(clients)))
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
    with crowd(place) as here, gandy.Executor(here.addresses[0]) as executor:
        with gandy.Client(here.addresses[0]) as client:
            for begin in range(0, tasks, FILL):
                client.submit("true", tasks=min(FILL, tasks - begin)).wait()
        yield lambda count: observe(place, here.processes, count, partial(submit_all, [executor], count))


@contextmanager
def crowd(place: Place) -> Iterator[Crew]:
    """A foreman, and workers in one process that end every task at once."""
    os.environ["GANDY_HOME"] = str(place.folder / "client")
    home = place.folder / "foreman"
    address = f"unix:{home / 'foreman.sock'}"
    command = (sys.executable, "-m", "bench.task_crowd", address, str(CROWD))
    with foreman(home, get_server(place).url) as pid, running(*command):
        wait_for_workers(address, CROWD)
        yield Crew([address], [pid], [])


# A transaction that is left open


@contextmanager
def beside_transaction(place: Place, is_held: bool) -> Iterator[Work]:
    url = get_server(place).url
    with crew(place) as here, gandy.Executor(here.addresses[0]) as executor:

        def work(count: int) -> Done:
            with ExitStack() as held:
                if is_held:
                    held.enter_context(transaction(url))
                begin, done = time.perf_counter(), 0
                while done == 0 or (count > 1 and time.perf_counter() - begin < HELD_SECONDS):
                    submit_all([executor], count)
                    done += count
                seconds = time.perf_counter() - begin
            return Done(done, seconds, look_for_bloat(url))

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
        make("durable_growth", f"{tasks:,} done", partial(after_many, tasks=tasks), warm_count=5_000)
        for tasks in (FEW_DONE, MANY_DONE)
    ),
    make("durable_held", "nothing held", partial(beside_transaction, is_held=False), warm_count=1),
    make("durable_held", "a transaction held", partial(beside_transaction, is_held=True), warm_count=1),
    make("durable_idle", "gandy, 3 foremen, 2 workers", idle_crew, warm_count=1),
)
