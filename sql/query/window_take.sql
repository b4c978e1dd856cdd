-- A window: takes ordinals out of `unsent` where the batch is still ours (the fence of design.md §2 point 3),
-- and returns their dispatches with content and tokens as they are now. Look-ups by primary key only: OFFSET 0
-- keeps the planner from turning them into joins over whole tables.
-- $1 owner · $2 batch, $3 first, $4 stop: one row a range · $5 lease ms · $6 push_max_age ms
WITH asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (unnest($2::int8[]), unnest($3::int4[]), unnest($4::int4[])) AS a (batch_id, first, stop)
), fenced AS (
    UPDATE batches b
    SET unsent = b.unsent - t.ordinals, leased_until = clock_timestamp() + $5::int8 * interval '1 millisecond'
    FROM (SELECT batch_id, range_agg(int4range(first, stop)) AS ordinals FROM asked GROUP BY batch_id) AS t
    WHERE b.id = t.batch_id AND b.id = ANY ($2::int8[]) AND b.owner = $1
    RETURNING b.id, b.urgent
)
SELECT f.id, f.urgent, d.id AS dispatch_id, d.notification_id, d.device_id, n.workspace_id,
       n.recipient_user_id, n.traceparent,
       CASE WHEN (t.enabled AND t.user_id = n.recipient_user_id) IS NOT TRUE THEN 'DeviceChanged'
            WHEN n.expires_at <= clock_timestamp() THEN 'Expired'
            WHEN n.event_at < clock_timestamp() - $6::int8 * interval '1 millisecond' THEN 'Expired'
       END AS suppressed,
       CASE WHEN t.enabled AND t.user_id = n.recipient_user_id THEN t.token END AS token,
       n.title, n.body, n.data, n.expires_at, n.category, n.push
FROM fenced f
JOIN asked a ON a.batch_id = f.id
LEFT JOIN LATERAL (
    SELECT d.id, d.notification_id, d.device_id
    FROM dispatches d
    WHERE d.id >= (f.id << 20) + a.first AND d.id < (f.id << 20) + a.stop AND d.state = 'queued'
    ORDER BY d.id
    LIMIT a.stop - a.first) AS d ON true
LEFT JOIN LATERAL (SELECT * FROM notifications n WHERE n.id = d.notification_id OFFSET 0) AS n ON true
LEFT JOIN LATERAL (SELECT * FROM device_tokens t WHERE t.id = d.device_id OFFSET 0) AS t ON true
ORDER BY f.id, a.first, d.id;
