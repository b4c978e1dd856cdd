-- Exports that are over and whose rows are gone: $1 most rows, $2 how long one is still told as expired or failed,
-- and its Idempotency-Key recognised, in milliseconds. One row: exports there are, removed, age of the oldest in
-- microseconds.
WITH ended AS MATERIALIZED (
    SELECT e.id
    FROM exports e
    WHERE e.state IN ('expired', 'failed')
      AND coalesce(e.expires_at, e.finished_at, e.created_at) < now() - $2::int8 * interval '1 millisecond'
      AND NOT EXISTS (SELECT FROM export_rows r WHERE r.export_id = e.id)
    LIMIT $1::int4
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM exports
    WHERE id = ANY (ARRAY(SELECT id FROM ended))
    RETURNING 1
)
SELECT count(*) AS seen,
       (SELECT count(*) FROM gone) AS removed,
       (extract(epoch FROM now() - min(created_at)) * 1000000)::int8 AS oldest
FROM exports;
