-- Dead letters that an operator put back (belfry-dispatcher --replay-dlq), so that none is put back twice. Told
-- apart as the dead letter topic tells them apart, and by the record's own time: a topic made anew begins at
-- offset 0 again. One small row a record put back; rows older than the dead letters' retention may be deleted.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

CREATE TABLE replays (
    origin_topic text COLLATE "C" NOT NULL,
    origin_partition int NOT NULL,
    origin_offset bigint NOT NULL,
    origin_timestamp_ms bigint NOT NULL, -- -1: the record had none
    replayed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (origin_topic, origin_partition, origin_offset, origin_timestamp_ms)
);

GRANT SELECT, INSERT ON replays TO belfry_dispatcher;
