-- What waits: name, how many, for how many microseconds the oldest has (0: none does). receipt_batches wait
-- from when they are due: a batch that is not due yet does not.
SELECT q.name, q.items, greatest(0, (extract(epoch FROM statement_timestamp() - q.since) * 1000000)::int8)
FROM (
    SELECT 'batches' AS name, count(*) AS items, min(created_at) AS since FROM batches
    UNION ALL
    SELECT 'receipt_batches', count(*), min(due_at) FROM receipt_batches
    UNION ALL
    SELECT 'settled_outbox', count(*),
           (SELECT (s.record ->> 'at')::timestamptz FROM settled_outbox s ORDER BY s.id LIMIT 1)
    FROM settled_outbox
    UNION ALL
    SELECT 'exports', count(*), min(created_at) FROM exports WHERE state IN ('queued', 'running')
) AS q;
