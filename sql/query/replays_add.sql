-- Remembers what was put back, once it is acknowledged.
-- $1 topics $2 partitions $3 offsets $4 timestamps
INSERT INTO replays (origin_topic, origin_partition, origin_offset, origin_timestamp_ms)
SELECT * FROM unnest($1::text[], $2::int4[], $3::int8[], $4::int8[])
ON CONFLICT DO NOTHING;
