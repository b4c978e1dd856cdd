-- Offsets and counts alone: all parts or none.
-- $1 group $2 topic $3 parts · $4-$11 one row a part
WITH parts AS MATERIALIZED (
    SELECT * FROM unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
                         $11::int8[])
        AS p (partition, generation, start, stop, records, tombstones, dead_letters, events)
), held AS MATERIALIZED (
    SELECT o.partition
    FROM partition_offsets o JOIN parts p ON o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    WHERE o.next_offset = p.start AND o.generation = p.generation
    ORDER BY o.topic, o.partition
    FOR UPDATE OF o
), ok AS MATERIALIZED (
    SELECT 1 FROM (SELECT count(*) AS held FROM held) AS h WHERE h.held = $3::int4
)
UPDATE partition_offsets o
SET next_offset = p.stop, records = o.records + p.records, tombstones = o.tombstones + p.tombstones,
    dead_letters = o.dead_letters + p.dead_letters, events = o.events + p.events
FROM ok CROSS JOIN parts p
WHERE o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition;
