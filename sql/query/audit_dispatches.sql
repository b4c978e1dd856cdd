-- A page of dispatches in id order: $1 after this id, $2 at most. One row with finding NULL: the last id
-- (NULL: there are no more), how many, how long the oldest `queued` and `sent` have waited; and one row for
-- each that breaks an invariant. Look-ups by key (OFFSET 0): a page's cost does not grow with the tables.
WITH page AS MATERIALIZED (
    SELECT id, notification_id, state, queued_at
    FROM dispatches
    WHERE id > $1::int8
    ORDER BY id
    LIMIT $2::int4
)
SELECT NULL AS finding, max(id) AS id, count(*) AS rows,
       coalesce((extract(epoch FROM statement_timestamp()
                         - min(queued_at) FILTER (WHERE state = 'queued')) * 1000000)::int8, 0) AS queued_us,
       coalesce((extract(epoch FROM statement_timestamp()
                         - min(queued_at) FILTER (WHERE state = 'sent')) * 1000000)::int8, 0) AS sent_us
FROM page
UNION ALL
SELECT 'dispatch_without_notification', p.id, 0, 0, 0
FROM page p
LEFT JOIN LATERAL (SELECT n.id FROM notifications n WHERE n.id = p.notification_id OFFSET 0) AS n ON true
WHERE n.id IS NULL
UNION ALL
SELECT 'sent_without_receipt_batch', p.id, 0, 0, 0
FROM page p
WHERE p.state = 'sent' AND NOT EXISTS (SELECT FROM receipt_batches r WHERE r.batch_id = p.id >> 20)
UNION ALL
SELECT 'queued_without_batch', p.id, 0, 0, 0
FROM page p
WHERE p.state = 'queued' AND NOT EXISTS (SELECT FROM batches b WHERE b.id = p.id >> 20);
