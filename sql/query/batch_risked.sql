-- What an owner who died had taken out of unsent and nobody has seen an outcome of. Only what lies outside
-- unsent is read: a batch never begun costs nothing.
-- $1 owner (us, now) · $2 batch · $3 after this dispatch · $4 at most
SELECT b.id, d.id AS dispatch_id, d.notification_id, d.device_id, n.workspace_id, n.recipient_user_id,
       n.traceparent
FROM batches b
CROSS JOIN LATERAL (
    SELECT d.id, d.notification_id, d.device_id
    FROM unnest('{[0,1048576)}'::int4multirange - b.unsent) AS taken
    CROSS JOIN LATERAL (
        SELECT d.id, d.notification_id, d.device_id
        FROM dispatches d
        WHERE d.id > $3 AND d.id >= (b.id << 20) + lower(taken) AND d.id < (b.id << 20) + upper(taken)
          AND d.state = 'queued'
        ORDER BY d.id
        LIMIT $4) AS d
    ORDER BY d.id
    LIMIT $4) AS d
CROSS JOIN LATERAL (SELECT * FROM notifications n WHERE n.id = d.notification_id OFFSET 0) AS n
WHERE b.id = $2 AND b.owner = $1
ORDER BY d.id;
