-- `sent` without a ticket id: there is nothing to ask, so age alone ends it. $1 the batches whose pass was
-- answered, $2 receipt_max_age in milliseconds, $3 whether final states go to settled_outbox too. One row: how
-- many became expired.
WITH locked AS MATERIALIZED (
    SELECT d.id
    FROM unnest($1::int8[]) AS b (batch_id)
    JOIN dispatches d ON d.id >= b.batch_id << 20 AND d.id < (b.batch_id + 1) << 20
    WHERE d.state = 'sent' AND d.ticket IS NULL
      AND d.queued_at < now() - $2::int8 * interval '1 millisecond'
    ORDER BY d.id
    FOR UPDATE OF d
), moved AS (
    UPDATE dispatches d
    SET state = 'expired', updated_at = clock_timestamp()
    FROM locked l
    WHERE d.id = l.id
    RETURNING d.id, d.state, d.error, d.notification_id, d.device_id, d.updated_at
), announced AS (
    INSERT INTO settled_outbox (dispatch_id, record)
    SELECT m.id, belfry_settled_record(m.id, m.notification_id, n.workspace_id, n.recipient_user_id, m.device_id,
                                       m.state, m.error, m.updated_at)
    FROM moved m
    CROSS JOIN LATERAL (
        SELECT x.workspace_id, x.recipient_user_id FROM notifications x WHERE x.id = m.notification_id LIMIT 1
    ) AS n
    WHERE $3::bool
)
SELECT count(*) AS expired FROM moved;
