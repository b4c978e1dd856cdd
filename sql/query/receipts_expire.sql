-- `sent` without a ticket id: there is nothing to ask, so age alone ends it. $1 the batches whose pass was
-- answered, $2 receipt_max_age in milliseconds, $3 whether final states go to settled_outbox too. One row: how
-- many became expired. LATERAL … ORDER BY makes each batch one range of the primary key; joined plainly, every
-- pass read the whole table.
WITH batches AS MATERIALIZED (
    SELECT batch_id FROM unnest($1::int8[]) AS b (batch_id) ORDER BY batch_id
), locked AS MATERIALIZED (
    SELECT d.id
    FROM batches b
    CROSS JOIN LATERAL (
        SELECT x.id
        FROM dispatches x
        WHERE x.id >= b.batch_id << 20 AND x.id < (b.batch_id + 1) << 20
          AND x.state = 'sent' AND x.ticket IS NULL
          AND x.queued_at < now() - $2::int8 * interval '1 millisecond'
        ORDER BY x.id
        FOR UPDATE
    ) AS d
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
