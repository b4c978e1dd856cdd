-- An operator's word: the offset, and a new generation with no owner, so that whoever holds the partition notices.
-- $1 group $2 topic $3 partition $4 next offset
INSERT INTO partition_offsets AS o (group_id, topic, partition, generation, next_offset)
VALUES ($1, $2, $3, 1, $4)
ON CONFLICT (group_id, topic, partition)
DO UPDATE SET owner = 0, generation = o.generation + 1, next_offset = excluded.next_offset;
