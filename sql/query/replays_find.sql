-- Which of these were put back before: their places in the arrays, from 1.
-- $1 topics $2 partitions $3 offsets $4 timestamps
SELECT o.place::int4 AS place
FROM unnest($1::text[], $2::int4[], $3::int8[], $4::int8[])
     WITH ORDINALITY AS o (origin_topic, origin_partition, origin_offset, origin_timestamp_ms, place)
JOIN replays r USING (origin_topic, origin_partition, origin_offset, origin_timestamp_ms);
