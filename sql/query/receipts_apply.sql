-- One answered chunk of receipts into final states. One element each: $1 dispatch, $2 the ticket asked
-- for, $3 the state its receipt gives (NULL: no receipt), $4 the receipt's error · $5 receipt_max_age in
-- milliseconds · $6 whether final states go to settled_outbox too. Guarded by state and ticket, so another poller's answer, or a replay, changes nothing.
-- Without a receipt the row stays `sent`, or expires when it was queued longer ago than receipt_max_age:
-- the provider has forgotten it. One row: how many became delivered, receipt_error, expired, how many
-- tokens were disabled.
WITH items AS MATERIALIZED (
    SELECT *
    FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[]) AS i (id, ticket, state, error)
    ORDER BY id
), locked AS MATERIALIZED (
    SELECT d.id, coalesce(i.state, 'expired') AS to_state, i.error
    FROM items i
    CROSS JOIN LATERAL (
        SELECT x.id
        FROM dispatches x
        WHERE x.id = i.id AND x.state = 'sent' AND x.ticket = i.ticket
          AND (i.state IS NOT NULL OR x.queued_at < now() - $5::int8 * interval '1 millisecond')
        LIMIT 1
        FOR UPDATE
    ) AS d
), moved AS (
    UPDATE dispatches d
    SET state = l.to_state, error = l.error, updated_at = clock_timestamp()
    FROM locked l
    WHERE d.id = l.id AND l.to_state IN ('delivered', 'receipt_error', 'expired')
    RETURNING d.id, d.state, d.error, d.notification_id, d.device_id, d.queued_at, d.updated_at
), announced AS (
    INSERT INTO settled_outbox (dispatch_id, record)
    SELECT m.id, belfry_settled_record(m.id, m.notification_id, n.workspace_id, n.recipient_user_id, m.device_id,
                                       m.state, m.error, m.updated_at)
    FROM moved m
    CROSS JOIN LATERAL (
        SELECT x.workspace_id, x.recipient_user_id FROM notifications x WHERE x.id = m.notification_id LIMIT 1
    ) AS n
    WHERE $6::bool
), gone AS MATERIALIZED (
    SELECT m.device_id, n.recipient_user_id AS user_id, max(m.queued_at) AS queued_at
    FROM moved m
    JOIN notifications n ON n.id = m.notification_id
    WHERE m.state = 'receipt_error' AND m.error = 'DeviceNotRegistered'
    GROUP BY m.device_id, n.recipient_user_id
), token AS MATERIALIZED (
    SELECT t.id
    FROM gone g
    JOIN device_tokens t ON t.id = g.device_id AND t.user_id = g.user_id
    WHERE t.enabled
      AND greatest(t.registered_at, t.last_seen, t.source_at) <= g.queued_at
    ORDER BY t.token_hash -- as registrations and erasure lock them
    FOR UPDATE OF t
), disabled AS (
    UPDATE device_tokens t
    SET enabled = false, disabled_at = clock_timestamp(), disabled_reason = 'DeviceNotRegistered'
    FROM token
    WHERE t.id = token.id
    RETURNING t.id, t.user_id, t.disabled_at
), history AS (
    INSERT INTO device_history (device_id, at, change, user_id, reason)
    SELECT id, disabled_at, 'disabled', user_id, 'DeviceNotRegistered'
    FROM disabled
)
SELECT (SELECT count(*) FROM moved WHERE state = 'delivered') AS delivered,
       (SELECT count(*) FROM moved WHERE state = 'receipt_error') AS receipt_error,
       (SELECT count(*) FROM moved WHERE state = 'expired') AS expired,
       (SELECT count(*) FROM disabled) AS disabled;
