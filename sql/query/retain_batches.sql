-- Batches in receipt_batches that polling has left behind: nothing of them is `sent`, and their look has been due
-- for long. $1 after this batch, $2 most rows, $3 for how long, in milliseconds. As receipts_finish.sql, only at
-- the version that was seen: a `sent` that commits meanwhile raises it. One row: last batch, rows seen, rows
-- removed, age of the oldest seen in microseconds (of its due_at).
WITH page AS MATERIALIZED (
    SELECT batch_id, version, due_at, leased_until
    FROM receipt_batches
    WHERE batch_id > $1::int8
    ORDER BY batch_id
    LIMIT $2::int4
), settled AS MATERIALIZED (
    SELECT p.batch_id, p.version
    FROM page p
    WHERE p.due_at < now() - $3::int8 * interval '1 millisecond'
      AND (p.leased_until IS NULL OR p.leased_until < now())
      AND NOT EXISTS (SELECT FROM dispatches d
                      WHERE d.id >= p.batch_id << 20 AND d.id < (p.batch_id + 1) << 20 AND d.state = 'sent'
                      OFFSET 0) -- batch by batch, and no join with all of dispatches
), locked AS MATERIALIZED (
    SELECT r.batch_id
    FROM settled s
    JOIN receipt_batches r ON r.batch_id = s.batch_id
    WHERE r.version = s.version AND (r.leased_until IS NULL OR r.leased_until < now())
    ORDER BY r.batch_id
    FOR UPDATE OF r SKIP LOCKED
), gone AS (
    DELETE FROM receipt_batches r
    WHERE r.batch_id = ANY (ARRAY(SELECT batch_id FROM locked))
    RETURNING r.batch_id
)
SELECT (SELECT max(batch_id) FROM page) AS last,
       (SELECT count(*) FROM page) AS seen,
       (SELECT count(*) FROM gone) AS removed,
       (SELECT greatest(0, (extract(epoch FROM now() - min(due_at)) * 1000000)::int8) FROM page) AS oldest;
