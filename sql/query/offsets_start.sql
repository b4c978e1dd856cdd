-- The offset a partition starts at, where it is still ours.
-- $1 group $2 topic $3 partitions $4 generations $5 offsets
WITH ours AS MATERIALIZED (
    SELECT o.partition, s.next_offset
    FROM partition_offsets o JOIN unnest($3::int4[], $4::int8[], $5::int8[]) AS s (partition, generation, next_offset)
      ON o.group_id = $1 AND o.topic = $2 AND o.partition = s.partition
    WHERE o.generation = s.generation
    ORDER BY o.topic, o.partition
    FOR UPDATE OF o
)
UPDATE partition_offsets o SET next_offset = ours.next_offset
FROM ours
WHERE o.group_id = $1 AND o.topic = $2 AND o.partition = ours.partition;
