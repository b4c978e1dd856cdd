-- Takes partitions: fences out whoever had them, and says where the table stands. Waits for a zombie's statement.
-- $1 group $2 topic $3 owner $4 partitions
INSERT INTO partition_offsets AS o (group_id, topic, partition, owner, generation)
SELECT $1, $2, p.partition, $3, 1
FROM unnest($4::int4[]) AS p (partition)
ORDER BY p.partition
ON CONFLICT (group_id, topic, partition) DO UPDATE SET owner = excluded.owner, generation = o.generation + 1
RETURNING o.partition, o.generation, o.next_offset;
