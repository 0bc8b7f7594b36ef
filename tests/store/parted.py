"""A store in PostgreSQL with its parts, for tests that look into its tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from tests.postgres import Postgres
from tests.postgres_stores import ShardStore, make_schema, shared_postgres
from tests.store.builders import Blocking, blocking

from gandy.store.postgres.schema import FAMILIES

# Places in a table that a row has left, by an update or by being deleted. Insert-only tables have none.
GAPS = """
SELECT coalesce(sum(highest - count), 0)::int FROM (
    SELECT max((ctid::text::point)[1]) AS highest, count(*) FROM {schema}.{table} GROUP BY (ctid::text::point)[0]
) AS pages
"""


class Parted:
    """A store, and its parts."""

    def __init__(self, face: Blocking, store: ShardStore, server: Postgres, schema: str) -> None:
        self.face, self.store, self.server, self.schema = face, store, server, schema

    def keep(self) -> None:
        self.face.runner.run(self.store.crew.parts.keep())

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connect() as db:
            cursor = db.execute(statement.replace("{schema}", self.schema))  # type: ignore[arg-type,unused-ignore]
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.url().partition("&schema")[0], autocommit=True)

    def age(self) -> None:
        """As if all parts had been made a month ago, each a day after the last."""
        self.query("UPDATE {schema}.parts SET made = now() - interval '30 days' + part * interval '1 day'")

    def list_parts(self, family: str) -> list[int]:
        """Those of which all tables exist."""
        noted = [
            part for (part,) in self.query(f"SELECT part FROM {{schema}}.parts WHERE family = '{family}' ORDER BY 1")
        ]
        for table in FAMILIES[family]:
            found = self.query(
                f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{{schema}}.{table}'::regclass"
            )
            assert sorted(name for (name,) in found) == sorted(f"{self.schema}.{table}_{part}" for part in noted)
        return noted


@contextmanager
def open_parted() -> Iterator[Parted]:
    server, schema = shared_postgres(), make_schema()
    store: Any = ShardStore(server.url(schema))
    with blocking(store) as face:
        yield Parted(face, store, server, schema)
