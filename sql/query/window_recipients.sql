-- Whom the pushes of these ordinals are for: their preferences are asked for before the window is taken. Reads
-- only; look-ups by primary key only, as in window_take.sql.
-- $1 batch, $2 first, $3 stop: one row a range
SELECT DISTINCT n.recipient_user_id
FROM ROWS FROM (unnest($1::int8[]), unnest($2::int4[]), unnest($3::int4[])) AS a (batch_id, first, stop)
CROSS JOIN LATERAL (
    SELECT d.notification_id
    FROM dispatches d
    WHERE d.id >= (a.batch_id << 20) + a.first AND d.id < (a.batch_id << 20) + a.stop AND d.state = 'queued'
    ORDER BY d.id
    LIMIT a.stop - a.first) AS d
CROSS JOIN LATERAL (
    SELECT n.recipient_user_id FROM notifications n WHERE n.id = d.notification_id OFFSET 0) AS n;
