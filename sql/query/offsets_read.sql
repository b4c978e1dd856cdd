-- $1 group $2 topic $3 partitions
SELECT partition, generation, next_offset
FROM partition_offsets
WHERE group_id = $1 AND topic = $2 AND partition = ANY ($3::int4[]);
