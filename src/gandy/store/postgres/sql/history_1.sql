-- history_1: the tables of the history, which are none of the versions: an older gandy does all that it does without
-- them. Samples are kept in parts, by time, and a part that is too old is dropped whole.

-- Samples that are kept for two days. `base` is the number of the keyframe that a sample builds on.
CREATE TABLE {schema}.samples (
    number bigint NOT NULL,
    run bigint NOT NULL,
    base bigint NOT NULL,
    at double precision NOT NULL,
    shard integer NOT NULL,
    part integer NOT NULL,
    packed bytea NOT NULL
) PARTITION BY LIST (part);
CREATE INDEX samples_number ON {schema}.samples (shard, number);
CREATE INDEX samples_time ON {schema}.samples (shard, at);

-- One in five minutes, kept for a month.
CREATE TABLE {schema}.keyframes (
    number bigint NOT NULL,
    run bigint NOT NULL,
    base bigint NOT NULL,
    at double precision NOT NULL,
    shard integer NOT NULL,
    part integer NOT NULL,
    packed bytea NOT NULL
) PARTITION BY LIST (part);
CREATE INDEX keyframes_number ON {schema}.keyframes (shard, number);
CREATE INDEX keyframes_time ON {schema}.keyframes (shard, at);

-- One in an hour, kept for two years.
CREATE TABLE {schema}.hourly (
    number bigint NOT NULL,
    run bigint NOT NULL,
    base bigint NOT NULL,
    at double precision NOT NULL,
    shard integer NOT NULL,
    part integer NOT NULL,
    packed bytea NOT NULL
) PARTITION BY LIST (part);
CREATE INDEX hourly_number ON {schema}.hourly (shard, number);
CREATE INDEX hourly_time ON {schema}.hourly (shard, at)
