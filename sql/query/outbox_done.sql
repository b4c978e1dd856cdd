-- Published rows go: $1 their ids · $2 the dispatches of first versions that were sent, acknowledged or not; both
-- ascending. Where the second version stands by now, it is queued once more: a publisher that was held up may
-- have put the first one behind it, and a compacted topic keeps the last. Dispatches are locked before the
-- outbox's rows, as erasure does. One row: how many went, how many were queued again.
WITH first AS MATERIALIZED (
    SELECT d.*
    FROM unnest($2::int8[]) AS f (id)
    CROSS JOIN LATERAL (
        SELECT x.id, x.notification_id, x.device_id, x.state, x.error, x.updated_at
        FROM dispatches x
        WHERE x.id = f.id AND x.state NOT IN ('queued', 'sent')
          AND NOT (x.state = 'failed' AND x.error = 'Unconfirmed')
        LIMIT 1
        FOR UPDATE
    ) AS d
), again AS (
    INSERT INTO settled_outbox (dispatch_id, record)
    SELECT f.id, belfry_settled_record(f.id, f.notification_id, n.workspace_id, n.recipient_user_id, f.device_id,
                                       f.state, f.error, f.updated_at)
    FROM first f
    JOIN notifications n ON n.id = f.notification_id
    RETURNING id
), gone AS (
    DELETE FROM settled_outbox o
    WHERE o.id = ANY ($1::int8[]) AND (SELECT count(*) FROM again) >= 0
    RETURNING o.id
)
SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM again) AS again;
