-- schema_1: the tables of the first version. No row is updated or deleted for a task or a commit: all of that is appended,
-- to tables in parts, and a part that is no longer needed is dropped whole.

-- Numbers of jobs, as people see them.
CREATE SEQUENCE {schema}.job_numbers;

-- The lower part of each job's key. A key is never given again, even if the number of a job is.
CREATE SEQUENCE {schema}.serials;

-- The foremen of the crew. A foreman renews the leases of all its shards by its row: the only row that is updated again
-- and again.
CREATE TABLE {schema}.foremen (
    id text PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    machine text NOT NULL,
    places text[] NOT NULL,
    is_leaving boolean NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Shards and their owners. Commits lock the row of their shard; it changes only with the owner, and when the answer to a
-- commit was lost: a statement of an earlier generation, which may still be on its way, writes nothing. A retired shard keeps
-- its row, so that its epochs go on if its number is given again.
CREATE TABLE {schema}.shards (
    shard integer PRIMARY KEY CHECK (shard > 0),
    owner text NOT NULL,
    epoch bigint NOT NULL,
    generation bigint NOT NULL DEFAULT 0,
    taken timestamptz NOT NULL,
    is_retired boolean NOT NULL DEFAULT false
);

-- Which parts exist. New rows go to the last one of each family.
CREATE TABLE {schema}.parts (
    family text NOT NULL,
    part integer NOT NULL,
    made timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (family, part)
);

-- Jobs as they were submitted. The high bits of the key are the part that has everything else of the job.
CREATE TABLE {schema}.jobs (
    job bigint PRIMARY KEY,
    key bigint NOT NULL,
    submission bigint NOT NULL,
    submitted double precision NOT NULL,
    shard integer NOT NULL,
    spec bytea NOT NULL
);
CREATE UNIQUE INDEX jobs_key ON {schema}.jobs (key);
CREATE UNIQUE INDEX jobs_submission ON {schema}.jobs (submission) WHERE submission <> 0;
CREATE INDEX jobs_shard ON {schema}.jobs (shard, job, key);

-- Jobs that were final once, and those of them that were not final later.
CREATE TABLE {schema}.done (key bigint PRIMARY KEY);
CREATE TABLE {schema}.reopened (key bigint PRIMARY KEY);

-- Jobs that were forgotten, and of which rows are left in a part.
CREATE TABLE {schema}.forgotten (key bigint PRIMARY KEY);

-- Keys under which lines were sent before their job, and the shard that waits for it.
CREATE TABLE {schema}.uploads (shard integer NOT NULL, key bigint NOT NULL);

-- Jobs as they are: the last row of a job counts. `fresh` is the state of tasks that have no row elsewhere.
CREATE TABLE {schema}.changes (
    key bigint NOT NULL,
    changed double precision NOT NULL,
    number integer NOT NULL,
    tasks integer NOT NULL,
    waiting integer NOT NULL,
    running integer NOT NULL,
    finished integer NOT NULL,
    failed integer NOT NULL,
    cancelled integer NOT NULL,
    assigned integer NOT NULL,
    state smallint NOT NULL,
    fresh smallint NOT NULL,
    held boolean NOT NULL,
    is_open boolean NOT NULL,
    PRIMARY KEY (key, number)
) PARTITION BY RANGE (key);

-- Which worker got an attempt at each task of a run, and when.
CREATE TABLE {schema}.claims (
    key bigint NOT NULL,
    at double precision NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    attempt integer NOT NULL,
    state smallint NOT NULL,
    worker bytea NOT NULL,
    PRIMARY KEY (key, last, attempt)
) PARTITION BY RANGE (key);

-- Attempts that their worker has begun.
CREATE TABLE {schema}.begins (
    key bigint NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    attempt integer NOT NULL,
    PRIMARY KEY (key, last, attempt)
) PARTITION BY RANGE (key);

-- Step 0 is the end of an attempt; further steps are what users did to the task then. Attempt 0: it never started.
CREATE TABLE {schema}.ends (
    key bigint NOT NULL,
    at double precision NOT NULL,
    due double precision,
    task integer NOT NULL,
    attempt integer NOT NULL,
    failures integer,
    crashes integer,
    step smallint NOT NULL,
    state smallint NOT NULL,
    ending bytea,
    PRIMARY KEY (key, task, attempt, step)
) PARTITION BY RANGE (key);

-- Tasks that did not simply finish at the first attempt.
CREATE INDEX ends_other ON {schema}.ends (key, task)
WHERE NOT (attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL);

-- The lines or arguments of tasks, many to a row: see gandy.store.sqlite_lines.
CREATE TABLE {schema}.lines (
    key bigint NOT NULL,
    first integer NOT NULL,
    packed bytea NOT NULL,
    PRIMARY KEY (key, first)
) PARTITION BY RANGE (key);
ALTER TABLE {schema}.lines ALTER packed SET STORAGE EXTERNAL;

-- What functions returned. `drops` is the last row of that table when the result came.
CREATE TABLE {schema}.results (
    key bigint NOT NULL,
    at double precision NOT NULL,
    task integer NOT NULL,
    attempt integer NOT NULL,
    part integer NOT NULL,
    drops integer NOT NULL,
    value bytea NOT NULL
) PARTITION BY LIST (part);
ALTER TABLE {schema}.results ALTER value SET STORAGE EXTERNAL;
CREATE INDEX results_task ON {schema}.results (key, task);

-- Results that came before a row here, and ended before this time, are no longer kept.
CREATE TABLE {schema}.drops (number integer PRIMARY KEY, before double precision NOT NULL);

-- Commits, by which a foreman that lost an answer finds out what became of its commit.
CREATE TABLE {schema}.commits (
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    shard integer NOT NULL,
    part integer NOT NULL
) PARTITION BY LIST (part);

-- The keyring of the crew: the last version counts.
CREATE TABLE {schema}.ring (version bigint PRIMARY KEY, content bytea NOT NULL);

-- The audit of the crew, a line of JSON in each row.
CREATE TABLE {schema}.audit (
    at timestamptz NOT NULL DEFAULT now(),
    part integer NOT NULL,
    line text NOT NULL
) PARTITION BY LIST (part);

-- Large arguments of function tasks, and their pieces.
CREATE TABLE {schema}.arguments (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    is_whole boolean NOT NULL,
    size bigint NOT NULL,
    used timestamptz NOT NULL,
    UNIQUE (name, is_whole)
);
CREATE TABLE {schema}.pieces (
    id bigint NOT NULL,
    first bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, first)
);
ALTER TABLE {schema}.pieces ALTER data SET STORAGE EXTERNAL;

-- The version of these tables.
CREATE TABLE {schema}.version (number integer NOT NULL)
