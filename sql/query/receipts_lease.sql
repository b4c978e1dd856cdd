-- Takes the batches whose receipts are due, oldest first: $1 owner, $2 lease in milliseconds, $3 most
-- batches. The lease is a row's own mark by the database's clock: nothing stays locked while the provider
-- is asked.
WITH due AS MATERIALIZED (
    SELECT batch_id
    FROM receipt_batches
    WHERE due_at <= now() AND (leased_until IS NULL OR leased_until < now())
    ORDER BY due_at, batch_id
    LIMIT $3::int4
    FOR UPDATE SKIP LOCKED
)
UPDATE receipt_batches r
SET owner = $1::int8, leased_until = now() + $2::int8 * interval '1 millisecond'
FROM due
WHERE r.batch_id = due.batch_id
RETURNING r.batch_id, r.version;
