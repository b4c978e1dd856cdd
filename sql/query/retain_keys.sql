-- One range of the heap of idempotency_keys, block by block: no index on claimed_at is needed, and a claim or a run
-- that meets one of these keys waits for one statement at most. $1 first block, $2 blocks, $3 how long a row is
-- kept, in milliseconds. One row: blocks there are, rows seen, rows removed, age of the oldest seen in
-- microseconds.
WITH seen AS MATERIALIZED (
    SELECT count(*) AS rows, min(claimed_at) AS oldest
    FROM idempotency_keys
    WHERE ctid >= format('(%s,0)', $1::int8)::tid AND ctid < format('(%s,0)', $1::int8 + $2::int8)::tid
), gone AS (
    DELETE FROM idempotency_keys
    WHERE ctid >= format('(%s,0)', $1::int8)::tid AND ctid < format('(%s,0)', $1::int8 + $2::int8)::tid
      AND claimed_at < now() - $3::int8 * interval '1 millisecond'
    RETURNING 1
)
SELECT pg_relation_size('idempotency_keys') / current_setting('block_size')::int8 AS blocks,
       (SELECT rows FROM seen) AS seen,
       (SELECT count(*) FROM gone) AS removed,
       (SELECT (extract(epoch FROM now() - oldest) * 1000000)::int8 FROM seen) AS oldest;
