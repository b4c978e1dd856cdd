-- `sent` without a ticket id: there is nothing to ask, so age alone ends it. $1 the batches whose pass was
-- answered, $2 receipt_max_age in milliseconds. Rows touched: how many became expired.
WITH locked AS MATERIALIZED (
    SELECT d.id
    FROM unnest($1::int8[]) AS b (batch_id)
    JOIN dispatches d ON d.id >= b.batch_id << 20 AND d.id < (b.batch_id + 1) << 20
    WHERE d.state = 'sent' AND d.ticket IS NULL
      AND d.queued_at < now() - $2::int8 * interval '1 millisecond'
    ORDER BY d.id
    FOR UPDATE OF d
)
UPDATE dispatches d
SET state = 'expired', updated_at = clock_timestamp()
FROM locked l
WHERE d.id = l.id;
