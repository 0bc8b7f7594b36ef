"""What only a store in PostgreSQL does: fences, lost answers, servers that die, and parts of tables."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from tests.postgres import Postgres, postgres
from tests.postgres_disk import a_small_server
from tests.postgres_proxy import Loss, Proxy
from tests.postgres_stores import ShardStore, make_crew, make_foreman, make_schema, shared_postgres
from tests.store.builders import (
    Blocking,
    a_spec,
    added,
    attempt_key,
    began,
    blocking,
    claimed,
    ended,
    find_recovered,
    forgotten,
    job_set,
    opened,
    tasks_added,
    tasks_set,
)
from tests.waiting import until_async

from gandy.core.model import Counts, JobState, PythonSpec, TaskState
from gandy.core.records import JobAdded, LinesAdded, LinesDropped, Record, ResultsDropped
from gandy.errors import OutcomeUnknown, ShardLost, StoreError, StoreFull
from gandy.ids import JobId, TaskNumber
from gandy.store import make_crew_store, make_store
from gandy.store.postgres.connections import WAKING_PERIOD, DatabaseConnections
from gandy.store.postgres.shard import COLUMNS
from gandy.store.postgres.sql import Statements
from gandy.store.postgres.url import parse_url

FINISHED, FAILED = TaskState.FINISHED, TaskState.FAILED
COMMIT = b"commit_number"  # in the text of each commit


def query(server: Postgres, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.url().partition("&schema")[0], autocommit=True) as db:
        cursor = db.execute(statement)
        return cursor.fetchall() if cursor.description else []


def count_rows(server: Postgres, schema: str) -> dict[str, int]:
    """How many rows each table has."""
    tables = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = "
    found = query(server, f"{tables} '{schema}'::regnamespace")
    return {name: query(server, f"SELECT count(*) FROM {schema}.{name}")[0][0] for (name,) in found}


@contextmanager
def open_store(url: str) -> Iterator[tuple[Blocking, ShardStore]]:
    store: Any = ShardStore(url)
    with blocking(store) as face:
        yield face, store


# Fences


def test_an_owner_that_lost_its_shard_changes_nothing() -> None:
    server, schema = shared_postgres(), make_schema()
    with open_store(server.url(schema)) as (old, store):
        old.commit(added(lines=("a", "b")), claimed(1), claimed(2))
        lease = old.runner.run(store.crew.seize("another", store.lease))
        assert lease is not None
        before = count_rows(server, schema)
        for batch in (
            [ended()],
            [added(2)],
            [claimed(2, 2)],
            [tasks_set(TaskState.CANCELLED)],
            [job_set(JobState.FAILED)],
            [forgotten()],
            [forgotten(), added()],
            [LinesAdded(1, TaskNumber(1), ("x",))],
            [ResultsDropped(99.0)],
        ):
            with pytest.raises(ShardLost):
                old.commit(*batch)
        with pytest.raises(ShardLost):
            old.prepare()
        assert count_rows(server, schema) == before
        new = store.crew.open_shard(lease)
        (job,) = old.runner.run(new.open()).jobs
        assert job.row.counts == Counts(assigned=2)


def test_a_statement_that_was_given_up_writes_nothing_however_late_it_comes() -> None:
    """When the answer to a commit was lost and it is not there, the statement may still be on its way."""
    server, schema = shared_postgres(), make_schema()
    with open_store(server.url(schema)) as (face, store):
        late = store.crew.open_shard(store.lease)  # it knows what the sender of the late statement knew
        face.runner.run(late.open())
        shard = store.crew.open_shard(store.lease)
        face.runner.run(shard.open())
        assert not face.runner.run(shard._is_done())
        before = count_rows(server, schema)
        with pytest.raises(ShardLost):
            face.runner.run(late.commit([added()]))
        assert count_rows(server, schema) == before
        assert face.runner.run(shard.commit([added()])) == frozenset()


def test_a_store_that_is_opened_with_an_old_lease_is_refused() -> None:
    with open_store(shared_postgres().url(make_schema())) as (face, store):
        old = store.lease
        assert face.runner.run(store.crew.hand_over(old, "another"))
        with pytest.raises(ShardLost):
            face.runner.run(store.crew.open_shard(old).open())


def test_a_seizure_waits_for_the_commit_that_is_under_way() -> None:
    """A commit holds its shard's row until it is done, so the next owner sees all of it or none."""
    server, schema = shared_postgres(), make_schema()
    lock_waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'gandy'"

    async def test(store: ShardStore) -> None:
        with psycopg.connect(server.url().partition("&schema")[0]) as db:
            db.execute(f"SELECT FROM {schema}.shards WHERE shard = {store.lease.shard} FOR SHARE")  # as a commit does
            seizure = asyncio.create_task(store.crew.seize("another", store.lease))
            await until_async(lambda: bool(query(server, lock_waits)))
            assert not seizure.done()
        assert await seizure is not None

    with open_store(server.url(schema)) as (face, store):
        face.runner.run(test(store))


# Lost answers


@pytest.mark.parametrize("how", Loss)
def test_a_commit_whose_answer_was_lost_is_done_exactly_once(how: Loss) -> None:
    server, schema = shared_postgres(), make_schema()
    with Proxy(server) as proxy, open_store(proxy.url(schema)) as (face, _):
        face.commit(added(), claimed(1))
        proxy.lose(COMMIT, how)
        assert face.commit(claimed(2), ended(FAILED, 1, failures=1), claimed(1, attempt=5)) == {attempt_key(1, 5)}
        assert proxy.lost == 1
        face.commit(ended(task=2))
        assert face.get_counts() == Counts(waiting=1, failed=1, finished=1)
        rows = count_rows(server, schema)
        assert (rows["claims"], rows["ends"], rows["commits"]) == (2, 2, 3)


@pytest.mark.parametrize("how", Loss)
def test_an_outcome_stays_unknown_until_the_server_is_back(how: Loss) -> None:
    with postgres(fsync=False) as server, Proxy(server) as proxy, open_store(proxy.url("gandy")) as (face, _):
        face.commit(added(), claimed(1))
        records = ended(), claimed(2), claimed(2)
        proxy.lose(COMMIT, how)
        with_server_gone(server, face, records)
        assert face.get_counts() == Counts(waiting=1, assigned=1, finished=1)
        assert count_rows(server, "gandy")["ends"] == 1


def with_server_gone(server: Postgres, face: Blocking, records: tuple[Any, ...]) -> None:
    """Lose a commit, find no server to ask, and commit the same again when it is back."""
    store: Any = face.store
    connect = store.crew._connections._connect

    async def refuse() -> None:
        raise StoreError("there is no connection", retryable=True)

    # The proxy would connect again at once, and the store would find out: the server must be gone just then.
    store.crew._connections._connect = refuse
    with pytest.raises(OutcomeUnknown) as caught:
        face.commit(*records)
    assert caught.value.retryable
    with pytest.raises(StoreError):
        face.prepare()
    server.kill()
    store.crew._connections._connect = connect
    with pytest.raises(OutcomeUnknown):
        face.commit(*records)
    server.restart()
    assert face.commit(*records) == {attempt_key(2)}


def test_an_unknown_outcome_that_was_none_is_taken_back() -> None:
    with postgres(fsync=False) as server, Proxy(server) as proxy, open_store(proxy.url("gandy")) as (face, _):
        face.commit(added(), claimed(1))
        proxy.lose(COMMIT, Loss.STATEMENT)
        with_server_gone(server, face, (tasks_set(TaskState.CANCELLED, 2), claimed(2), claimed(3), claimed(2)))
        assert face.get_counts() == Counts(cancelled=1, assigned=2)


def test_a_shard_that_was_lost_together_with_an_answer_is_lost() -> None:
    server, schema = shared_postgres(), make_schema()
    with Proxy(server) as proxy, open_store(proxy.url(schema)) as (face, store):
        face.commit(added())
        proxy.lose(COMMIT, Loss.STATEMENT)
        assert face.runner.run(store.crew.hand_over(store.lease, "another"))
        with pytest.raises(ShardLost):
            face.commit(claimed())


# Servers that die, and poolers


def test_what_was_committed_is_there_after_the_server_was_killed() -> None:
    with postgres() as server, open_store(server.url()) as (face, _):
        face.commit(added(tasks=50))
        for task in range(1, 6):
            face.commit(claimed(task))
            server.kill()
            with pytest.raises(StoreError) as caught:
                face.commit(ended(task=task))
            assert caught.value.retryable
            server.restart()
            face.commit(ended(task=task))
            assert face.get_counts() == Counts(waiting=50 - task, finished=task)
        (job,) = face.reopen().jobs
        assert job.finished == ((1, 5),)


def test_a_store_recovers_when_all_its_connections_were_closed() -> None:
    server, schema = shared_postgres(), make_schema()
    with open_store(server.url(schema, application_name=schema)) as (face, _):
        face.commit(added())
        for _ in range(3):
            query(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{schema}'")
            assert face.get_counts().waiting == 3
        query(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{schema}'")
        face.commit(claimed())
        assert face.get_counts().assigned == 1


def test_every_transaction_may_run_in_another_session() -> None:
    """As behind PgBouncer in transaction mode."""
    with Proxy(shared_postgres(), sessions=3) as proxy, open_store(proxy.url(make_schema())) as (face, store):
        face.commit(added(lines=("a", "b", "c")), claimed(1), ended(FAILED, result=b"x"))
        face.commit(forgotten(), added(), claimed(2))
        face.commit(LinesAdded(1, TaskNumber(1), ("x",)), LinesDropped(1), tasks_set(TaskState.CANCELLED))
        assert face.get_counts() == Counts(cancelled=2, assigned=1)
        assert [row.task for row in face.list_tasks(states=[TaskState.ASSIGNED])] == [2]
        assert face.list_results()[0].task == 1
        name = "0123456789abcdef" * 2
        face.runner.run(store.crew.put_arguments(name, 0, b"abc", True))
        assert face.runner.run(store.crew.read_arguments(name, 1, 9)) == b"bc"
        face.runner.run(store.crew.parts.keep())
        assert find_recovered(face.reopen()) is not None
        assert proxy.transactions > 20


def test_a_foreman_has_three_connections_at_most() -> None:
    server, schema = shared_postgres(), make_schema()

    async def work() -> int:
        crew, me = make_crew(server.url(schema, application_name=schema)), make_foreman()
        await crew.open()
        shards = [crew.open_shard(await crew.take_new(me.id)) for _ in range(4)]
        for shard in shards:
            await shard.open()
        commits = [shard.commit([added(place * 10 + n) for n in range(5)]) for place, shard in enumerate(shards, 1)]
        reads = [shard.list_jobs(None, 10, None) for shard in shards * 5]
        await asyncio.gather(*commits, *reads, *(crew.beat(me, ()) for _ in range(5)))
        ((count,),) = query(server, f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}'")
        await crew.close()
        return int(count)

    assert 1 <= asyncio.run(work()) <= 3


# Schemas


def test_foremen_that_start_at_once_make_the_tables_once() -> None:
    server, schema = shared_postgres(), make_schema()

    async def start() -> None:
        crews = [make_crew(server.url(schema)) for _ in range(6)]
        await asyncio.gather(*(crew.open() for crew in crews))
        leases = await asyncio.gather(*(crew.take_new(f"f{place}") for place, crew in enumerate(crews)))
        assert sorted(lease.shard for lease in leases) == [1, 2, 3, 4, 5, 6]
        for crew in crews:
            await crew.close()

    asyncio.run(start())
    assert query(server, f"SELECT number FROM {schema}.version") == [(1,)]


def test_crews_in_other_schemas_know_nothing_of_each_other() -> None:
    server = shared_postgres()
    with open_store(server.url(make_schema())) as (one, _), open_store(server.url(make_schema())) as (two, _):
        one.commit(added(tasks=1))
        assert two.list_jobs() == []
        two.commit(added(tasks=2))
        assert one.get_counts() == Counts(waiting=1)


def test_tables_of_a_newer_gandy_are_refused() -> None:
    server, schema = shared_postgres(), make_schema()
    with open_store(server.url(schema)):
        pass
    query(server, f"UPDATE {schema}.version SET number = 99")
    with pytest.raises(StoreError, match="version 99 is of a newer gandy"), open_store(server.url(schema)):
        pass


def test_tables_that_cannot_be_made_are_not_made_half() -> None:
    server, schema = shared_postgres(), make_schema()
    query(server, f"CREATE SCHEMA {schema} CREATE TABLE {schema}.ring (a int)")  # in the way
    with pytest.raises(StoreError), open_store(server.url(schema)):
        pass
    assert set(count_rows(server, schema)) == {"ring"}


def test_a_database_that_is_not_in_utf8_is_refused() -> None:
    server = shared_postgres()
    name = make_schema()
    query(server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    url = server.url().replace("/postgres?", f"/{name}?")
    with pytest.raises(StoreError, match="encoding is LATIN1"), open_store(url):
        pass


@pytest.mark.parametrize("schema", ["", "A", "1a", "a-b", 'a"b', "pg_a", "x" * 49])
def test_a_bad_name_of_a_schema_is_refused(schema: str) -> None:
    with pytest.raises(StoreError, match="no name for a schema"):
        make_crew_store(f"postgresql://localhost/x?schema={schema}")


def test_other_urls_name_no_crew() -> None:
    assert make_crew_store("sqlite:jobs.db") is None
    with pytest.raises(StoreError):
        make_store("postgresql://u:secret@localhost/x")


@pytest.mark.parametrize("version", ["16"])
def test_an_older_server_does_the_same(version: str) -> None:
    with postgres(version, fsync=False) as server, open_store(server.url()) as (face, store):
        face.commit(added(lines=("a", "b", "c")), claimed(1), claimed(2), ended(result=b"x"), ended(FAILED, 2))
        face.commit(tasks_set(TaskState.WAITING), claimed(2, 2))
        assert [row.state for row in face.list_attempts(2)] == [FAILED, TaskState.ASSIGNED]
        face.runner.run(store.crew.parts.keep())
        (job,) = face.reopen().jobs
        assert (job.finished, job.row.counts) == (((1, 1),), Counts(waiting=1, assigned=1, finished=1))


# Standbys and secrets


def test_a_standby_is_not_taken_for_the_primary() -> None:
    with postgres(fsync=False) as server, open_store(server.url()) as (face, _):
        face.commit(added())
        (server.folder / "data" / "standby.signal").touch()
        server.restart()
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                face.commit(claimed())
            assert caught.value.retryable
            with pytest.raises(StoreError):
                face.prepare()
        (server.folder / "data" / "standby.signal").unlink()
        server.restart()
        face.commit(claimed())
        face.prepare()
        assert face.get_counts() == Counts(waiting=2, assigned=1)


def commit_for_ever(face: Blocking) -> None:
    while True:
        face.commit(tasks_set(TaskState.CANCELLED, 1))


def test_a_server_that_became_read_only_gets_no_new_work() -> None:
    with postgres(fsync=False) as server, open_store(server.url(target_session_attrs="any")) as (face, _):
        face.commit(added())
        query(server, "ALTER SYSTEM SET default_transaction_read_only = on")
        query(server, "SELECT pg_reload_conf()")
        with pytest.raises(StoreError, match="accepts no writes") as caught:
            commit_for_ever(face)  # until the session has read the new setting
        assert caught.value.retryable
        with pytest.raises(StoreError, match="accepts no writes"):
            face.prepare()


def test_a_full_disk_takes_no_new_work_even_if_a_row_still_fits() -> None:
    with a_small_server() as (server, disk), open_store(server.url()) as (face, _):
        face.commit(added(), claimed(1))
        sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'gandy' ORDER BY pid"
        before = query(server, sessions)
        disk.fill()
        face.commit(claimed(2))
        for _ in range(2):
            with pytest.raises(StoreFull, match="its disk is full"):
                face.prepare()
        assert face.get_counts() == Counts(waiting=1, assigned=2)
        disk.empty()
        face.prepare()
        assert query(server, sessions) == before, "on a full disk a server may refuse every new connection"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:very-secret@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=anna&password=very-secret",
        "postgresql://anna:very-secret%zz@127.0.0.1:1/x",
        "postgresql://anna:very-secret@127.0.0.1:notaport/x",
        "postgresql://127.0.0.1:1/x?password=very-secret&nonsense=1",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    crew = make_crew(url)
    with pytest.raises(StoreError) as caught:
        asyncio.run(crew.open())
    shown = f"{caught.value!r} {caught.value} {crew.url!r} {crew.url} {caught.value.__cause__}"
    assert "very-secret" not in shown
    assert "127.0.0.1" in shown


# What PostgreSQL reports


REPORTED = {
    "53100": (True, "disk is full"),
    "53200": (True, "memory"),
    "53300": (True, "too many connections"),
    "57P01": (True, "shutting down"),
    "57P03": (True, "starting"),
    "57014": (True, "cancelled"),
    "25006": (True, "accepts no writes"),
    "40001": (True, "another transaction"),
    "40P01": (True, "another transaction"),
    "55P03": (True, "lock"),
    "58030": (True, "disk"),
    "08006": (True, "connection broke"),
    "42501": (False, "grant"),
    "XX001": (False, "damaged"),
    "22003": (False, "raised by a test"),
}


@pytest.mark.parametrize("code", REPORTED)
def test_errors_of_the_server_are_explained(code: str) -> None:
    """A trigger raises the error in the middle of a commit, which then has changed nothing."""
    server, schema = shared_postgres(), make_schema()
    is_retryable, words = REPORTED[code]
    with open_store(server.url(schema)) as (face, _):
        face.commit(added())
        query(
            server,
            f"""CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'raised by a test' USING ERRCODE = '{code}'; END $$""",
        )
        query(
            server,
            f"""CREATE TRIGGER refuse BEFORE INSERT ON {schema}.claims
            FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()""",
        )
        with pytest.raises(StoreError) as caught:
            face.commit(claimed())
        if not code.startswith(("08", "57P")):  # for these, the store finds out first, and says that it broke
            assert words in str(caught.value)
        assert caught.value.retryable is is_retryable
        query(server, f"DROP TRIGGER refuse ON {schema}.claims")
        assert face.commit(claimed()) == frozenset()
        assert face.get_counts() == Counts(waiting=2, assigned=1)


# The driver


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_driver_is_imported_for_its_urls_only() -> None:
    assert run_python("import sys, gandy.store; print('psycopg' in sys.modules)") == "False"


def test_a_missing_driver_is_named() -> None:
    found = run_python("""
import sys
sys.modules["psycopg"] = None
from gandy.errors import StoreError
from gandy.store import make_crew_store
try:
    make_crew_store("postgresql://localhost/x")
except StoreError as error:
    print(error)
""")
    assert "pip install 'gandy[postgres]'" in found


def test_every_statement_has_a_name_and_a_sentence() -> None:
    folder = files("gandy.store.postgres") / "sql"
    for path in folder.iterdir():
        first = path.read_text().splitlines()[0]
        assert first.startswith(f"-- {path.name.removesuffix('.sql')}: "), path


def test_a_part_with_one_row_calls_no_function_and_one_with_more_calls_one() -> None:
    """Functions that return rows cost the server more than the rest of a small commit."""
    sql = Statements("gandy")
    for name, columns in COLUMNS.items():
        part = f"commit_{name}"
        several, single = sql.compose_commit((part,), ()), sql.compose_commit((part,), {part})
        assert several.count("unnest(") <= 1, name
        if len(columns) > 1:
            assert (several.count("unnest("), single.count("unnest("), single.count("[i]")) == (1, 0, 0), name


def test_rows_are_the_same_if_they_come_one_by_one_or_together() -> None:
    python = a_spec(0, has_lines=True, is_open=True, python=PythonSpec(shared=b"f"))
    waves: list[list[Record]] = [
        [added(1, key=7), added(2, lines=("a", "b", "c"), key=8), JobAdded(JobId(3), python, 1.0), opened(4)],
        [tasks_added(1, b"x", b"y", job=3), tasks_added(1, b"z", job=4)],
        [claimed(1), claimed(3), claimed(2, job=2), claimed(1, job=3), claimed(2, job=3)],
        [began(1), began(2, job=2)],
        [
            ended(state=TaskState.WAITING, failures=1, due=9.0),
            ended(task=3),
            ended(FAILED, 2, job=2, crashes=2),
            ended(job=3, result=b"one"),
            ended(task=2, job=3, result=b"two"),
        ],
        [tasks_set(TaskState.CANCELLED, 2), tasks_set(TaskState.WAITING, 2, job=2), job_set(JobState.PAUSED, 2)],
    ]
    found = []
    for groups in ([[record] for wave in waves for record in wave], waves):
        with open_store(shared_postgres().url(make_schema())) as (face, _):
            for group in groups:
                face.commit(*group)
            jobs = range(1, 5)
            found.append(
                [
                    face.list_jobs(),
                    [face.list_tasks(job) for job in jobs],
                    [face.list_attempts(task.task, job) for job in jobs for task in face.list_tasks(job)],
                    [face.read_lines(1, 9, job) for job in jobs],
                    face.list_results(3),
                    [face.get_submission(job) for job in jobs],
                    face.reopen(),
                ]
            )
    assert found[0] == found[1]


def test_a_foreman_sleeps_while_the_database_works() -> None:
    """It wakes up now and then, and does not ask all the time whether the answer is there."""

    async def count() -> tuple[int, float]:
        connections, loop, waits = (
            DatabaseConnections(parse_url(shared_postgres().url())),
            asyncio.get_running_loop(),
            0,
        )
        add_reader = loop.add_reader

        def counted(*args: Any) -> None:
            nonlocal waits
            waits += 1
            add_reader(*args)

        loop.add_reader = counted  # type: ignore[method-assign, assignment]
        connections.open()
        await connections.read(lambda db: db.execute("SELECT 1"))  # connected
        waits, begun = 0, loop.time()
        await connections.read(lambda db: db.execute("SELECT pg_sleep(0.5)"))
        await connections.close()
        return waits, loop.time() - begun

    waits, seconds = asyncio.run(count())
    assert waits <= 5 + 2 * seconds / WAKING_PERIOD
